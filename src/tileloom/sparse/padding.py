"""What a statement does in slots of a format that hold no element."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..base.errors import UserError
from ..expr import (
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    binary,
    cast,
    const,
    intrin,
    post_order,
    rewrite,
)
from ..tir import BufferLoad


def in_padding(value: Expr, default_of: Callable[[BufferLoad], Expr | None]) -> Expr:
    """A value where some loads find the default of their buffer, for finite other values.

    Args:
        value: an expression.
        default_of: for a load the default that it finds, or None if it finds an element.

    >>> from tileloom.tir import make_buffer
    >>> a, b, c = (make_buffer([8], name=name) for name in "abc")
    >>> in_padding(c[0] + a[1] * b[2], lambda load: const(0.0) if load.buffer is a else None)
    c[0]
    """

    def known(expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad):
            return default_of(expr)
        return _folded(expr)

    return rewrite(value, known)


def _folded(expr: Expr) -> Expr | None:
    match expr:
        case BinaryOp():
            return _of_two(expr)
        case Cast():
            return cast(expr.dtype, expr.value) if is_number(expr.value) else None
        case Select(condition, yes, no) | Call(op="tir.if_then_else", args=(condition, yes, no)):
            if isinstance(condition, IntImm):
                return yes if condition.value else no
            return yes if yes is no else None
        case Call(op="tir.exp", args=(FloatImm(value=value),)) if value in (0.0, -math.inf):
            return const(math.exp(value), expr.dtype)
        case _:
            return None


def _of_two(expr: BinaryOp) -> Expr | None:
    a, b = expr.a, expr.b
    law = _LAWS.get(type(expr))
    found = None if law is None else law(a, b)
    if found is not None or not (is_number(a) or is_number(b)):
        return found
    try:
        return binary(type(expr), a, b)
    except UserError:  # a division by zero
        return None


def _product(a: Expr, b: Expr) -> Expr | None:
    return a if is_zero(a) else b if is_zero(b) else None


def _sum(a: Expr, b: Expr) -> Expr | None:
    return b if is_zero(a) or _is_infinite(b) else a if is_zero(b) or _is_infinite(a) else None


def _difference(a: Expr, b: Expr) -> Expr | None:
    return a if is_zero(b) or _is_infinite(a) else None


def _quotient(a: Expr, b: Expr) -> Expr | None:
    return a if is_zero(a) else None


def _larger(a: Expr, b: Expr) -> Expr | None:
    return b if _is_least(a) else a if _is_least(b) else None


def _smaller(a: Expr, b: Expr) -> Expr | None:
    return b if _is_most(a) else a if _is_most(b) else None


_LAWS: dict[type[BinaryOp], Callable[[Expr, Expr], Expr | None]] = {
    Add: _sum,
    Sub: _difference,
    Mul: _product,
    Div: _quotient,
    Max: _larger,
    Min: _smaller,
}


def is_number(expr: Expr) -> bool:
    """Whether the expression is a number."""
    return isinstance(expr, IntImm | FloatImm)


def is_zero(expr: Expr) -> bool:
    """Whether the expression is the number 0."""
    return isinstance(expr, IntImm | FloatImm) and expr.value == 0


def _is_infinite(expr: Expr) -> bool:
    return isinstance(expr, FloatImm) and math.isinf(expr.value)


def _is_least(expr: Expr) -> bool:
    """Whether no finite number of the type is less."""
    if not isinstance(expr, IntImm | FloatImm):
        return False
    least = intrin.min_value(expr.dtype)
    return isinstance(least, IntImm | FloatImm) and expr.value <= least.value


def _is_most(expr: Expr) -> bool:
    if not isinstance(expr, IntImm | FloatImm):
        return False
    most = intrin.max_value(expr.dtype)
    return isinstance(most, IntImm | FloatImm) and expr.value >= most.value


# ---------------------------------------------------------------------------- updates

#: Operations whose updates of one element may come in any order.
_UNORDERED: tuple[type[BinaryOp], ...] = (Add, Mul, Max, Min, And, Or)


def update_kind(value: Expr, old: Expr) -> type[BinaryOp] | None:
    """By which operation a value combines an old one with others, whose order does not matter.

    >>> from tileloom.tir import make_buffer
    >>> c, x = make_buffer([8], name="c")[0], make_buffer([8], name="x")[1]
    >>> [update_kind(value, c) for value in (c + x * 2.0, c - x, c * 2.0 + x)]
    [<class '...Add'>, <class '...Add'>, None]
    """
    return next((kind for kind in _UNORDERED if _combines(value, old, kind)), None)


def _combines(value: Expr, old: Expr, kind: type[BinaryOp]) -> bool:
    if value is old:
        return True
    match value:
        case BinaryOp(a, b) if type(value) is kind:
            return _one_side(a, b, old, kind) or _one_side(b, a, old, kind)
        case Sub(a, b) if kind is Add:
            return _one_side(a, b, old, kind)
        case Select(condition, yes, no) | Call(op="tir.if_then_else", args=(condition, yes, no)):
            chosen = _combines(yes, old, kind) and _combines(no, old, kind)
            return chosen and not _reads(condition, old)
        case _:
            return False


def _one_side(a: Expr, b: Expr, old: Expr, kind: type[BinaryOp]) -> bool:
    return _combines(a, old, kind) and not _reads(b, old)


def _reads(expr: Expr, load: Expr) -> bool:
    return any(part is load for part in post_order(expr))
