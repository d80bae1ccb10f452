"""Sums of integers that may wrap around: what holds in every ring."""

from __future__ import annotations

from ..nodes import Add, Max, Min, Sub
from .language import c1, c2, one, rule, table, x, y, z, zero

RULES = table(
    rule(x - x, zero),
    rule((x + y) - x, y),
    rule(x - (x + y), zero - y),
    rule((x - y) + y, x),
    rule((x - y) - x, zero - y),
    rule(x - (x - y), y),
    rule((x + z) - (y + z), x - y),
    rule((x - z) - (y - z), x - y),
    rule((z - x) - (z - y), y - x),
    rule(Add(Min(x, y), Max(x, y)), x + y),
    rule(Sub(x + y, Min(x, y)), Max(x, y)),
    rule(Sub(x + y, Max(x, y)), Min(x, y)),
    # Constants are collected on the right.
    rule(Add(x + c1, c2), x + (c1 + c2)),
    rule(Add(x - c1, c2), x + (c2 - c1)),
    rule(Add(c1 - x, c2), (c1 + c2) - x),
    rule(Sub(x + c1, c2), x + (c1 - c2)),
    rule(Sub(x - c1, c2), x - (c1 + c2)),
    rule(Sub(c1, x + c2), (c1 - c2) - x),
    rule(Sub(c1, c2 - x), x + (c1 - c2)),
    rule(Sub(c1, x - c2), (c1 + c2) - x),
    # Products by constants.
    rule(x + x, x * (one + one)),
    rule(x * c1 + x, x * (c1 + one)),
    rule(x * c1 - x, x * (c1 - one)),
    rule(x * c1 + x * c2, x * (c1 + c2)),
    rule(x * c1 - x * c2, x * (c1 - c2)),
)
