"""Rebuilding nodes over new children, and what is safe to drop."""

from __future__ import annotations

from collections.abc import Sequence

from .build import binary, cast, logical_not
from .nodes import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Not,
    Shuffle,
)
from .ops import is_pure_op

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def rebuild(expr: Expr, children: Sequence[Expr]) -> Expr:
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


def has_load(expr: Expr) -> bool:
    """Whether an element of something is read inside: a node with indices (memoised)."""
    children = expr.children
    if not children:
        return hasattr(expr, "indices")
    memo = expr.memo
    known = memo.get("has_load")
    if known is None:
        known = hasattr(expr, "indices") and not isinstance(expr, Shuffle)
        known = memo["has_load"] = known or any(map(has_load, children))
    return bool(known)


def is_total(expr: Expr) -> bool:
    """Whether it may be evaluated where the program would not (memoised).

    It has no side effect, reads no element and divides no integer by what may be zero.
    """
    known = expr.memo.get("total")
    if known is None:
        known = is_pure(expr) and not has_load(expr) and not _divides_by_unknown(expr)
        expr.memo["total"] = known
    return bool(known)


def _divides_by_unknown(expr: Expr) -> bool:
    if isinstance(expr, _DIVISIONS) and not expr.dtype.is_float:
        divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
        if not isinstance(divisor, IntImm) or divisor.value == 0:
            return True
    return any(map(_divides_by_unknown, expr.children))
