"""From where to where an index runs, while some of its variables do."""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import gcd

from ...expr import Expr, FloorDiv, FloorMod, IntImm, Var, free_vars
from ...expr.bounds import BoundAnalyzer, ConstIntBound
from ...lower.analysis.linear import linear, number
from ...lower.analysis.regions import Table, interval_of
from .guards import with_limits
from .program import Bounds, Form
from .quotients import bound_of, quotient, remainder, sum_of

Span = tuple[Mapping[Expr, int], int, int]  # a sum of terms, and two numbers that are added to it


class Spans:
    """Spans of indices, while all variables run but those kept.

    Args:
        kept: variables that stand still.
        ranges: of all variables.
        limits: of sums, as predicates say.
    """

    def __init__(self, kept: Set[Expr], ranges: Bounds, limits: Bounds) -> None:
        self.kept = kept
        self.bounds = BoundAnalyzer(with_limits(ranges, limits) if limits else ranges)
        self.limits = [(linear(expr).terms, bound) for expr, bound in limits.items()]

    def between(self, low: Form, high: Form) -> Span | None:
        """What is between two indices; None if that is not known."""
        first = self.of(low)
        if low is high or first is None:
            return first
        last = self.of(high)
        return None if last is None or last[0] != first[0] else (first[0], first[1], last[2])

    def of(self, form: Form) -> Span | None:
        """What one index runs over."""
        outer: dict[Expr, int] = {}
        inner: dict[Expr, int] = {}
        for term, factor in form.terms.items():
            if isinstance(term, Var):
                stands = term in self.kept
            else:
                variables = free_vars(term)
                stands = variables <= self.kept
                if not stands and not variables.isdisjoint(self.kept):
                    return self._mixed(form)
            (outer if stands else inner)[term] = factor
        low, high = bound_of(Form(form.dtype, inner, form.const), self.bounds)
        for terms, limit in self.limits:
            bound = self._limited(inner, terms, limit)
            if bound is not None:
                low, high = max(low, bound[0] + form.const), min(high, bound[1] + form.const)
        return outer, low, high

    def _limited(
        self, inner: Mapping[Expr, int], terms: Mapping[Expr, int], limit: ConstIntBound
    ) -> tuple[int, int] | None:
        """The bounds of terms that a multiple of a limited sum is part of."""
        times = {inner.get(term, 0) / factor for term, factor in terms.items()}
        if len(times) != 1 or (scale := times.pop()) < 1 or scale != int(scale):
            return None
        rest = {term: factor for term, factor in inner.items() if term not in terms}
        low = high = 0
        for term, factor in rest.items():
            ends = self.bounds.of(term)
            low += min(ends[0] * factor, ends[1] * factor)
            high += max(ends[0] * factor, ends[1] * factor)
        return low + limit[0] * int(scale), high + limit[1] * int(scale)

    def _mixed(self, form: Form) -> Span | None:
        """The same, where variables of both kinds stand in one quotient or remainder."""
        apart = self._apart(form)
        if apart is not form:
            return self.of(apart)
        table = Table()
        for var, (first, last) in self.bounds.facts.items():
            if isinstance(var, Var) and var not in self.kept:
                table[var] = number(first), number(last)
        ends = interval_of(form, table)
        if ends is None or ends[0].terms != ends[1].terms:
            return None
        return ends[0].terms, ends[0].const, ends[1].const

    def _apart(self, form: Form) -> Form:
        """The sum with quotients and remainders of kept variables alone where what else is in them
        is too small to matter."""
        for term, factor in form.terms.items():
            if not isinstance(term, FloorDiv | FloorMod) or not isinstance(term.b, IntImm):
                continue
            divisor, total = term.b.value, sum_of(term.a)
            outer = {t: k for t, k in total.terms.items() if free_vars(t) <= self.kept}
            rest = {t: k for t, k in total.terms.items() if t not in outer}
            inner = Form(total.dtype, rest, total.const)
            low, high = bound_of(inner, self.bounds)
            if not outer or not rest or low < 0 or high >= gcd(divisor, *outer.values()):
                continue
            others, alone = form.without(term), Form(total.dtype, outer, 0)
            if isinstance(term, FloorDiv):
                return others.plus(quotient(alone, divisor, self.bounds), factor)
            return others.plus(remainder(alone, divisor, self.bounds).plus(inner), factor)
        return form
