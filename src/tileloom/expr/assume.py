"""Turning a condition that holds into facts."""

from __future__ import annotations

from typing import Any

from . import compare
from .bounds import is_index
from .facts import Facts
from .linear import Context, Linear, constant
from .modular import modular
from .nodes import EQ, GE, GT, LE, LT, NE, And, Call, CompareOp, Expr, FloorMod, IntImm, Not, Or


def assume(ctx: Context, facts: Facts, condition: Expr, holds: bool = True) -> None:
    """Add to `facts` that the condition, simplified by `self`, holds (or does not)."""
    while isinstance(condition, Call) and condition.op == "tir.likely":
        condition = condition.args[0]
    if isinstance(condition, Not):
        assume(ctx, facts, condition.a, not holds)
        return
    junction = And if holds else Or
    if isinstance(condition, junction):
        assume(ctx, facts, condition.a, holds)
        assume(ctx, facts, condition.b, holds)
        return
    facts.truths[condition] = holds
    if not isinstance(condition, CompareOp) or isinstance(condition, (And, Or)):
        return
    kind: type[Expr] = type(condition)
    operand = condition.a.dtype
    if operand.is_float:
        return
    opposite = compare.OPPOSITE[kind]
    facts.truths[opposite(condition.a, condition.b)] = not holds
    if operand.lanes == 1 and is_index(operand):
        kind = kind if holds else opposite
        a, b = ctx.linear(condition.a), ctx.linear(condition.b)
        _assume_comparison(ctx, facts, kind, ctx.combine(a, b, -1))
        _assume_remainder(facts, kind, condition)


def _assume_comparison(ctx: Context, facts: Facts, kind: type[Expr], value: Linear) -> None:
    """Note `value kind 0`."""
    if kind is LT:
        facts.at_most_zero(value.shifted(1))
    if kind in (LE, EQ):
        facts.at_most_zero(value)
    if kind is GT:
        facts.at_most_zero((-value).shifted(1))
    if kind in (GE, EQ):
        facts.at_most_zero(-value)
    if kind is NE:
        least, most = ctx.bound(value)
        if least == 0:
            facts.at_most_zero((-value).shifted(1))
        if most == 0:
            facts.at_most_zero(value.shifted(1))
    # The canonical spellings, for terms of which bounds say nothing.
    zero = constant(value.dtype, 0)
    facts.truths[compare.compare(ctx, kind, value, zero)] = True
    facts.truths[compare.compare(ctx, compare.OPPOSITE[kind], value, zero)] = False
    facts.truths.pop(compare.TRUE, None)
    facts.truths.pop(compare.FALSE, None)


def _assume_remainder(facts: Facts, kind: type[Expr], condition: Any) -> None:
    """Note `x % c == r` of a variable or term `x`."""
    a, b = condition.a, condition.b
    remainder = type(a) is FloorMod and isinstance(a.b, IntImm) and a.b.value > 0
    if kind is EQ and remainder and isinstance(b, IntImm):
        facts.modular[a.a] = modular(a.b.value, b.value)
