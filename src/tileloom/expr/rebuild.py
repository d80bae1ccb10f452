"""Rebuilding nodes over new children, and what is safe to drop."""

from __future__ import annotations

from .build import binary, cast, logical_not
from .nodes import BinaryOp, Call, Cast, Div, Expr, FloorDiv, FloorMod, IntImm, Mod, Not
from .ops import is_pure_op

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def rebuild(expr: Expr, children: list[Expr]) -> Expr:
    """The node over other children, with constants folded."""
    if isinstance(expr, BinaryOp):
        a, b = children
        divides_by_zero = isinstance(b, IntImm) and b.value == 0 and type(expr) in _DIVISIONS
        if divides_by_zero:
            return expr.with_children(children)
        kind = expr.result_type(a.dtype)  # which a number keeps, if need be wrapped around
        return cast(kind, binary(type(expr), a, b))
    if isinstance(expr, Not):
        return logical_not(children[0])
    if isinstance(expr, Cast):
        return cast(expr.dtype, children[0])
    return expr.with_children(children)


def is_pure(expr: Expr) -> bool:
    """Whether no call in the expression can have a side effect (memoised)."""
    children = expr.children
    if not children:
        return not isinstance(expr, Call) or is_pure_op(expr.op)
    memo = expr.memo
    known = memo.get("pure")
    if known is None:
        known = all(map(is_pure, children))
        if isinstance(expr, Call):
            known = known and is_pure_op(expr.op)
        memo["pure"] = known
    return bool(known)
