"""Conditions, where lanes keep them from being simplified under each other."""

from __future__ import annotations

from ..nodes import And, Not, Or
from .language import no, p, q, rule, table, yes

RULES = table(
    rule(And(p, p), p),
    rule(Or(p, p), p),
    rule(And(p, Not(p)), no),
    rule(Or(p, Not(p)), yes),
    rule(Not(Not(p)), p),
    rule(And(p, Or(p, q)), p),
    rule(Or(p, And(p, q)), p),
    rule(And(Or(p, q), Or(p, Not(q))), p),
)
