"""Functions that work on encodings or exponents: ldexp, nextafter, hypot."""

from __future__ import annotations

import math

import llvmlite.ir as ir

from .lanes import Lanes, Val

_LIMIT = 5000  # beyond it every power of two overflows or vanishes, whatever it is multiplied by


def _exponent_argument(k: Lanes, n: Val) -> Val:
    """An integer of any width, or a float, as a small integer of the width of the lanes."""
    b = k.builder
    if not n.is_int:
        bounded = k.at_most(k.at_least(n, -float(_LIMIT)), float(_LIMIT))
        bounded = k.select(k.is_nan(n), 0.0, bounded)
        return k.wrap(b.fptosi(bounded.value, k.int_type))
    typ = n.value.type
    width = typ.element.width if isinstance(typ, ir.VectorType) else typ.width
    same = Lanes(b, width, k.count)
    value = Val(same, n.value)
    if width >= 16:
        low, high = same.integer(-_LIMIT), same.integer(_LIMIT)
        value = same.select(value < low, low, same.select(value > high, high, value))
    if width == k.bits:
        return k.wrap(value.value)
    return k.wrap((b.sext if width < k.bits else b.trunc)(value.value, k.int_type))


def ldexp(k: Lanes, x: Val, n: Val) -> Val:
    """`x 2**n`, rounded once; `n` may be an integer of any width."""
    small = k.abs(x) < 2.0 ** (1 - k.bias)
    y = k.select(small, x * 2.0**k.mantissa, x)
    bits = k.bits_of(y)
    field = bits.shift_right(k.mantissa) & (2 * k.bias + 1)
    e = field - k.bias - k.select(small, k.integer(k.mantissa), k.integer(0))
    total = e + _exponent_argument(k, n)
    low, high = k.integer(-(k.bias + k.mantissa + 10)), k.integer(k.bias + 5)
    total = k.select(total < low, low, k.select(total > high, high, total))
    half = total >> 1
    rest = total - half
    one = k.bits_of(k.const(1.0))
    number = k.from_bits((bits & ((1 << k.mantissa) - 1)) | one)
    number = number * k.from_bits(half + k.bias << k.mantissa)
    number = number * k.from_bits(rest + k.bias << k.mantissa)
    ordinary = (k.abs(x) > 0.0) & (k.abs(x) < math.inf)
    return k.select(ordinary, k.copysign(number, x), x)


def nextafter(k: Lanes, x: Val, y: Val) -> Val:
    """The neighbour of `x` on the side of `y`."""
    zero, bits = k.integer(0), k.bits_of(x)
    outward = (x < y) ^ (bits < zero)
    step = k.select(outward, k.integer(1), k.integer(-1))
    result = k.from_bits(bits + step)
    least = k.copysign(k.from_bits(k.integer(1)), y)
    result = k.select(x.equals(0.0), least, result)
    result = k.select(x.equals(y), y, result)
    return k.select(k.is_nan(x), x, k.select(k.is_nan(y), y, result))


def hypot(k: Lanes, x: Val, y: Val) -> Val:
    """`sqrt(x**2 + y**2)` without overflow on the way; `k` is double."""
    a, b = k.abs(x), k.abs(y)
    swap = b > a
    large, small = k.select(swap, b, a), k.select(swap, a, b)
    huge, tiny = large > 2.0**510, large < 2.0**-450
    down = k.select(huge, 2.0**-600, k.select(tiny, 2.0**600, 1.0))
    up = k.select(huge, 2.0**600, k.select(tiny, 2.0**-600, 1.0))
    p, q = large * down, small * down
    result = k.sqrt(k.fma(p, p, q * q)) * up
    result = k.select(k.is_nan(x), x, k.select(k.is_nan(y), y, result))
    return k.select(a.equals(math.inf) | b.equals(math.inf), math.inf, result)
