"""Division and remainder of integers: nothing here multiplies, so nothing can wrap around.

Index arithmetic is divided in canonical form; these rules serve narrow and unsigned types.
"""

from __future__ import annotations

from ..bounds import type_range
from ..nodes import Div, Expr, FloorDiv, FloorMod, Mod
from .language import RuleContext, c1, c2, one, rule, table, x, y, zero


def not_negative(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether truncation and floor agree: both operands are >= 0."""
    return facts.bound_of(x)[0] >= 0 and facts.bound_of(y)[0] >= 0


def is_remainder(facts: RuleContext, x: Expr, c1: int) -> bool:
    """Whether 0 <= x < c1."""
    low, high = facts.bound_of(x)
    return low >= 0 and high < c1


def product_fits(x: Expr, c1: int, c2: int) -> bool:
    """Whether both are positive and their product is a value of the type."""
    return c1 > 0 and c2 > 0 and c1 * c2 in type_range(x.dtype.element)


def keeps_low_bits(c1: int, c2: int) -> bool:
    """Whether `c2` is a power of two that divides `c1`, so that wrapping does not matter."""
    return c2 > 0 and c2 & (c2 - 1) == 0 and c1 % c2 == 0


RULES = table(
    rule(Div(x, y), FloorDiv(x, y), not_negative),
    rule(Mod(x, y), FloorMod(x, y), not_negative),
    rule(FloorDiv(x, x), one),
    rule(Div(x, x), one),
    rule(FloorMod(x, x), zero),
    rule(Mod(x, x), zero),
    rule(FloorMod(x, c1), x, is_remainder),
    rule(FloorDiv(x, c1), zero, is_remainder),
    rule(FloorDiv(FloorDiv(x, c1), c2), FloorDiv(x, c1 * c2), product_fits),
    rule(Div(Div(x, c1), c2), Div(x, c1 * c2), product_fits),
    rule(FloorMod(FloorMod(x, c1), c2), FloorMod(x, c2), lambda c1, c2: c2 > 0 and c1 % c2 == 0),
    rule(Mod(Mod(x, c1), c2), Mod(x, c2), lambda c1, c2: c1 > 0 and c2 > 0 and c1 % c2 == 0),
    rule(FloorMod(x * c1, c2), zero, keeps_low_bits),
    rule(FloorMod(x + c1, c2), FloorMod(x, c2), keeps_low_bits),
    rule(FloorMod(x * c1 + y, c2), FloorMod(y, c2), keeps_low_bits),
)
