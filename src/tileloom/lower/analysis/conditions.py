"""Conditions: the opposite of one, and whether it may be evaluated where the program would not."""

from __future__ import annotations

from ...expr import (
    GE,
    GT,
    LE,
    LT,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    logical_not,
)
from ...tir import BufferLoad
from . import lanes

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
_NEGATED: dict[type[Expr], type[CompareOp]] = {LT: GE, GE: LT, LE: GT, GT: LE}


def may_divide_by_zero(expr: Expr) -> bool:
    """Whether an expression is an integer division whose divisor may be zero."""
    if not isinstance(expr, _DIVISIONS) or expr.dtype.is_float:
        return False
    divisor = lanes.uniform(expr.b)
    return not isinstance(divisor, IntImm) or divisor.value == 0


def may_trap(expr: Expr) -> bool:
    """Whether evaluating it where the program would not can fail (memoised)."""
    known = expr.memo.get("may_trap")
    if known is None:
        known = isinstance(expr, BufferLoad) or may_divide_by_zero(expr)
        known = known or any(may_trap(child) for child in expr.children)
        expr.memo["may_trap"] = known
    return bool(known)


def negate(condition: Expr) -> Expr:
    """The opposite condition."""
    other = _NEGATED.get(type(condition))
    if other is not None and isinstance(condition, CompareOp) and condition.a.dtype.element.is_int:
        return other(condition.a, condition.b)
    return logical_not(condition)
