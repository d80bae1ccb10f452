"""Symbolic intervals: what an expression lies between while variables run over their ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

from .bounds import ConstIntBound
from .build import binary
from .nodes import (
    Add,
    Call,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)
from .reduction import Range
from .walk import free_vars


class Knowledge(Protocol):
    """What the intervals ask of an analyzer."""

    def copy(self) -> Self:
        """One that can be told more."""

    def bind_bound(self, var: Var, low: int, high: int) -> None:
        """Tell that the variable lies between two constants."""

    def simplify(self, expr: Any) -> Expr:
        """The simplest known form."""

    def can_prove(self, condition: Any) -> bool:
        """Whether the condition always holds."""

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Whether both always have one value."""

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Constant bounds."""


class IntSet(NamedTuple):
    """All integers from `min_value` to `max_value`, both included; None is an open end."""

    min_value: Expr | None
    max_value: Expr | None

    @property
    def is_point(self) -> bool:
        """Whether there is one value."""
        return self.min_value is not None and self.min_value is self.max_value


EVERYTHING = IntSet(None, None)
Domains = Mapping[Var, "Range | IntSet"]


def int_set(analyzer: Knowledge, expr: Expr, domains: Domains) -> IntSet:
    """The interval of `expr` over the domains; other variables stay in it as symbols.

    >>> from .analyzer import Analyzer
    >>> i, n = Var("i"), Var("n")
    >>> int_set(Analyzer(), i * 2 + n, {i: Range(0, 8)})
    IntSet(min_value=n, max_value=n + 14)
    """
    evaluator = _Evaluator(analyzer, domains)
    return evaluator.of(analyzer.simplify(expr))


def union(analyzer: Knowledge, a: IntSet, b: IntSet) -> IntSet:
    """The smallest interval that holds both."""
    return IntSet(
        _ends(analyzer, Min, a.min_value, b.min_value),
        _ends(analyzer, Max, a.max_value, b.max_value),
    )


def intersect(analyzer: Knowledge, a: IntSet, b: IntSet) -> IntSet:
    """What is in both."""
    low = a.min_value if b.min_value is None else b.min_value if a.min_value is None else None
    high = a.max_value if b.max_value is None else b.max_value if a.max_value is None else None
    if a.min_value is not None and b.min_value is not None:
        low = analyzer.simplify(binary(Max, a.min_value, b.min_value))
    if a.max_value is not None and b.max_value is not None:
        high = analyzer.simplify(binary(Min, a.max_value, b.max_value))
    return IntSet(low, high)


def _ends(analyzer: Knowledge, kind: type[Any], a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else analyzer.simplify(binary(kind, a, b))


class _Evaluator:
    def __init__(self, analyzer: Knowledge, domains: Domains) -> None:
        self.analyzer = analyzer
        self.domains = {v: self._domain(v, domain) for v, domain in domains.items()}
        self._memo: dict[Expr, IntSet] = {}

    def _domain(self, var: Var, domain: Range | IntSet) -> IntSet:
        if isinstance(domain, IntSet):
            return domain
        first, extent = domain.min.astype(var.dtype), domain.extent.astype(var.dtype)
        simple = self.analyzer.simplify
        return IntSet(simple(first), simple(first + extent - 1))

    def of(self, expr: Expr) -> IntSet:
        """The interval of a simplified expression."""
        found = self._memo.get(expr)
        if found is None:
            found = self._memo[expr] = self._evaluate(expr)
        return found

    def _evaluate(self, expr: Expr) -> IntSet:
        if isinstance(expr, Var) and expr in self.domains:
            return self.domains[expr]
        if free_vars(expr).isdisjoint(self.domains):
            return IntSet(expr, expr)
        match expr:
            case Add(a, b):
                x, y = self.of(a), self.of(b)
                return self._both(Add, x.min_value, y.min_value, x.max_value, y.max_value)
            case Sub(a, b):
                x, y = self.of(a), self.of(b)
                return self._both(Sub, x.min_value, y.max_value, x.max_value, y.min_value)
            case Mul(a, b):
                return self._product(a, b)
            case FloorDiv(a, b):
                return self._monotonic(expr, a, b)
            case FloorMod(a, b):
                return self._remainder(expr, a, b)
            case Min(a, b) | Max(a, b):
                x, y = self.of(a), self.of(b)
                return self._extremum(type(expr), x, y)
            case Select(_, a, b) | Call(_, "tir.if_then_else", (_, a, b)):
                return union(self.analyzer, self.of(a), self.of(b))
            case Call(_, "tir.likely", (a,)):
                return self.of(a)
            case Cast(kind, value) if kind.is_int and value.dtype.is_int:
                x = self.of(value)
                return IntSet(*(None if end is None else end.astype(kind) for end in x))
            case _:
                return self._constant(expr)

    def _constant(self, expr: Expr) -> IntSet:
        """Of what has no rule: constant bounds, if they say more than the type."""
        low, high = self._constant_bound(expr)
        if high - low >= (1 << 31) - 1:
            return EVERYTHING
        return IntSet(IntImm(expr.dtype, low), IntImm(expr.dtype, high))

    def _constant_bound(self, expr: Expr) -> tuple[int, int]:
        known = self.analyzer.copy()
        for var, domain in self.domains.items():
            if isinstance(domain.min_value, IntImm) and isinstance(domain.max_value, IntImm):
                known.bind_bound(var, domain.min_value.value, domain.max_value.value)
        return known.const_int_bound(expr)

    def _both(
        self, kind: type[Any], a: Expr | None, b: Expr | None, c: Expr | None, d: Expr | None
    ) -> IntSet:
        simple = self.analyzer.simplify
        low = None if a is None or b is None else simple(binary(kind, a, b))
        high = None if c is None or d is None else simple(binary(kind, c, d))
        return IntSet(low, high)

    def _extremum(self, kind: type[Any], x: IntSet, y: IntSet) -> IntSet:
        """An open end of one side may still be cut by the other."""
        low = _ends(self.analyzer, kind, x.min_value, y.min_value)
        high = _ends(self.analyzer, kind, x.max_value, y.max_value)
        if kind is Min and high is None:
            high = x.max_value if y.max_value is None else y.max_value
        if kind is Max and low is None:
            low = x.min_value if y.min_value is None else y.min_value
        return IntSet(low, high)

    def _product(self, a: Expr, b: Expr) -> IntSet:
        x, y = self.of(a), self.of(b)
        if x.is_point:
            x, y = y, x
        factor = y.min_value
        if not y.is_point or factor is None:
            return self._constant(a * b)
        if self.analyzer.can_prove(factor >= 0):
            return self._both(Mul, x.min_value, factor, x.max_value, factor)
        if self.analyzer.can_prove(factor <= 0):
            return self._both(Mul, x.max_value, factor, x.min_value, factor)
        return EVERYTHING

    def _monotonic(self, expr: Expr, a: Expr, b: Expr) -> IntSet:
        x, y = self.of(a), self.of(b)
        divisor = y.min_value
        if y.is_point and divisor is not None and self.analyzer.can_prove(divisor > 0):
            return self._both(FloorDiv, x.min_value, divisor, x.max_value, divisor)
        return self._constant(expr)

    def _remainder(self, expr: Expr, a: Expr, b: Expr) -> IntSet:
        x, y = self.of(a), self.of(b)
        divisor = y.min_value
        if not y.is_point or divisor is None or not self.analyzer.can_prove(divisor > 0):
            return self._constant(expr)
        if x.min_value is not None and x.max_value is not None:
            first, last = x.min_value // divisor, x.max_value // divisor
            if self.analyzer.can_prove_equal(first, last):
                return self._both(Sub, x.min_value, first * divisor, x.max_value, first * divisor)
        simple = self.analyzer.simplify
        return IntSet(simple(divisor * 0), simple(divisor - 1))
