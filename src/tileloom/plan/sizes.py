"""How large things are whose sizes may be variables: least, most, and what to expect.

A size that counts as a number (`expr.extents`) knows its own limits; those of other variables are
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.cached import cached_property
from ..expr import Expr, Var, free_vars
from ..expr.analyzer import Analyzer
from ..expr.evaluate import evaluate
from ..expr.extents import is_number, known_extent, limits, usual

#: What a size is taken for when nothing is known about it.
USUAL = 512
_INFINITE = 1 << 31

Bounds = Mapping[Var, tuple[int, int | None]]


@dataclass(frozen=True)
class Sizes:
    """What is known of the variables that sizes are made of.

    Attributes:
        bounds: the least and the greatest value of variables, None for unknown.

    >>> n = Var("n")
    >>> sizes = Sizes({n: (1, 64)})
    >>> sizes.most(n * 2), sizes.least(n + 3), sizes.guess(n), sizes.most(Var("m"))
    (128, 4, 64, None)
    """

    bounds: Bounds = field(default_factory=dict)

    @cached_property
    def _analyzer(self) -> Analyzer:
        analyzer = Analyzer()
        ends = {
            v: (low, _INFINITE if high is None else high) for v, (low, high) in self.bounds.items()
        }
        analyzer.bind_bounds(ends)
        return analyzer

    def least(self, size: Expr) -> int:
        """A number that the size is not below."""
        known = known_extent(size)
        if known is not None:
            return max(0, limits(known)[0])
        return max(0, int(self._analyzer.const_int_bound(size).min_value))

    def most(self, size: Expr) -> int | None:
        """A number that the size is not above; None if there is none."""
        known = known_extent(size)
        if known is not None:
            return limits(known)[1]
        if any(self.bounds.get(var, (0, None))[1] is None for var in free_vars(size)):
            return None
        return int(self._analyzer.const_int_bound(size).max_value)

    def number(self, size: Expr) -> int:
        """The size as what counts as a number, whose comparisons may be decisions; else a guess."""
        known = known_extent(size)
        return self.guess(size) if known is None else known

    def guess(self, size: Expr) -> int:
        """What to expect: the most, or something usual."""
        known = known_extent(size)
        if known is not None:
            return known if is_number(known) else max(2, usual(known))
        values = {}
        for var in free_vars(size):
            low, high = self.bounds.get(var, (1, None))
            values[var] = max(low, USUAL) if high is None else high
        return max(2, int(evaluate(size, values)))
