"""How large things are whose sizes may be variables: least, most, and what to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..expr import Expr, IntImm, Var, free_vars
from ..expr.analyzer import Analyzer
from ..expr.evaluate import evaluate

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
        if isinstance(size, IntImm):
            return size.value
        return max(0, int(self._analyzer.const_int_bound(size).min_value))

    def most(self, size: Expr) -> int | None:
        """A number that the size is not above; None if there is none."""
        if isinstance(size, IntImm):
            return size.value
        if any(self.bounds.get(var, (0, None))[1] is None for var in free_vars(size)):
            return None
        return int(self._analyzer.const_int_bound(size).max_value)

    def guess(self, size: Expr) -> int:
        """What to expect: the most, or something usual."""
        if isinstance(size, IntImm):
            return size.value
        values = {}
        for var in free_vars(size):
            low, high = self.bounds.get(var, (1, None))
            values[var] = max(low, USUAL) if high is None else high
        return max(2, int(evaluate(size, values)))
