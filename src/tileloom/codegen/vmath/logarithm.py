"""Logarithms, and the inverse hyperbolic functions that are made of them.

`x = 2**e (1 + f)` with `sqrt(1/2) <= 1 + f <= sqrt(2)`, by integer operations; a polynomial does
`f`. There is no division: a longer polynomial is cheaper.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .exponential import LN2, LOG10_2
from .lanes import Lanes, Val

_ROOT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # sqrt(1/2) as bits


def _exponent(k: Lanes, e: Val) -> Val:
    """A small integer as floating point (AVX2 cannot convert 64 bits, but it can add them)."""
    if k.bits == 32:
        return k.to_float(e)
    magic = 1.5 * 2.0**k.mantissa
    return k.from_bits(k.bits_of(k.const(magic)) + e) - magic


def split(k: Lanes, x: Val, normal: bool = False) -> tuple[Val, Val]:
    """`f` and `e` of a positive finite `x`, of which it may be known that it is not subnormal."""
    offset: Val | None = None
    if not normal:
        tiny = x < 2.0 ** (1 - k.bias)
        x = k.select(tiny, x * 2.0**k.mantissa, x)
        offset = k.select(tiny, -float(k.mantissa), 0.0)
    bits = k.bits_of(x)
    e = (bits - _ROOT_HALF[k.bits]) >> k.mantissa
    f = k.from_bits(bits - (e << k.mantissa)) - 1.0
    exponent = _exponent(k, e)
    return f, exponent if offset is None else exponent + offset


def _natural(k: Lanes, f: Val, e: Val) -> Val:
    """`e ln 2 + log(1 + f)`."""
    high, low = LN2[k.bits]
    square, q = f * f, k.poly(f, table.LOG[k.bits])
    # ln 2 in single precision is by chance good to 29 bits.
    tail = square * q if k.bits == 32 else k.fma(square, q, e * low)
    return k.fma(e, high, f + tail)


def _special(k: Lanes, x: Val, result: Val, pole: float = 0.0) -> Val:
    """The values at the pole, left of it, at infinity and for NaN."""
    result = k.select(x < math.inf, result, x)
    result = k.select(x > pole, result, k.select(x.equals(pole), -math.inf, math.nan))
    return k.select(k.is_nan(x), x, result)


def logarithm(k: Lanes, name: str, x: Val) -> Val:
    """log, log2 or log10."""
    f, e = split(k, x)
    if name == "log":
        result = _natural(k, f, e)
    elif name == "log2":
        result = k.fma(f, k.poly(f, table.LOG2[k.bits]), e)
    else:
        high, low = LOG10_2[k.bits]
        result = k.fma(e, high, k.fma(f, k.poly(f, table.LOG10[k.bits]), e * low))
    return _special(k, x, result)


def _log1p(k: Lanes, x: Val) -> Val:
    """For finite `x > -1`: scales `x` and 1 by the power of two that `1 + x` asks for."""
    offset = (k.bits_of(x + 1.0) - _ROOT_HALF[k.bits]) & (-1 << k.mantissa)
    small = k.from_bits(k.bits_of(x) - offset)
    one = k.from_bits(k.bits_of(k.const(4.0)) - offset)  # four times: it stays normal
    return _natural(k, small + k.fma(one, 0.25, -1.0), _exponent(k, offset >> k.mantissa))


def log1p(k: Lanes, x: Val) -> Val:
    """`log(1 + x)`."""
    return k.copysign(_special(k, x, _log1p(k, x), -1.0), x)


def asinh(k: Lanes, x: Val) -> Val:
    """`log(a + sqrt(a**2 + 1))` with `a = |x|`, as log1p of `a + a**2 / (1 + sqrt(a**2 + 1))`."""
    a = k.abs(x)
    large = a > 2.0 ** (k.mantissa // 2 + 3)
    square = k.select(large, 0.0, a * a)
    root = k.sqrt(k.fma(a, k.select(large, 0.0, a), 1.0))
    argument = k.select(large, a - 1.0, a + square / (root + 1.0))
    result = _log1p(k, argument) + k.select(large, LN2[64][0], 0.0)
    return k.copysign(k.select(a < math.inf, result, a), x)


def acosh(k: Lanes, x: Val) -> Val:
    """`log(x + sqrt(x**2 - 1))` as log1p of `t + sqrt(2 t + t**2)` with `t = x - 1`."""
    large = x > 2.0 ** (k.mantissa // 2 + 3)
    t = k.select(large, 1.0, x - 1.0)
    argument = k.select(large, x - 1.0, t + k.sqrt(k.fma(t, t, t + t)))
    result = _log1p(k, argument) + k.select(large, LN2[64][0], 0.0)
    return k.select(x < math.inf, k.select(x >= 1.0, result, math.nan), x)


def atanh(k: Lanes, x: Val) -> Val:
    """`log1p(2 a / (1 - a)) / 2` with `a = |x|`."""
    a = k.abs(x)
    argument = (a + a) / (1.0 - a)
    half = _log1p(k, argument) * 0.5
    result = k.select(a < 1.0, half, k.select(a.equals(1.0), math.inf, math.nan))
    tiny = a < 2.0 ** (-k.mantissa // 2 - 3)  # a subnormal number does not bear the halving
    return k.copysign(k.select(tiny, a, result), x)
