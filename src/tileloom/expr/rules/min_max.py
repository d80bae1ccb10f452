"""Minima and maxima of integers: the laws of a lattice, and what bounds decide."""

from __future__ import annotations

from ..nodes import Expr, Max, Min
from .language import RuleContext, c1, c2, rule, table, x, y, z


def below(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether x <= y follows from constant bounds."""
    return facts.bound_of(x)[1] <= facts.bound_of(y)[0]


RULES = table(
    rule(Min(x, x), x),
    rule(Max(x, x), x),
    rule(Min(x, y), x, below),
    rule(Max(x, y), y, below),
    rule(Min(Max(x, y), x), x),
    rule(Max(Min(x, y), x), x),
    rule(Min(Min(x, y), x), Min(x, y)),
    rule(Max(Max(x, y), x), Max(x, y)),
    rule(Min(Max(x, y), Min(x, y)), Min(x, y)),
    rule(Max(Max(x, y), Min(x, y)), Max(x, y)),
    rule(Min(Min(x, c1), c2), Min(x, Min(c1, c2))),
    rule(Max(Max(x, c1), c2), Max(x, Max(c1, c2))),
    rule(Min(Max(x, c1), c2), c2, lambda c1, c2: c1 >= c2),
    rule(Max(Min(x, c1), c2), c2, lambda c1, c2: c1 <= c2),
    rule(Min(Max(x, y), Max(x, z)), Max(Min(y, z), x)),
    rule(Max(Min(x, y), Min(x, z)), Min(Max(y, z), x)),
)
