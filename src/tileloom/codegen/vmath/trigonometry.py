"""sin, cos and tan, right for every finite argument.

`x = n pi/2 + r`: for usual sizes by subtracting `n` times pi/2 in three parts, with fused
multiplication (Cody and Waite). Beyond, a branch leads to the method of Payne and Hanek
(`huge.py`), in integers and lane by lane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import coefficients as table
from .blocks import each_lane, otherwise
from .huge import reduce_huge
from .lanes import Lanes, Val

#: pi / 2 in parts.
_HALF_PI = {
    32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    64: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_USUAL = {32: 2.0**16, 64: 2.0**30}  # sizes up to which the parts suffice


@dataclass(frozen=True)
class _Angle:
    """`r + low` of at most about pi/4, and the number of quarter turns taken off."""

    r: Val
    low: Val | None
    quarter: Val


def _reduce(k: Lanes, x: Val) -> _Angle:
    magic = 1.5 * 2.0**k.mantissa
    shifted = k.fma(x, 2.0 / math.pi, magic)
    quarter, n = k.bits_of(shifted), shifted - magic
    first, second, third = _HALF_PI[k.bits]
    r = k.fma(n, -first, x)
    size = k.abs(x)
    huge = (size > _USUAL[k.bits]) & (size < math.inf)
    far = k.select(huge, x, 2.0**100)  # no lane may be too small there
    if k.bits == 32:
        r = k.fma(n, -third, k.fma(n, -second, r))
        r, quarter = otherwise(k, huge, [r, quarter], lambda: _huge_single(k, far))
        return _Angle(r, None, quarter)
    product = n * second
    rest = k.fma(n, second, -product)
    high = r - product
    low = (r - high) - product - k.fma(n, third, rest)
    high, low, quarter = otherwise(k, huge, [high, low, quarter], lambda: _huge_double(k, far))
    return _Angle(high, low, quarter)


def _huge_double(k: Lanes, x: Val) -> list[Val]:
    return each_lane(k, "huge_angle", [x], reduce_huge, 3)


def _huge_single(k: Lanes, x: Val) -> list[Val]:
    wide = k.at(64)
    high, _, quarter = each_lane(wide, "huge_angle", [k.convert(x, 64)], reduce_huge, 3)
    narrow = k.builder.trunc(quarter.value, k.int_type)
    return [wide.convert(high, 32), k.wrap(narrow)]


def _sine(k: Lanes, angle: _Angle, z: Val) -> Val:
    """The sine of the reduced angle."""
    r = angle.r
    p = k.poly(z, table.SIN[k.bits])
    if angle.low is None:
        return k.fma(r * z, p, r)
    # sin(r + low) = sin r + low cos r
    return r + k.fma(r * z, p, angle.low * k.fma(z, -0.5, 1.0))


def _cosine(k: Lanes, angle: _Angle, z: Val) -> Val:
    """The cosine of the reduced angle."""
    p = k.poly(z, table.COS[k.bits])
    near = k.fma(z, -0.5, 1.0)
    if angle.low is None:
        return k.fma(z * z, p, near)
    # What `near` lost, and cos(r + low) = cos r - low sin r.
    lost = k.fma(z, -0.5, 1.0 - near)
    return near + (k.fma(z * z, p, lost) - angle.r * angle.low)


def _both(k: Lanes, x: Val) -> tuple[_Angle, Val, Val]:
    angle = _reduce(k, x)
    z = angle.r * angle.r
    return angle, _sine(k, angle, z), _cosine(k, angle, z)


def _is_odd(k: Lanes, quarter: Val) -> Val:
    return (quarter & 1).equals(1)


def _signed(k: Lanes, size: Val, quarter: Val) -> Val:
    """`size`, negative in the second half of the turn."""
    return k.from_bits(k.bits_of(size) ^ ((quarter & 2) << (k.bits - 2)))


def sin(k: Lanes, x: Val) -> Val:
    """The sine."""
    angle, sine, cosine = _both(k, x)
    size = k.select(_is_odd(k, angle.quarter), cosine, sine)
    return k.select(x.equals(0.0), x, _signed(k, size, angle.quarter))


def cos(k: Lanes, x: Val) -> Val:
    """The cosine."""
    angle, sine, cosine = _both(k, x)
    size = k.select(_is_odd(k, angle.quarter), sine, cosine)
    return _signed(k, size, angle.quarter + 1)


def tan(k: Lanes, x: Val) -> Val:
    """The tangent: sine over cosine, or the negative of the inverse in odd quarters."""
    angle, sine, cosine = _both(k, x)
    odd = _is_odd(k, angle.quarter)
    quotient = k.select(odd, -cosine, sine) / k.select(odd, sine, cosine)
    return k.select(x.equals(0.0), x, quotient)
