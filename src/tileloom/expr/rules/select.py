"""Choices between two values that are both evaluated anyway."""

from __future__ import annotations

from ..nodes import LE, LT, Max, Min, Not, Or, Select
from .language import no, p, q, rule, table, x, y, yes, z

RULES = table(
    rule(Select(p, x, x), x),
    rule(Select(p, yes, no), p),
    rule(Select(p, no, yes), Not(p)),
    rule(Select(Not(p), x, y), Select(p, y, x)),
    rule(Select(p, Select(p, x, y), z), Select(p, x, z)),
    rule(Select(p, x, Select(p, y, z)), Select(p, x, z)),
    rule(Select(p, x, Select(q, x, y)), Select(Or(p, q), x, y)),
    rule(Select(LT(x, y), x, y), Min(x, y)),
    rule(Select(LE(x, y), x, y), Min(x, y)),
    rule(Select(LT(x, y), y, x), Max(x, y)),
    rule(Select(LE(x, y), y, x), Max(x, y)),
)
