"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from . import coefficients as table
from .lanes import Lanes, Val

_HALF_PI = {
    32: (1.5707963705062866, -4.371138828673793e-08),
    64: (math.pi / 2, 6.123233995736766e-17),
}


def _atan(k: Lanes, t: Val) -> Val:
    """The arc tangent for `0 <= t <= 1`."""
    z = t * t
    return k.fma(t * z, k.poly(z, table.ATAN[k.bits]), t)


def atan(k: Lanes, x: Val) -> Val:
    """The arc tangent: that of `1 / x` taken from pi/2 beyond 1."""
    a = k.abs(x)
    large = a > 1.0
    p = _atan(k, k.select(large, 1.0 / a, a))
    high, low = _HALF_PI[k.bits]
    return k.copysign(k.select(large, high - (p - low), p), x)


def atan2(k: Lanes, y: Val, x: Val) -> Val:
    """The angle of the point `(x, y)`, with the special cases of C."""
    a, b = k.abs(x), k.abs(y)
    steep = b > a
    top, bottom = k.select(steep, a, b), k.select(steep, b, a)
    t = top / bottom
    t = k.select(bottom.equals(0.0), 0.0, t)
    t = k.select(top.equals(math.inf), 1.0, t)
    p = _atan(k, t)
    high, low = _HALF_PI[k.bits]
    p = k.select(steep, high - (p - low), p)
    left = k.bits_of(x) < k.integer(0)
    p = k.select(left, 2.0 * high - (p - 2.0 * low), p)
    return k.select(k.is_nan(x), x, k.select(k.is_nan(y), y, k.copysign(p, y)))


def _asin(k: Lanes, a: Val) -> tuple[Val, Val]:
    """The arc sine of `a`, or for `a > 1/2` that of `sqrt((1 - a) / 2)`; and where which."""
    large = a > 0.5
    z = k.select(large, k.fma(a, -0.5, 0.5), a * a)
    s = k.select(large, k.sqrt(z), a)
    return k.fma(s * z, k.poly(z, table.ASIN[k.bits]), s), large


def asin(k: Lanes, x: Val) -> Val:
    """The arc sine."""
    p, large = _asin(k, k.abs(x))
    high, low = _HALF_PI[k.bits]
    return k.copysign(k.select(large, k.fma(p, -2.0, high) + low, p), x)


def acos(k: Lanes, x: Val) -> Val:
    """The arc cosine."""
    p, large = _asin(k, k.abs(x))
    high, low = _HALF_PI[k.bits]
    double, left = p + p, x < 0.0
    outer = k.select(left, 2.0 * high - (double - 2.0 * low), double)
    return k.select(large, outer, high - (k.copysign(p, x) - low))
