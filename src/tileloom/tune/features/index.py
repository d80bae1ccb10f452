"""What an index says: its bounds, how far a loop moves it, and how much arithmetic it is.

An index is a sum of loop variables and of other terms, with the largest factors first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from ...expr import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Var,
    free_vars,
    post_order,
)
from ...expr.bounds import BoundAnalyzer, ConstIntBound, const_int_bound
from .counts import ADDSUB, INT, MUL, ZEROS, plus, summary
from .program import Form
from .quotients import expr_of


def is_plain(form: Form) -> bool:
    """Whether all terms are variables."""
    return all(isinstance(term, Var) for term in form.terms)


def variables_of(form: Form) -> Iterable[Var]:
    """The variables that stand in an index."""
    return dict.fromkeys(var for term in form.terms for var in free_vars(term))


class TermBounds:
    """Bounds of a term that is no variable, while more and more of its variables run.

    As in TVM, what is known of remainders is what held while all variables stood still: there
    `x % c` seems to be one number, or a few where the operand of the remainder has one itself.
    """

    def __init__(self, term: Expr, firsts: Mapping[Var, int]) -> None:
        self._term = term
        self.still = const_int_bound(term, {var: (first, first) for var, first in firsts.items()})
        known = BoundAnalyzer({var: ConstIntBound(x, x) for var, x in firsts.items()})
        self._facts: dict[Expr, ConstIntBound] = {}
        for part in post_order(term):
            if isinstance(part, FloorMod) and isinstance(part.b, IntImm) and part.b.value > 0:
                divisor, step = part.b.value, _step(part)
                rest = known.of(part)[0] % step
                self._facts[part] = ConstIntBound(rest, divisor - step + rest)

    def of(self, ranges: Mapping[Var, tuple[int, int]]) -> ConstIntBound:
        """The bounds while the variables have these."""
        facts = self._facts.copy()
        for var, ends in ranges.items():
            facts[var] = ConstIntBound(*ends)
        return BoundAnalyzer(facts).of(self._term)


def _step(expr: Expr) -> int:
    """What all values of an expression differ by a multiple of, if its variables stand still but
    for multiples of the divisors of remainders."""
    match expr:
        case Var() | IntImm():
            return 0
        case Add(a, b) | Sub(a, b):
            return gcd(_step(a), _step(b))
        case Mul(a, IntImm() as factor):
            return _step(a) * abs(factor.value)
        case FloorDiv(a, IntImm() as divisor) if divisor.value and _step(a) % divisor.value == 0:
            return _step(a) // abs(divisor.value)
        case FloorMod(a, IntImm() as divisor):
            return gcd(_step(a), divisor.value)
        case _:
            return 1


def arithmetic(form: Form) -> tuple[int, ...]:
    """The operations of an index, by kind."""
    factors = form.terms.values()
    adds = len(factors) - 1 + (form.const != 0) if factors else 0
    muls = sum(factor not in (1, -1) for factor in factors)
    counts = list(ZEROS)
    counts[ADDSUB + INT], counts[MUL + INT] = adds, muls
    result = tuple(counts)
    for term in form.terms:
        if not isinstance(term, Var):
            result = plus(result, summary(term).counts)
    return result


def coefficients(form: Form) -> dict[Var, int]:
    """By how much each variable is taken to move the index, as TVM tells it.

    It is no derivative: of the factors that stand at or behind a variable, the last one counts,
    and a variable without a factor counts once, or twice where it stands only inside a division.

    >>> from tileloom.lower.analysis.linear import linear
    >>> i, j, k = Var("i"), Var("j"), Var("k")
    >>> coefficients(linear(i * 32 + j * 4 + k))
    {i: 4, j: 4, k: 1}
    """
    factors = form.terms.values()
    if not is_plain(form) or any(factor < 0 for factor in factors):
        expr = expr_of(form)
        return {var: _coefficient(expr, var) for var in variables_of(form)}
    last = min((factor for factor in factors if factor > 1), default=1)
    return {term: 1 if factor == 1 else last for term, factor in form.terms.items()}  # type: ignore[misc]


class _Seen:
    """What has been seen of one variable on a walk over an expression."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.var_seen = self.product_seen = self.sum_seen = False
        self.step = 0

    def visit(self, expr: Expr) -> None:
        for child in expr.children:
            self.visit(child)
        if expr is self.var:
            self.var_seen, self.step = True, 2
        elif not self.var_seen:
            return
        elif isinstance(expr, Mul) and not self.sum_seen:
            factor = next((x for x in (expr.a, expr.b) if isinstance(x, IntImm)), None)
            if factor is not None:
                self.product_seen, self.step = True, factor.value
        elif isinstance(expr, Add) and not self.product_seen:
            self.sum_seen, self.step = True, 1


def _coefficient(expr: Expr, var: Var) -> int:
    seen = _Seen(var)
    seen.visit(expr)
    if not seen.var_seen:
        return 0
    return seen.step if seen.product_seen or seen.sum_seen else 1
