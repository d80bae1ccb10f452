"""The error function and its complement."""

from __future__ import annotations

from . import coefficients as table
from .exponential import LN2, LOG2_E, Reduced, scale
from .lanes import Lanes, Val

_SMALL = 1.0  # below it erf is a polynomial in x**2


def erf(k: Lanes, x: Val) -> Val:
    """The error function: a polynomial near zero, one minus a power of two or erfc elsewhere."""
    a = k.abs(x)
    z = k.at_most(a, _SMALL)
    near = k.fma(a, k.poly(z * z, table.ERF[k.bits]), a)
    far = 1.0 - _tail_single(k, a) if k.bits == 32 else 1.0 - _tail(k, a, 6.0)
    return k.copysign(k.select(a > _SMALL, far, near), x)


def _tail_single(k: Lanes, a: Val) -> Val:
    """erfc for `1 <= a`, well enough to be taken from 1 in single precision."""
    exponent = k.poly(k.at_most(a, 4.0), table.ERF_TAIL[32])
    reduced = Reduced(k, exponent, 1.0, (1.0,))
    return k.poly(reduced.r, (1.0, *table.EXP2_FAST[32])) * reduced.power(k)


def _tail(k: Lanes, a: Val, limit: float) -> Val:
    """erfc for `0.5 <= a`: `exp(-a**2)` times a polynomial, the square to twice the digits."""
    a = k.at_most(a, limit)
    square = a * a
    rest = k.fma(a, a, -square)
    reduced = Reduced(k, -square, LOG2_E, LN2[64], 2 * k.bias)
    r = reduced.r - rest
    p = k.fma(r * r, k.poly(r, table.EXPM1[64]), r)
    ratio = k.poly((a - 4.0) / (a + 4.0), table.ERFCX[64]) / k.fma(a, 2.0, 1.0)
    return scale(k, k.fma(p, ratio, ratio), reduced)


def _tail_for_single(k: Lanes, a: Val) -> Val:
    """The same to 31 bits; `k` is double."""
    a = k.at_most(a, 10.2)
    reduced = Reduced(k, a * a * -LOG2_E, 1.0, (1.0,), k.bias)
    p = k.poly(reduced.r, (1.0, *table.POW_EXP2[64])) * reduced.power(k)
    return p * k.poly((a - 4.0) / (a + 4.0), table.ERFCX_SINGLE[64])


def erfc(k: Lanes, x: Val) -> Val:
    """`1 - erf(x)` without its cancellation; single precision is computed in double."""
    if k.bits == 32:
        wide = k.at(64)
        return wide.convert(_erfc(wide, k.convert(x, 64), True), 32)
    return _erfc(k, x, False)


def _erfc(k: Lanes, x: Val, single: bool) -> Val:
    a = k.abs(x)
    z = k.at_most(a, 0.5)
    near = k.fma(x, k.poly(z * z, table.ERF[32 if single else 64]), x)
    beyond = k.at_least(a, 0.5)
    tail = _tail_for_single(k, beyond) if single else _tail(k, beyond, 27.3)
    far = k.select(x < 0.0, 2.0 - tail, tail)
    return k.select(a < 0.5, 1.0 - near, far)
