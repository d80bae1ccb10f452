"""fmod, exactly.

One division and one fused multiplication do it while the quotient has no more digits than a
float; for numbers far apart a branch leads to long division in integers, lane by lane.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir

from .blocks import each_lane, internal, otherwise
from .lanes import Lanes, Val

_I64, _F64 = ir.IntType(64), ir.DoubleType()
_STEP = 11  # bits that a shifted mantissa still has room for


def fmod(k: Lanes, x: Val, y: Val) -> Val:
    """What is left of `x` after taking off whole `y`, with the sign of `x`."""
    a, b = k.abs(x), k.abs(y)
    ratio = a / b
    # Rounding to nearest can make the quotient one too large, never too small.
    rest = k.fma(-k.call("trunc", ratio), b, a)
    rest = k.select(rest < 0.0, rest + b, rest)
    rest = k.select(b.equals(math.inf) & (a < math.inf), a, rest)
    far = (ratio >= 2.0 ** (k.mantissa - 1)) & (a < math.inf) & (b > 0.0)
    top, bottom = k.select(far, a, 1.0), k.select(far, b, 1.0)
    (rest,) = otherwise(k, far, [rest], lambda: [_long_division(k, top, bottom)])
    return k.copysign(rest, x)


def _long_division(k: Lanes, a: Val, b: Val) -> Val:
    wide = k.at(64)
    args = [k.convert(a, 64), k.convert(b, 64)]
    return wide.convert(each_lane(wide, "far_remainder", args, _far_remainder, 1)[0], k.bits)


def _far_remainder(k: Lanes) -> ir.Function:
    """`{double} f(double a, double b)` for finite `a >= b > 0`."""
    result = ir.LiteralStructType([_F64])
    return internal(k, "tileloom.far_remainder", result, [_F64, _F64], _body)


def _parts(b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Mantissa and exponent field, that of a subnormal number being 1."""
    bits = b.bitcast(x, _I64)
    field = b.lshr(bits, _I64(52))
    normal = b.icmp_unsigned("!=", field, _I64(0))
    mantissa = b.and_(bits, _I64((1 << 52) - 1))
    full = b.or_(mantissa, _I64(1 << 52))
    return b.select(normal, full, mantissa), b.select(normal, field, _I64(1))


def _body(b: ir.IRBuilder) -> None:
    (top, high), (bottom, low) = (_parts(b, x) for x in b.function.args)
    first = b.urem(top, bottom)
    distance = b.sub(high, low)
    before = b.block
    loop, done = b.append_basic_block(), b.append_basic_block()
    more = b.icmp_signed(">", distance, _I64(0))
    b.cbranch(more, loop, done)
    b.position_at_end(loop)
    rest, left = b.phi(_I64), b.phi(_I64)
    step = b.select(b.icmp_signed("<", left, _I64(_STEP)), left, _I64(_STEP))
    following = b.urem(b.shl(rest, step), bottom)
    shorter = b.sub(left, step)
    rest.add_incoming(first, before)
    rest.add_incoming(following, loop)
    left.add_incoming(distance, before)
    left.add_incoming(shorter, loop)
    b.cbranch(b.icmp_signed(">", shorter, _I64(0)), loop, done)
    b.position_at_end(done)
    result = b.phi(_I64)
    result.add_incoming(first, before)
    result.add_incoming(following, loop)
    unit = b.bitcast(b.shl(low, _I64(52)), _F64)
    number = b.fmul(b.fmul(b.sitofp(result, _F64), _F64(2.0**-52)), unit)
    b.ret(b.insert_value(ir.Constant(ir.LiteralStructType([_F64]), ir.Undefined), number, 0))
