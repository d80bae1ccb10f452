"""Exponentials: exp, exp2, exp10, expm1, and what is made of them: sigmoid, tanh, sinh, cosh.

Each argument is split as `x = n c + r` with `c` the logarithm of 2 and `n` an integer, rounded by
adding `1.5 * 2**mantissa`, whose low bits then hold `n`. A polynomial does `r`; `2**n` is made
by shifting the low bits of the sum into the place of an exponent.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .lanes import Lanes, Val

LOG2_E = 1.4426950408889634
#: Sums of two floats: ln 2 and log10 2, by width.
LN2 = {
    32: (0.693147182464599609375, -1.9046542121259336e-09),
    64: (0.6931471805599453, 2.3190468138462996e-17),
}
LOG10_2 = {
    32: (0.301030009984970092773, -1.432098883924482e-08),
    64: (0.30102999566398120, -2.8037281277851704e-18),
}


class Reduced:
    """`x = n c + r`, `|r| <= c / 2` nearly; `shifted` holds `n + extra` in its low bits."""

    def __init__(
        self, k: Lanes, x: Val, per: float, c: tuple[float, ...], extra: int | None = None
    ) -> None:
        magic = 1.5 * 2.0**k.mantissa + (k.bias if extra is None else extra)
        shifted = k.fma(x, per, magic)
        self.shifted = k.bits_of(shifted)
        self.n = shifted - magic
        self.r = x
        for part in c:
            self.r = k.fma(self.n, -part, self.r)

    def power(self, k: Lanes) -> Val:
        """`2**n` where it is a normal number."""
        return k.from_bits(self.shifted << k.mantissa)


def scale(k: Lanes, p: Val, x: Reduced) -> Val:
    """`p 2**n`, right also where it overflows or is subnormal; `extra` must be twice the bias."""
    half = x.shifted.shift_right(1)
    rest = x.shifted - half
    return p * k.from_bits(half << k.mantissa) * k.from_bits(rest << k.mantissa)


_LIMITS = {  # beyond them the result is 0 or infinite
    "exp": {32: (-104.0, 89.0), 64: (-746.0, 710.0)},
    "exp2": {32: (-150.0, 128.0), 64: (-1075.0, 1024.0)},
    "exp10": {32: (-46.0, 39.0), 64: (-325.0, 309.0)},
}


def _reduce(k: Lanes, name: str, x: Val, extra: int) -> Reduced:
    if name == "exp2":
        return Reduced(k, x, 1.0, (1.0,), extra)
    if name == "exp10":
        return Reduced(k, x, math.log2(10), LOG10_2[k.bits], extra)
    return Reduced(k, x, LOG2_E, LN2[k.bits], extra)


def _polynomial(k: Lanes, name: str) -> tuple[float, ...]:
    if name == "exp":
        return (1.0, 1.0, *table.EXP[k.bits])
    return (1.0, *(table.EXP2 if name == "exp2" else table.EXP10)[k.bits])


def exponential(k: Lanes, name: str, x: Val) -> Val:
    """exp, exp2 or exp10."""
    low, high = _LIMITS[name][k.bits]
    x = k.at_most(k.at_least(x, low), high)
    reduced = _reduce(k, name, x, 2 * k.bias)
    return scale(k, k.poly(reduced.r, _polynomial(k, name)), reduced)


def _minus_one(k: Lanes, r: Val) -> Val:
    """`exp(r) - 1` for a reduced `r`."""
    return k.fma(r * r, k.poly(r, table.EXPM1[k.bits]), r)


def expm1(k: Lanes, x: Val) -> Val:
    """`exp(x) - 1`."""
    low, high = {32: (-20.0, 89.0), 64: (-40.0, 710.0)}[k.bits]
    y = k.at_most(k.at_least(x, low), high)
    reduced = Reduced(k, y, LOG2_E, LN2[k.bits], k.bias - 1)
    q, half = _minus_one(k, reduced.r), reduced.power(k)  # 2**(n - 1): n may be one too large
    scaled = k.fma(half, q, half - 0.5)
    result = k.select(reduced.n.equals(0.0), q, scaled + scaled)
    return k.copysign(result, x)


def sigmoid(k: Lanes, x: Val) -> Val:
    """`1 / (1 + exp(-x))`, which for negative `x` is `exp(x) / (1 + exp(x))`."""
    size = k.at_least(-k.abs(x), _LIMITS["exp"][k.bits][0])
    reduced = _reduce(k, "exp", size, 2 * k.bias)
    e = scale(k, k.poly(reduced.r, _polynomial(k, "exp")), reduced)
    below = e + 1.0
    quotient = k.select(x < 0.0, e, 1.0) / below
    return k.fma(quotient, below - 1.0 - e, quotient)  # makes up for the rounding of 1 + e


def tanh(k: Lanes, x: Val) -> Val:
    """`1 - 2 / (exp(2 |x|) + 1)`, or a polynomial where that would cancel."""
    size = k.abs(x)
    z = size * size
    near = k.fma(size * z, k.poly(z, table.TANH[k.bits]), size)
    double = k.at_most(size + size, {32: 20.0, 64: 40.0}[k.bits])
    reduced = Reduced(k, double, LOG2_E, LN2[k.bits])
    p = k.poly(reduced.r, _polynomial(k, "exp"))
    far = 1.0 - 2.0 / k.fma(p, reduced.power(k), 1.0)
    return k.copysign(k.select(size < 0.55, near, far), x)


def _hyperbolic(k: Lanes, x: Val) -> tuple[Val, Val, Val, Val, Val]:
    """`sinh(n ln 2)`, `cosh(n ln 2)`, `sinh r`, `cosh r - 1`, and a factor put off to the end."""
    size = k.at_most(k.abs(x), {32: 89.6, 64: 710.6}[k.bits])
    reduced = Reduced(k, size, LOG2_E, LN2[k.bits])
    large = reduced.n > 64.0
    put_off = k.select(large, k.integer(1), k.integer(0))
    up = reduced.shifted - 1 - put_off << k.mantissa
    magic = k.bits_of(k.const(1.5 * 2.0**k.mantissa + k.bias))
    field = magic - reduced.shifted + (k.bias - 1)
    none = k.integer(0)
    down = k.select(field > none, field, none) << k.mantissa
    a, b = k.from_bits(up), k.from_bits(down)
    z = reduced.r * reduced.r
    sinh = k.fma(reduced.r * z, k.poly(z, table.SINH[k.bits]), reduced.r)
    cosh = z * k.poly(z, table.COSH[k.bits])
    return a - b, a + b, sinh, cosh, k.select(large, 2.0, 1.0)


def sinh(k: Lanes, x: Val) -> Val:
    """`sinh(n ln 2) cosh r + cosh(n ln 2) sinh r`."""
    s, c, sinh_r, cosh_r, factor = _hyperbolic(k, x)
    return k.copysign((s + k.fma(c, sinh_r, s * cosh_r)) * factor, x)


def cosh(k: Lanes, x: Val) -> Val:
    """`cosh(n ln 2) cosh r + sinh(n ln 2) sinh r`."""
    s, c, sinh_r, cosh_r, factor = _hyperbolic(k, x)
    return (c + k.fma(s, sinh_r, c * cosh_r)) * factor
