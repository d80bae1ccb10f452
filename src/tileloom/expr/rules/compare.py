"""Comparisons. Those of index arithmetic are decided in canonical form; here are the others."""

from __future__ import annotations

from ..nodes import EQ, GE, GT, LE, LT, NE, Add, Expr, Not
from .language import RuleContext, c1, c2, f, no, p, rule, table, x, y, yes, z


def below(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether x < y follows from constant bounds."""
    return facts.bound_of(x)[1] < facts.bound_of(y)[0]


def not_above(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether x <= y follows from constant bounds."""
    return facts.bound_of(x)[1] <= facts.bound_of(y)[0]


def not_below(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether x >= y follows from constant bounds."""
    return facts.bound_of(x)[0] >= facts.bound_of(y)[1]


def above(facts: RuleContext, x: Expr, y: Expr) -> bool:
    """Whether x > y follows from constant bounds."""
    return facts.bound_of(x)[0] > facts.bound_of(y)[1]


_f2 = type(f)("f2", "float32")

RULES = table(
    rule(GT(x, y), LT(y, x)),
    rule(GE(x, y), LE(y, x)),
    rule(GT(f, _f2), LT(_f2, f)),
    rule(GE(f, _f2), LE(_f2, f)),
    rule(EQ(x, x), yes),
    rule(NE(x, x), no),
    rule(LT(x, x), no),
    rule(LE(x, x), yes),
    rule(LT(f, f), no),
    rule(LT(x, y), yes, below),
    rule(LT(x, y), no, not_below),
    rule(LE(x, y), yes, not_above),
    rule(LE(x, y), no, above),
    rule(EQ(x, y), no, below),
    rule(NE(x, y), yes, below),
    # Wrapping addition is a bijection, so equations may be shifted; inequalities may not.
    rule(EQ(Add(x, z), Add(y, z)), EQ(x, y)),
    rule(NE(Add(x, z), Add(y, z)), NE(x, y)),
    rule(EQ(Add(x, c1), c2), EQ(x, c2 - c1)),
    rule(NE(Add(x, c1), c2), NE(x, c2 - c1)),
    # Comparisons of conditions.
    rule(EQ(p, yes), p),
    rule(NE(p, no), p),
    rule(EQ(p, no), Not(p)),
    rule(NE(p, yes), Not(p)),
    rule(EQ(p, p), yes),
    rule(NE(p, p), no),
)
