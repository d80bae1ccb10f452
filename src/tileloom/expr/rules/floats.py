"""The few laws that hold for every float: signed zeros, infinities and NaN included."""

from __future__ import annotations

from math import copysign

from ..nodes import Add, Div, Max, Min, Mul, Sub
from .language import f, g, rule, table


def is_negative_zero(g: float) -> bool:
    """Whether the constant is -0.0, which added to anything leaves it as it is."""
    return g == 0 and copysign(1.0, g) < 0


def is_positive_zero(g: float) -> bool:
    """Whether the constant is +0.0, which subtracted from anything leaves it as it is."""
    return g == 0 and copysign(1.0, g) > 0


RULES = table(
    rule(Mul(f, g), f, lambda g: g == 1),
    rule(Div(f, g), f, lambda g: g == 1),
    rule(Add(f, g), f, is_negative_zero),
    rule(Sub(f, g), f, is_positive_zero),
    rule(Min(f, f), f),
    rule(Max(f, f), f),
)
