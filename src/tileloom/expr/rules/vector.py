"""Vectors: operations move inside broadcasts and ramps. Lane counts do not fit into templates, so
these rules are functions; each answers None where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..bounds import is_index
from ..build import binary, cast, logical_not
from ..nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)

VectorRule = Callable[[Any, Any], Expr | None]


def _lift_broadcast(expr: Any, _facts: Any) -> Expr | None:
    """broadcast(a) op broadcast(b)  ->  broadcast(a op b)"""
    a, b = expr.a, expr.b
    if not (isinstance(a, Broadcast) and isinstance(b, Broadcast) and a.lanes == b.lanes):
        return None
    if a.value.dtype is not b.value.dtype or _divides_by_zero(type(expr), b.value):
        return None
    return Broadcast(binary(type(expr), a.value, b.value), a.lanes)


def _divides_by_zero(kind: type[Expr], divisor: Expr) -> bool:
    return kind in (FloorDiv, FloorMod) and isinstance(divisor, IntImm) and divisor.value == 0


def _ramp_sum(expr: Any, _facts: Any) -> Expr | None:
    """ramp(b, s) + broadcast(x)  ->  ramp(b + x, s), and the like"""
    kind, a, b = type(expr), expr.a, expr.b
    ramps = isinstance(a, Ramp) and isinstance(b, Ramp) and a.lanes == b.lanes
    if ramps and a.base.dtype.lanes == 1:
        return Ramp(binary(kind, a.base, b.base), binary(kind, a.stride, b.stride), a.lanes)
    if _aligned(a, b):
        return Ramp(binary(kind, a.base, b.value), a.stride, a.lanes)
    if _aligned(b, a):
        stride = b.stride if kind is Add else -b.stride
        return Ramp(binary(kind, a.value, b.base), stride, b.lanes)
    return None


def _aligned(ramp: Expr, scalar: Expr) -> bool:
    """Whether these are a ramp of scalars and a broadcast scalar, lane by lane."""
    return (
        isinstance(ramp, Ramp)
        and isinstance(scalar, Broadcast)
        and ramp.lanes == scalar.lanes
        and ramp.base.dtype.lanes == scalar.value.dtype.lanes == 1
    )


def _ramp_product(expr: Any, _facts: Any) -> Expr | None:
    """ramp(b, s) * broadcast(x)  ->  ramp(b * x, s * x)"""
    a, b = expr.a, expr.b
    if _aligned(b, a):
        a, b = b, a
    if not _aligned(a, b):
        return None
    return Ramp(a.base * b.value, a.stride * b.value, a.lanes)


def _steps(expr: Any) -> tuple[int, int] | None:
    """`(stride, divisor)` of a ramp divided by a constant that is positive."""
    a, b = expr.a, expr.b
    if not _aligned(a, b) or not is_index(a.base.dtype):
        return None
    if not isinstance(a.stride, IntImm) or not isinstance(b.value, IntImm) or b.value.value <= 0:
        return None
    return a.stride.value, b.value.value


def _stays_in_block(expr: Any, facts: Any, stride: int, c: int) -> bool:
    """Whether all lanes have one quotient."""
    low, high = facts.bound_of(facts.simplify(expr.a.base % expr.b.value))
    reach = stride * (expr.a.lanes - 1)
    return bool(low + min(reach, 0) >= 0 and high + max(reach, 0) < c)


def _ramp_quotient(expr: Any, facts: Any) -> Expr | None:
    """ramp(b, s) // broadcast(c): a ramp if c divides s, one value if no lane crosses a multiple"""
    steps = _steps(expr)
    if steps is None:
        return None
    (stride, c), base, divisor = steps, expr.a.base, expr.b.value
    if stride % c == 0:
        return Ramp(base // divisor, IntImm(base.dtype, stride // c), expr.a.lanes)
    if _stays_in_block(expr, facts, stride, c):
        return Broadcast(base // divisor, expr.a.lanes)
    return None


def _ramp_remainder(expr: Any, facts: Any) -> Expr | None:
    """ramp(b, s) % broadcast(c): one value if c divides s, a ramp if no lane crosses a multiple"""
    steps = _steps(expr)
    if steps is None:
        return None
    (stride, c), base, divisor = steps, expr.a.base, expr.b.value
    if stride % c == 0:
        return Broadcast(base % divisor, expr.a.lanes)
    if _stays_in_block(expr, facts, stride, c):
        return Ramp(base % divisor, expr.a.stride, expr.a.lanes)
    return None


def _ramp_compare(expr: Any, facts: Any) -> Expr | None:
    """ramp < broadcast and the like, where all lanes agree"""
    kind, a, b = type(expr), expr.a, expr.b
    if kind in (GT, GE):
        return None
    low, high = facts.bound_of(a)
    least, most = facts.bound_of(b)
    if high < least or (high == least and kind is LE):
        return Broadcast(binary(kind, IntImm("int32", 0), IntImm("int32", 1)), a.dtype.lanes)
    if low > most or (low == most and kind is LT):
        return Broadcast(binary(kind, IntImm("int32", 1), IntImm("int32", 0)), a.dtype.lanes)
    return None


def _ramp_of_equal(expr: Any, _facts: Any) -> Expr | None:
    """ramp(b, 0)  ->  broadcast(b);  ramp(b, s, 1)  ->  b"""
    if expr.lanes == 1:
        return expr.base  # type: ignore[no-any-return]
    if isinstance(expr.stride, IntImm) and expr.stride.value == 0:
        return Broadcast(expr.base, expr.lanes)
    return None


def _nested_broadcast(expr: Any, _facts: Any) -> Expr | None:
    """broadcast(broadcast(x, m), n)  ->  broadcast(x, m * n)"""
    if expr.lanes == 1:
        return expr.value  # type: ignore[no-any-return]
    if isinstance(expr.value, Broadcast):
        return Broadcast(expr.value.value, expr.value.lanes * expr.lanes)
    return None


def _select_lanes(expr: Any, _facts: Any) -> Expr | None:
    """select(broadcast(c), ...)  ->  select(c, ...), and broadcasts of everything move out"""
    if not isinstance(expr.condition, Broadcast):
        return None
    condition, yes, no = expr.condition.value, expr.true_value, expr.false_value
    if condition.dtype.lanes > 1:
        return None
    if isinstance(yes, Broadcast) and isinstance(no, Broadcast) and yes.lanes == no.lanes:
        return Broadcast(Select(condition, yes.value, no.value), yes.lanes)
    return Select(condition, yes, no)


def _lift_not(expr: Any, _facts: Any) -> Expr | None:
    """not broadcast(p)  ->  broadcast(not p)"""
    return Broadcast(logical_not(expr.a.value), expr.a.lanes) if _is_broadcast(expr.a) else None


def _lift_cast(expr: Any, _facts: Any) -> Expr | None:
    """cast(broadcast(x))  ->  broadcast(cast(x)); a ramp that cannot overflow likewise"""
    value = expr.value
    if _is_broadcast(value):
        return Broadcast(cast(expr.dtype.element, value.value), value.lanes)
    widens = is_index(value.dtype) and is_index(expr.dtype) and expr.dtype.bits >= value.dtype.bits
    if isinstance(value, Ramp) and widens and value.base.dtype.lanes == 1:
        kind = expr.dtype.element
        return Ramp(cast(kind, value.base), cast(kind, value.stride), value.lanes)
    return None


def _is_broadcast(value: Expr) -> bool:
    return isinstance(value, Broadcast)


_SUMS: tuple[VectorRule, ...] = (_lift_broadcast, _ramp_sum)
_COMPARES: tuple[VectorRule, ...] = (_lift_broadcast, _ramp_compare)
_PLAIN: tuple[VectorRule, ...] = (_lift_broadcast,)
RULES: dict[type[Expr], tuple[VectorRule, ...]] = {
    Add: _SUMS,
    Sub: _SUMS,
    Mul: (_lift_broadcast, _ramp_product),
    FloorDiv: (_lift_broadcast, _ramp_quotient),
    FloorMod: (_lift_broadcast, _ramp_remainder),
    **dict.fromkeys((Min, Max, And, Or, EQ, NE), _PLAIN),
    **dict.fromkeys((LT, LE, GT, GE), _COMPARES),
    Ramp: (_ramp_of_equal,),
    Broadcast: (_nested_broadcast,),
    Select: (_select_lanes,),
    Not: (_lift_not,),
    Cast: (_lift_cast,),
}
