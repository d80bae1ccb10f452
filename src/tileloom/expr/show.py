"""Expressions as text, in the spelling of TVMScript."""

from __future__ import annotations

import math
from collections.abc import Callable

from .nodes import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)

_PRECEDENCE: dict[type[Expr], int] = {
    Or: 1, And: 2, Add: 5, Sub: 5, Mul: 6, FloorDiv: 6, FloorMod: 6, Div: 6,
}  # fmt: skip
_CLOSED = 9  # an atom or a call never needs parentheses


def show_expr(expr: Expr, names: Callable[[Var], str] = lambda v: v.name) -> str:
    """`expr` as one line; `names` says what variables are called.

    >>> x = Var("x"); show_expr((x + 1) * 2)
    '(x + 1) * 2'
    """
    return _show(expr, names)[0]


def _show(expr: Expr, names: Callable[[Var], str]) -> tuple[str, int]:
    match expr:
        case Var():
            return names(expr), _CLOSED
        case IntImm(kind, value):
            return show_int(kind, value), _CLOSED
        case FloatImm(kind, value):
            return f"T.{kind}({show_float(value)})", _CLOSED
        case StringImm(value):
            return f'"{value}"', _CLOSED
        case BinaryOp():
            return _show_binary(expr, names)
        case _:
            return _show_call(expr, names), _CLOSED


def show_int(kind: str, value: int) -> str:
    """An integer constant; `int32` and `bool` need no type."""
    if kind == "bool":
        return f"T.bool({bool(value)})"
    return str(value) if kind == "int32" else f"T.{kind}({value})"


def show_float(value: float) -> str:
    """A float that reads back exactly; infinities and NaN as strings."""
    return repr(value) if math.isfinite(value) else f'"{value}"'


def _show_binary(expr: BinaryOp, names: Callable[[Var], str]) -> tuple[str, int]:
    kind = type(expr)
    level = 4 if isinstance(expr, CompareOp) and kind not in _PRECEDENCE else _PRECEDENCE.get(kind)
    if level is None or (kind is Div and not expr.dtype.is_float) or kind is Mod:
        name = {"Min": "min", "Max": "max", "Div": "truncdiv", "Mod": "truncmod"}[kind.__name__]
        return f"T.{name}({show_expr(expr.a, names)}, {show_expr(expr.b, names)})", _CLOSED
    left, left_level = _show(expr.a, names)
    right, right_level = _show(expr.b, names)
    left = f"({left})" if left_level < level or (level == 4 == left_level) else left
    right = f"({right})" if right_level <= level else right
    return f"{left} {kind.symbol} {right}", level


def _show_call(expr: Expr, names: Callable[[Var], str]) -> str:
    args = ", ".join(show_expr(child, names) for child in expr.children)
    match expr:
        case Call(_, op, _):
            return f"T.{op.removeprefix('tir.')}({args})"
        case Cast(kind, _):
            return f'T.Cast("{kind}", {args})'
        case Not():
            return f"not {args}" if isinstance(expr.a, (Var, Call)) else f"not ({args})"
        case Select():
            return f"T.Select({args})"
        case Ramp(_, _, lanes):
            return f"T.Ramp({args}, {lanes})"
        case Broadcast(_, lanes):
            return f"T.Broadcast({args}, {lanes})"
        case Shuffle(_, indices):
            return f"T.Shuffle([{args}], {list(indices)})"
        case Let(var, value, body):
            bound = f"{names(var)}: {show_expr(value, names)}"
            return f"T.Let({show_expr(body, names)}, where={{{bound}}})"
        case _:
            # A load: the node classes of tensor IR and of `compute` are defined above this room.
            source = getattr(expr, "buffer", None) or getattr(expr, "producer", None)
            return f"{getattr(source, 'name', type(expr).__name__)}[{args}]"
