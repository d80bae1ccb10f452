"""A total order of expressions that does not depend on how a sum or product was written.

Products come before calls and divisions, these before variables, variables in the order of their
creation. It is the same in every run of one program, so printed results are stable.
"""

from __future__ import annotations

from typing import Any

from .nodes import Add, BinaryOp, Call, Cast, Expr, FloatImm, IntImm, Mul, StringImm, Sub, Var

_SEEN: list[int] = [0]  # how many opaque nodes have been ordered


def order_key(expr: Expr) -> tuple[Any, ...]:
    """A key that sorts expressions (memoised)."""
    found = expr.memo.get("order")
    if found is None:
        found = expr.memo["order"] = _key(expr)
    return found


def _key(expr: Expr) -> tuple[Any, ...]:
    kind = type(expr)
    if isinstance(expr, Var):
        return (5, expr.serial)
    if isinstance(expr, Mul):
        return (0, -_degree(expr), order_key(expr.a), order_key(expr.b))
    if isinstance(expr, BinaryOp):
        rank = 2 if kind in (Add, Sub) else 1
        return (rank, kind.__name__, order_key(expr.a), order_key(expr.b))
    if isinstance(expr, Cast):
        return (
            (5, *order_key(expr.value)[1:], str(expr.dtype)) if _is_var(expr) else _call(expr, "")
        )
    if isinstance(expr, (IntImm, FloatImm)):
        return (6, str(expr.dtype), expr.value)
    if isinstance(expr, StringImm):
        return (7, expr.value)
    return _call(expr, expr.op if isinstance(expr, Call) else _serial())


def _is_var(expr: Cast) -> bool:
    return isinstance(expr.value, Var)


def _call(expr: Expr, name: str) -> tuple[Any, ...]:
    children = expr.children
    keys = tuple(order_key(child) for child in children)
    return (3, type(expr).__name__, str(expr.dtype), name, len(keys), keys)


def _serial() -> str:
    """Of an opaque node (a load, say): when it was first ordered."""
    _SEEN[0] += 1
    return f"{_SEEN[0]:09d}"


def _degree(expr: Expr) -> int:
    return _degree(expr.a) + _degree(expr.b) if isinstance(expr, Mul) else 1
