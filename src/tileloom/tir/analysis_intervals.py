"""Which values an index takes while some variables run, under the conditions in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..expr import Expr, IntImm, Let, Ramp, Range, Var, free_vars, is_int, substitute
from ..expr.analyzer import Analyzer
from ..expr.bounds import type_range
from ..expr.int_set import EVERYTHING, IntSet, int_set, union


class Intervals:
    """Evaluates expressions while the variables that have been told to run take all their values.

    Args:
        fixed: ranges of variables that do not run, which proofs may use.

    >>> i, j, n = Var("i"), Var("j"), Var("n")
    >>> intervals = Intervals(); intervals.run(i, Range(0, 4)); intervals.run(j, Range(0, i + 1))
    >>> intervals.of(n * 8 + i * 2 + j)
    IntSet(min_value=n * 8, max_value=n * 8 + 9)
    """

    def __init__(self, fixed: Mapping[Var, Range] | None = None) -> None:
        # A variable of one value is kept all the same: regions should say what they follow.
        known = {v: d for v, d in (fixed or {}).items() if not is_int(d.extent, 1)}
        self.outside = Analyzer(known)  # without the running variables
        self.inside = self.outside.copy()
        self.ends: dict[Var, IntSet] = {}

    def run(self, var: Var, domain: Range) -> None:
        """From now on the variable takes all values of the domain."""
        low, high = self.of(domain.min), self.of(domain.min + domain.extent - 1)
        self.ends[var] = IntSet(low.min_value, high.max_value)
        self.inside.bind(var, domain)

    @contextmanager
    def under(self, condition: Expr) -> Iterator[None]:
        """A scope in which a condition holds: it narrows what the running variables take."""
        before = dict(self.ends)
        with self.inside.constraint(condition):
            for var in free_vars(condition) & self.ends.keys():
                self.ends[var] = self._narrowed(var, self.ends[var])
            yield
        self.ends = before

    def _narrowed(self, var: Var, known: IntSet) -> IntSet:
        """The ends, with constants in place of constants and of what is open."""
        least, most = self.inside.const_int_bound(var)
        bottom, top = type_range(var.dtype)  # the bounds of what nothing is known of
        low, high = known
        if least > bottom and (low is None or isinstance(low, IntImm)):
            low = IntImm(var.dtype, least)
        if most < top and (high is None or isinstance(high, IntImm)):
            high = IntImm(var.dtype, most)
        return IntSet(low, high)

    def of(self, expr: Expr) -> IntSet:
        """The least interval known to hold all values; a fixed expression stays as it is."""
        if not self.ends and expr.dtype.lanes == 1 and not isinstance(expr, Let):
            return IntSet(expr, expr)
        match expr:
            case Ramp(base, stride, lanes):
                return self.union(self.of(base), self.of(base + stride * (lanes - 1)))
            case Let(var, value, body):
                return self.of(substitute(body, {var: value}))
        if expr.dtype.lanes > 1:
            return EVERYTHING
        if free_vars(expr).isdisjoint(self.ends):
            return IntSet(expr, expr)
        return int_set(self.inside, expr, self.ends)

    def union(self, a: IntSet, b: IntSet) -> IntSet:
        """The least interval that holds both."""
        return a if a == b else union(self.outside, a, b)
