"""The analyzer: what is known of variables, and the questions one can ask under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .assume import assume
from .bounds import ConstIntBound, is_index
from .build import as_expr, binary
from .extents import limits_of_variables
from .facts import Facts
from .int_set import Domains, IntSet, int_set
from .modular import ModularSet, modular
from .nodes import EQ, GE, LE, LT, Call, Expr, IntImm, Var
from .operators import ExprLike
from .rebuild import is_pure
from .reduction import Range
from .simplifier import Simplifier
from .walk import rewrite


class Analyzer:
    """Simplification and proofs under facts about variables and the conditions in force.

    Everything is memoised until a fact is added; leaving a `constraint` scope restores the memo of
    the outer one.

    >>> i, n = Var("i"), Var("n"); analyzer = Analyzer({i: Range(0, 16)})
    >>> analyzer.simplify((i * 4 + 3) // 4), analyzer.can_prove(i * 4 + 3 < 64)
    (i, True)
    >>> with analyzer.constraint(i < n):
    ...     print(analyzer.simplify(i < n), analyzer.can_prove(n > 0))
    T.bool(True) True
    """

    def __init__(self, domains: Mapping[Var, Range] | None = None) -> None:
        self._facts = Facts()
        rest: dict[Var, Range] = {}
        for var, domain in (domains or {}).items():
            if rest or not _bind_numbers(self._facts, var, domain):
                rest[var] = domain
        self._simplifier = Simplifier(self._facts)
        for var, domain in rest.items():
            self.bind(var, domain)

    def bind(self, var: Var, value: Range | ExprLike) -> None:
        """Tell that the variable lies in a range, or stands for an expression."""
        if isinstance(value, Range):
            self._bind_range(var, value)
            return
        facts = self._facts.copy()
        facts.values[var] = self.simplify(as_expr(value, var.dtype))
        self._enter(facts)

    def _bind_range(self, var: Var, domain: Range) -> None:
        if not isinstance(domain.extent, IntImm):
            sizes = limits_of_variables(domain.extent)
            if sizes:
                self.bind_bounds(sizes)
        facts = self._facts.copy()
        if _bind_numbers(facts, var, domain):
            self._enter(facts)
            return
        least, extent = self.simplify(domain.min), self.simplify(domain.extent)
        if not is_index(var.dtype):
            low, high = self.const_int_bound(least), self.const_int_bound(extent)
            facts.restrict(var, ConstIntBound(low[0], low[1] + high[1] - 1))
        elif isinstance(extent, IntImm) and extent.value == 1:
            facts.values[var] = least.astype(var.dtype)
        else:
            first, size = least.astype(var.dtype), extent.astype(var.dtype)
            linear = self._simplifier.linear
            facts.at_most_zero(linear(first).plus(linear(var), -1))
            facts.at_most_zero(
                linear(var).plus(linear(first), -1).plus(linear(size), -1).shifted(1)
            )
            low, high = self.const_int_bound(first), self.const_int_bound(first + size)
            facts.restrict(var, ConstIntBound(low[0], high[1] - 1))
        self._enter(facts)

    def bind_bound(self, var: Var, low: int, high: int) -> None:
        """Tell that the variable lies between two constants, both included."""
        self.bind_bounds({var: (low, high)})

    def bind_bounds(self, ends: Mapping[Var, tuple[int, int]]) -> None:
        """Tell that each variable lies between its two constants, both included."""
        facts = self._facts.copy()
        for var, (low, high) in ends.items():
            facts.restrict(var, ConstIntBound(low, high))
        self._enter(facts)

    def bind_modular(self, var: Var, coeff: int, base: int = 0) -> None:
        """Tell that the variable is `coeff * k + base` for some integer `k`."""
        facts = self._facts.copy()
        facts.modular[var] = modular(coeff, base)
        self._enter(facts)

    def copy(self) -> Analyzer:
        """An analyzer that knows the same and can be told more."""
        result = Analyzer()
        result._facts, result._simplifier = self._facts, self._simplifier
        return result

    def _enter(self, facts: Facts) -> None:
        self._facts = facts
        self._simplifier = Simplifier(facts)

    @contextmanager
    def constraint(self, condition: ExprLike) -> Iterator[None]:
        """A scope in which the condition holds."""
        outer = self._facts, self._simplifier
        facts = self._facts.copy()
        simple = self.simplify(as_expr(condition))
        if is_pure(simple):
            assume(self._simplifier, facts, simple)
        self._enter(facts)
        try:
            yield
        finally:
            self._facts, self._simplifier = outer

    def simplify(self, expr: ExprLike) -> Expr:
        """The simplest known form; equal index maps become one expression."""
        return self._simplifier.simplify(as_expr(expr))

    def can_prove(self, condition: ExprLike) -> bool:
        """Whether the condition holds for all values; False also when that is not known."""
        return is_true(self.simplify(without_likely(as_expr(condition))))

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether both always have one value."""
        return as_expr(a) is as_expr(b) or self.can_prove(binary(EQ, a, b))

    def can_prove_less(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether `a < b` always."""
        return self.can_prove(binary(LT, a, b))

    def can_prove_less_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether `a <= b` always."""
        return self.can_prove(binary(LE, a, b))

    def can_prove_greater_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether `a >= b` always."""
        return self.can_prove(binary(GE, a, b))

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """Constant bounds, also through cancellation: `i - i` is in [0, 0]."""
        node = as_expr(expr)
        found = self._simplifier.bound_of(node)
        if node.dtype.lanes == 1 and is_index(node.dtype) and is_pure(node):
            found = found.intersect(self._simplifier.bound(self._simplifier.linear(node)))
        return found

    def int_set(self, expr: ExprLike, domains: Domains) -> IntSet:
        """The interval of the value while variables run over their domains, with symbolic ends.

        >>> i, n = Var("i"), Var("n"); Analyzer().int_set(i * 2 + n, {i: Range(0, 8)})
        IntSet(min_value=n, max_value=n + 14)
        """
        return int_set(self, as_expr(expr), domains)

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """What is known of the value modulo something."""
        node = as_expr(expr)
        if node.dtype.lanes == 1 and is_index(node.dtype) and is_pure(node):
            return self._simplifier.remainders(self._simplifier.linear(node))
        return self._simplifier.moduli.of(node)


def is_true(condition: Expr) -> bool:
    """Whether the condition is the constant true."""
    return isinstance(condition, IntImm) and condition.value != 0


def without_likely(condition: Expr) -> Expr:
    """The condition without the hints that it is likely."""

    def strip(node: Expr) -> Expr | None:
        return node.args[0] if isinstance(node, Call) and node.op == "tir.likely" else None

    return rewrite(condition, strip)


def simplify(expr: ExprLike) -> Expr:
    """The simplest form of an expression of which nothing is known.

    >>> x, y = Var("x"), Var("y")
    >>> simplify((x * 8 + y) // 4 * 4 + (x * 8 + y) % 4), simplify(y + x) is simplify(x + y)
    (x * 8 + y, True)
    """
    return Analyzer().simplify(expr)


def _bind_numbers(facts: Facts, var: Var, domain: Range) -> bool:
    """Note a range between constants of an index that nothing is known of; whether it is that."""
    low, extent = domain.min, domain.extent
    if type(low) is not IntImm or type(extent) is not IntImm or not is_index(var.dtype):
        return False
    if var in facts.bounds or var in facts.values:
        return False
    if extent.value == 1:
        facts.values[var] = low.astype(var.dtype)
    else:
        facts.restrict(var, ConstIntBound(low.value, low.value + extent.value - 1))
    return True
