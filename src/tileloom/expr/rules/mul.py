"""Products of integers that may wrap around."""

from __future__ import annotations

from ..nodes import Max, Min, Mul
from .language import c1, c2, rule, table, x, y

RULES = table(
    rule(Mul(x * c1, c2), x * (c1 * c2)),
    rule(Mul(x + c1, c2), x * c2 + c1 * c2),
    rule(Mul(x * c1, y), (x * y) * c1, lambda y: not y.children and not hasattr(y, "value")),
    rule(Mul(Min(x, y), Max(x, y)), x * y),
)
