"""Integer arithmetic on ramps: a vector of equally spaced indices stays a `Ramp`."""

from __future__ import annotations

from ...expr import (
    Add,
    Broadcast,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Ramp,
    Sub,
    binary,
    broadcast_to,
    cast,
    const,
    match_lanes,
)
from .linear import linear


def add(a: Expr, b: Expr) -> Expr:
    """a + b; two ramps or a ramp and a scalar give a ramp."""
    return _sum(Add, a, b)


def subtract(a: Expr, b: Expr) -> Expr:
    """a - b."""
    return _sum(Sub, a, b)


def _sum(op: type[Add] | type[Sub], a: Expr, b: Expr) -> Expr:
    if a.dtype.lanes == b.dtype.lanes == 1:
        return binary(op, a, b)
    first, second = base_and_stride(a), base_and_stride(b)
    if first is None or second is None:
        return op(*match_lanes(a, b))
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    base, stride = binary(op, first[0], second[0]), binary(op, first[1], second[1])
    return ramp(base, stride, lanes)


def multiply(a: Expr, b: Expr) -> Expr:
    """a * b; a ramp times a scalar gives a ramp."""
    if a.dtype.lanes == b.dtype.lanes == 1:
        return binary(Mul, a, b)
    for x, y in ((a, b), (b, a)):
        parts, factor = base_and_stride(x), uniform(y)
        if parts is not None and factor is not None:
            base, stride = binary(Mul, parts[0], factor), binary(Mul, parts[1], factor)
            return ramp(base, stride, max(a.dtype.lanes, b.dtype.lanes))
    return Mul(*match_lanes(a, b))


def floor_divide(a: Expr, b: Expr) -> Expr:
    """a // b; where all lanes have one quotient it is a scalar."""
    return _divide(FloorDiv, a, b)


def floor_remainder(a: Expr, b: Expr) -> Expr:
    """a % b, with the sign of b."""
    return _divide(FloorMod, a, b)


def _divide(op: type[FloorDiv] | type[FloorMod], a: Expr, b: Expr) -> Expr:
    divisor = uniform(b)
    if isinstance(a, Ramp) and isinstance(divisor, IntImm) and divisor.value > 0:
        known = _divide_ramp(op, a, divisor)
        if known is not None:
            return known
    return op(*match_lanes(a, b))


def _divide_ramp(op: type[FloorDiv] | type[FloorMod], a: Ramp, divisor: IntImm) -> Expr | None:
    """With `base = d * q + r`: the lanes' own part, when the lanes do not cross a multiple of d."""
    if not isinstance(a.stride, IntImm) or a.base.dtype.code != "int":
        return None
    d, step, kind = divisor.value, a.stride.value, a.base.dtype
    if step % d == 0:
        base = binary(op, a.base, divisor)
        return base if op is FloorMod else ramp(base, const(step // d, kind), a.lanes)
    whole, rest = linear(a.base).split(d)
    if rest.terms:
        return None
    ends = (rest.const, rest.const + step * (a.lanes - 1))
    if min(ends) < 0 or max(ends) >= d:
        return None
    if op is FloorDiv:
        return whole.to_expr(kind)
    return ramp(const(rest.const, kind), a.stride, a.lanes)


def convert(value: Expr, target: str) -> Expr:
    """A conversion; between integers a ramp stays a ramp (index arithmetic does not overflow)."""
    if isinstance(value, Ramp) and value.dtype.code == "int":
        element = cast(target, value.base)
        if element.dtype.code == "int" and element.dtype.bits >= value.dtype.bits:
            return Ramp(element, cast(target, value.stride), value.lanes)
    if isinstance(value, Broadcast):
        return broadcast_to(cast(target, value.value), value.lanes)
    return Cast(cast_type(target, value), value)


def cast_type(target: str, value: Expr) -> str:
    """The type `target` with the lanes of a value."""
    return const(0, target).dtype.element.with_lanes(value.dtype.lanes)


def ramp(base: Expr, stride: Expr, lanes: int) -> Expr:
    """A ramp, or a scalar where the stride is zero: all lanes are one."""
    if isinstance(stride, IntImm) and stride.value == 0:
        return base
    return Ramp(base, stride, lanes)


def base_and_stride(value: Expr) -> tuple[Expr, Expr] | None:
    """The first element and the step between elements of an evenly spaced vector or a scalar."""
    if value.dtype.lanes == 1:
        return value, const(0, value.dtype)
    if isinstance(value, Ramp) and value.base.dtype.lanes == 1:
        return value.base, value.stride
    if isinstance(value, Broadcast) and value.value.dtype.lanes == 1:
        return value.value, const(0, value.value.dtype)
    return None


def uniform(value: Expr) -> Expr | None:
    """The scalar that every lane holds, if that shows."""
    if value.dtype.lanes == 1:
        return value
    return value.value if isinstance(value, Broadcast) else None
