"""Calls whose arguments make them something cheaper."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...expr import (
    EQ,
    Broadcast,
    Call,
    Div,
    Expr,
    FloatImm,
    Mul,
    Select,
    as_expr,
    const,
    is_pure,
    rewrite,
)
from ...tir import PrimFunc, StmtRewriter, all_exprs
from ..common import on_body

POW = "tir.pow"
_INFINITY = float("inf")


def map_calls(func: PrimFunc) -> PrimFunc:
    """Powers with a constant exponent become products, quotients and roots.

    `POWERS` says which. Their values are those of `pow` for all arguments: also for zeros of both
    signs, infinities, negative numbers and what is no number. Products, quotients and square
    roots are rounded once; the inverse square root, of two roundings, is within one unit in the
    last place, and stays a power for types narrower than float32.

    Needs: any stage.
    Ensures: none of these powers is left.
    """
    return on_body(func, _Map().visit) if any(map(_has_power, all_exprs(func.body))) else func


def _square_root(x: Expr) -> Expr:
    """pow(x, 0.5), which is +0 for -0 and infinite for -infinity; a root is neither."""
    root = _absolute(Call(x.dtype, "tir.sqrt", (x,)))
    return Select(EQ(x, _like(x, -_INFINITY)), _like(x, _INFINITY), root)


def _inverse_root(x: Expr) -> Expr:
    """pow(x, -0.5), which is +infinity for -0 and +0 for -infinity."""
    inverse = Div(_like(x, 1.0), _absolute(Call(x.dtype, "tir.sqrt", (x,))))
    return Select(EQ(x, _like(x, -_INFINITY)), _like(x, 0.0), inverse)


def _absolute(x: Expr) -> Expr:
    return Call(x.dtype, "tir.fabs", (x,))


def _like(x: Expr, value: float) -> Expr:
    """A constant of the type of another expression."""
    one = const(value, x.dtype.element)
    return one if x.dtype.lanes == 1 else Broadcast(as_expr(one), x.dtype.lanes)


#: What pow(x, exponent) is.
POWERS: Mapping[float, Callable[[Expr], Expr]] = {
    0.0: lambda x: _like(x, 1.0),  # also of what is no number
    1.0: lambda x: x,
    2.0: lambda x: Mul(x, x),
    -1.0: lambda x: Div(_like(x, 1.0), x),
    0.5: _square_root,
    -0.5: _inverse_root,
}


class _Map(StmtRewriter):
    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, _mapped) if _has_power(expr) else expr


def _has_power(expr: Expr) -> bool:
    """Whether a power is somewhere inside (memoised)."""
    children = expr.children
    if not children:
        return False
    known = expr.memo.get("has_power")
    if known is None:
        known = isinstance(expr, Call) and expr.op == POW
        known = expr.memo["has_power"] = known or any(map(_has_power, children))
    return bool(known)


def _mapped(expr: Expr) -> Expr | None:
    if not isinstance(expr, Call) or expr.op != POW or not expr.dtype.is_float:
        return None
    base, exponent = expr.args
    if isinstance(exponent, Broadcast):
        exponent = exponent.value
    if not isinstance(exponent, FloatImm) or base.dtype is not expr.dtype or not is_pure(base):
        return None
    rule = POWERS.get(exponent.value)
    if rule is None or (exponent.value == -0.5 and expr.dtype.bits < 32):
        return None
    return rule(base)
