"""What an analyzer has been told: bounds, remainders, truths, and inequalities between sums."""

from __future__ import annotations

from math import gcd

from ..base.errors import InternalError
from ..base.late import TYPE_CHECKING
from ..base.record import Record, field
from .bounds import BoundAnalyzer, ConstIntBound, type_range
from .linear import Linear, atom, factors, multiply, quotient
from .modular import ModularSet
from .nodes import Expr, Max, Min, Mul, Var
from .order import order_key
from .polynomials import bounds_of_products

if TYPE_CHECKING:
    from collections.abc import Callable

DEPTH = 3  # how many inequalities a proof may chain
UNKNOWN = 1 << 200  # beyond every value of every type


class Inequality(Record):
    """`low <= sum of terms <= high`; the terms have no common divisor."""

    terms: Linear
    low: int = -UNKNOWN
    high: int = UNKNOWN


class Facts(Record):
    """The facts of one scope. `copy` makes those of a nested one."""

    bounds: dict[Expr, ConstIntBound] = field(default_factory=dict)
    modular: dict[Expr, ModularSet] = field(default_factory=dict)
    values: dict[Var, Expr] = field(default_factory=dict)
    truths: dict[Expr, bool] = field(default_factory=dict)
    sums: dict[frozenset[tuple[Expr, int]], Inequality] = field(default_factory=dict)

    def copy(self) -> Facts:
        """A set of facts to which more can be added."""
        return Facts(
            dict(self.bounds),
            dict(self.modular),
            dict(self.values),
            dict(self.truths),
            dict(self.sums),
        )

    def restrict(self, expr: Expr, bound: ConstIntBound) -> None:
        """Note that `expr` lies in the bounds."""
        known = self.bounds.get(expr, type_range(expr.dtype))
        self.bounds[expr] = known.intersect(bound)

    def at_most_zero(self, value: Linear) -> None:
        """Note that the sum is not positive."""
        if not value.terms:
            return
        g = gcd(*value.terms.values())
        first = min(value.terms, key=order_key)
        sign = 1 if value.terms[first] > 0 else -1
        limit = -value.const // g
        primitive = {t: k // g * sign for t, k in value.terms.items()}
        low, high = (-UNKNOWN, limit) if sign > 0 else (-limit, UNKNOWN)
        if len(primitive) == 1:
            everything = type_range(value.dtype)
            self.restrict(first, ConstIntBound(max(low, everything[0]), min(high, everything[1])))
            return
        key = frozenset(primitive.items())
        known = self.sums.get(key)
        if known is not None:
            low, high = max(low, known.low), min(high, known.high)
        self.sums[key] = Inequality(Linear(value.dtype, primitive, 0), low, high)


def interval(bounds: BoundAnalyzer, value: Linear) -> ConstIntBound:
    """The bounds of a sum from those of its terms."""
    low = high = value.const
    memo = bounds.memo
    for term, k in value.terms.items():
        least, most = memo.get(term) or bounds.of(term)
        if k > 0:
            low += k * least
            high += k * most
        else:
            low += k * most
            high += k * least
    if low < 0 < high and any(type(term) is Mul for term in value.terms):
        products = {tuple(factors(term)): k for term, k in value.terms.items()}
        found = bounds_of_products({**products, (): value.const}, bounds.of)
        if found is not None:
            return ConstIntBound(max(low, found[0]), min(high, found[1]))
    return ConstIntBound(low, high)


class Prover:
    """Bounds of sums by chaining inequalities and looking into minima and maxima."""

    __slots__ = ("bounds", "linear", "sums")

    def __init__(self, bounds: BoundAnalyzer, facts: Facts) -> None:
        self.bounds = bounds
        self.sums = list(facts.sums.values())
        self.linear: Callable[[Expr], Linear] | None = None  # during a proof

    def bound(self, value: Linear, linear: Callable[[Expr], Linear]) -> ConstIntBound:
        """The tightest bounds found; `linear` gives the sums of what is in minima and maxima."""
        found = interval(self.bounds, value)
        if len(value.terms) < 2 and not self.sums:
            return found
        if not self.sums and not any(type(t) in (Min, Max) for t in value.terms):
            return found
        if self.linear is not None:
            return found  # canonical forms asked for on the way ask for bounds: no proof in a proof
        self.linear = linear
        try:
            high = min(found[1], self._upper(value, DEPTH))
            low = max(found[0], -self._upper(-value, DEPTH))
        finally:
            self.linear = None
        return ConstIntBound(low, high) if low <= high else found

    def _upper(self, value: Linear, depth: int) -> int:
        best = interval(self.bounds, value)[1]
        if depth == 0 or not value.terms:
            return best
        for term, k in value.terms.items():
            if type(term) is Min or type(term) is Max:
                best = min(best, self._upper_of_extremum(value, term, k, depth))
                break
        for known in self.sums:
            best = min(best, self._upper_by(value, known, depth))
        return best

    def _upper_of_extremum(self, value: Linear, term: Expr, k: int, depth: int) -> int:
        linear = self.linear
        if linear is None:
            raise InternalError("a bound is asked for outside of a proof")
        rest = value.plus(atom(term), -k)
        sides = [self._upper(rest.plus(linear(side), k), depth - 1) for side in term.children]
        return min(sides) if (type(term) is Min) == (k > 0) else max(sides)

    def _upper_by(self, value: Linear, known: Inequality, depth: int) -> int:
        """An upper bound of `value` that uses the inequality, directly or times a term >= 0."""
        best = UNKNOWN
        tried: set[int] = set()
        for term, k in known.terms.terms.items():
            m = value.terms.get(term, 0)
            if m and m % k == 0 and m // k not in tried:
                factor = m // k
                tried.add(factor)
                limit = known.high if factor > 0 else known.low
                rest = value.plus(known.terms, -factor)
                if abs(limit) < UNKNOWN and len(rest.terms) <= len(value.terms):
                    best = min(best, factor * limit + self._upper(rest, depth - 1))
            if abs(k) == 1:
                best = min(best, self._upper_by_product(value, known, term, k, depth))
        return best

    def _upper_by_product(
        self, value: Linear, known: Inequality, term: Expr, k: int, depth: int
    ) -> int:
        best = UNKNOWN
        for t, m in value.terms.items():
            if type(t) is not Mul or term not in factors(t):
                continue
            other = quotient(t, term)
            if not isinstance(other, Expr) or self.bounds.of(other)[0] < 0:
                continue
            factor = m * k
            limit = known.high if factor > 0 else known.low
            if abs(limit) >= UNKNOWN:
                continue
            rest = value.plus(multiply(known.terms, atom(other)), -factor)
            rest = rest.plus(atom(other), factor * limit)
            if len(rest.terms) <= len(value.terms):
                best = min(best, self._upper(rest, depth - 1))
        return best
