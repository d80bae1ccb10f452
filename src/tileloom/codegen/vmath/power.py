"""Powers and roots: pow and cbrt."""

from __future__ import annotations

import math

from . import coefficients as table
from .exponential import Reduced, scale
from .lanes import Lanes, Val
from .logarithm import split

Pair = tuple[Val, Val]  # an unevaluated sum, the second much the smaller

# 2 / ln 2 and a third of it, each as a sum of two doubles.
_TWO_LOG2_E = (2.8853900817779268, 4.0710547481862066e-17)
_THIRD = (0.9617966939259756, 5.0577616648125907e-17)


def _two_sum(a: Val, b: Val) -> Pair:
    """`a + b` for `|a| >= |b|`."""
    total = a + b
    return total, b - (total - a)


def _multiply(k: Lanes, x: Pair, y: Pair) -> Pair:
    high = x[0] * y[0]
    low = k.fma(x[0], y[0], -high)
    return _two_sum(high, k.fma(x[0], y[1], k.fma(x[1], y[0], low)))


def _log2_double(k: Lanes, x: Val) -> Pair:
    """log2 of a positive finite double to 68 bits: `e + log2((1 + t) / (1 - t))`."""
    f, e = split(k, x)
    bottom = f + 2.0
    inverse = 1.0 / bottom
    high = f * inverse
    rest = k.fma(-high, bottom, f) - high * (f - (bottom - 2.0))
    t = _two_sum(high, rest * inverse)
    z = _multiply(k, t, t)
    q = z[0] * z[0] * k.poly(z[0], table.POW_ATANH[64])
    cube = _multiply(k, z, (k.const(_THIRD[0]), k.const(_THIRD[1])))
    first = _two_sum(k.const(_TWO_LOG2_E[0]), cube[0])
    series = _two_sum(first[0], first[1] + (cube[1] + q + _TWO_LOG2_E[1]))
    product = _multiply(k, t, series)
    near = e.equals(0.0)
    total = _two_sum(k.select(near, product[0], e), k.select(near, 0.0, product[0]))
    return _two_sum(total[0], total[1] + product[1])


def _power_double(k: Lanes, a: Val, y: Val) -> Val:
    """`a**y` for finite `a > 0`."""
    log_high, log_low = _log2_double(k, a)
    y = k.at_most(k.at_least(y, -(2.0**80)), 2.0**80)  # keeps the products finite
    high = y * log_high
    low = k.fma(y, log_low, k.fma(y, log_high, -high))
    bounded = k.at_most(k.at_least(high, -1080.0), 1030.0)
    reduced = Reduced(k, bounded, 1.0, (1.0,), 2 * k.bias)
    low = k.select(bounded.equals(high), low, 0.0)
    r = reduced.r + low
    return scale(k, k.poly(r, (1.0, *table.EXP2[64])), reduced)


def _power_single(k: Lanes, a: Val, y: Val) -> Val:
    """The same to 31 bits, for single precision; `k` is double."""
    y = k.at_most(k.at_least(y, -(2.0**130)), 2.0**130)  # an infinity times 0 would be NaN
    f, e = split(k, a, normal=True)
    log = k.fma(f, k.poly(f, table.POW_LOG2[64]), e)
    exponent = k.at_most(k.at_least(y * log, -1000.0), 1000.0)
    reduced = Reduced(k, exponent, 1.0, (1.0,), k.bias)
    return k.poly(reduced.r, (1.0, *table.POW_EXP2[64])) * reduced.power(k)


def power(k: Lanes, x: Val, y: Val) -> Val:
    """`x**y` with the special cases of C."""
    single, a = k.bits == 32, k.abs(x)
    proper = k.select((a < math.inf) & (a > 0.0), a, 1.0)
    if single:
        wide = k.at(64)
        result = wide.convert(_power_single(wide, k.convert(proper, 64), k.convert(y, 64)), 32)
    else:
        result = _power_double(k, proper, y)
    # |x| is 0 or infinite: so is the result, by the sign of y.
    zero = a.equals(0.0)
    vanishes = (zero & (y > 0.0)) | (a.equals(math.inf) & (y < 0.0))
    extreme = zero | a.equals(math.inf)
    result = k.select(extreme, k.select(vanishes, 0.0, math.inf), result)
    whole = k.call("trunc", y).equals(y)
    half = y * 0.5
    odd = k.select(k.call("trunc", half).equals(half), 0.0, 1.0)
    negative = k.select(whole, odd, 0.0) > 0.0
    result = k.select(negative, k.copysign(result, x), result)
    result = k.select((x < 0.0) & (a < math.inf), k.select(whole, result, math.nan), result)
    result = k.select(k.is_nan(x), x, k.select(k.is_nan(y), y, result))
    return k.select(y.equals(0.0), 1.0, k.select(x.equals(1.0), 1.0, result))


def cbrt(k: Lanes, x: Val) -> Val:
    """The cube root of `m 8**n`, `1/2 <= m`, by Newton steps for `m**(-1/3)`."""
    a = k.abs(x)
    tiny = a < 2.0 ** (1 - k.bias)
    shift = {32: 24.0, 64: 54.0}[k.bits]
    a = k.select(tiny, a * 2.0**shift, a)
    third = {32: 0x54A21D2A, 64: 0x553EF0FF289DD796}[k.bits]
    y = k.from_bits(third - _divide_by_3(k, k.bits_of(a)))
    for _ in range(2 if k.bits == 32 else 3):
        e = k.fma(-(a * y), y * y, 1.0)
        y = k.fma(y * e, k.fma(e, k.fma(e, 14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), y)
    root = a * y * y
    # One more step on the root itself, with the remainder to full precision.
    square = root * root
    tail = k.fma(root, root, -square)
    remainder = k.fma(-root, tail, k.fma(-root, square, a))
    root = k.fma(remainder * y * y, 1.0 / 3.0, root)
    root = k.select(tiny, root * 2.0 ** (-shift / 3), root)
    ordinary = (k.abs(x) > 0.0) & (k.abs(x) < math.inf)
    return k.select(ordinary, k.copysign(root, x), x)


def _divide_by_3(k: Lanes, bits: Val) -> Val:
    """A third of the encoding, roughly: its upper half is enough."""
    if k.bits == 32:
        wide = k.to_float(bits) * (1.0 / 3.0)
        return k.wrap(k.builder.fptosi(wide.value, k.int_type))
    high = bits.shift_right(32)
    return (high * 0x55555556).shift_right(32) << 32
