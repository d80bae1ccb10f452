"""Gated linear units: silu and both forms of gelu.

Each is `x` times the probability that a random number of some distribution is below `x`. For either
sign that is `max(x, 0) - |x| P(-|x|)`, where the tail `P(-|x|)` is an exponential times a factor
near one: nothing cancels. The exponential is computed `2**SHIFT` times too large, and the product
with `|x|` put right at the end, so that results keep their digits where the tail by itself would be
subnormal.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .exponential import LN2, LOG2_E, Reduced
from .lanes import Lanes, Val

#: How much too large the exponential is, and the size of arguments from which `2**(n + SHIFT)` has
#: come down to 0, by width: subnormal numbers, which take processors long, are hardly ever met.
_SHIFT = {32: 30, 64: 62}
_SILU_LIMIT = {32: 109.0, 64: 752.1}
_GELU_LIMIT = {32: 14.76, 64: 38.785}
_TANH_LIMIT = {32: 10.87, 64: 21.586}
#: `2 sqrt(2 / pi) log2(e)` and 0.044715 times that, as sums of two floats, by width.
_LINEAR = {
    32: (2.302208185195923, 1.2948402350332344e-08),
    64: (2.3022081981443248, 1.3132826040769712e-16),
}
_CUBIC = {
    32: (0.10294324159622192, -2.016198541454628e-09),
    64: (0.1029432395800235, -5.978177400718744e-18),
}


def _size(k: Lanes, x: Val, limits: dict[int, float]) -> Val:
    """`|x|`, at most a limit."""
    return k.at_most(k.abs(x), limits[k.bits])


def _shifted(k: Lanes, x: Val, per: float, c: tuple[float, ...]) -> Reduced:
    """`x = n c + r` with a power of two that is `2**(n + SHIFT)`."""
    return Reduced(k, x, per, c, k.bias + _SHIFT[k.bits])


def _logistic(k: Lanes, x: Val, a: Val, exponential: Val) -> Val:
    """`x / (1 + exp(-s))` of `exp(-|s|) 2**SHIFT`, where `a` is `|x|`."""
    return k.at_least(x, -0.0) - a * exponential / (exponential + 2.0 ** _SHIFT[k.bits])


def silu(k: Lanes, x: Val) -> Val:
    """`x / (1 + exp(-x))`."""
    a = _size(k, x, _SILU_LIMIT)
    reduced = _shifted(k, -a, LOG2_E, LN2[k.bits])
    p = k.poly(reduced.r, (1.0, 1.0, *table.EXP[k.bits]))
    return _logistic(k, x, a, p * reduced.power(k))


def gelu_tanh(k: Lanes, x: Val) -> Val:
    """`x (1 + tanh(u)) / 2 = x / (1 + exp(-2 u))` with `u = sqrt(2 / pi) (x + 0.044715 x**3)`.

    `2 u log2(e)` is needed to twice the digits: its error is a relative one of the result.
    """
    a = _size(k, x, _TANH_LIMIT)
    (linear, linear_low), (cubic, cubic_low) = _LINEAR[k.bits], _CUBIC[k.bits]
    square = a * a
    square_low = k.fma(a, a, -square)
    product = square * cubic
    product_low = k.fma(square, cubic, -product)
    product_low = k.fma(square_low, cubic, k.fma(square, cubic_low, product_low))
    factor = product + linear
    back = factor - product
    factor_low = (product - (factor - back)) + (linear - back) + product_low + linear_low
    y = a * factor
    y_low = k.fma(a, factor_low, k.fma(a, factor, -y))
    reduced = _shifted(k, -y, 1.0, (1.0,))
    p = k.poly(reduced.r - y_low, (1.0, *table.EXP2[k.bits]))
    return _logistic(k, x, a, p * reduced.power(k))


def gelu(k: Lanes, x: Val) -> Val:
    """`x Phi(x)`: the tail is `exp(-x**2 / 2)`, the square to twice the digits, times a factor."""
    a = _size(k, x, _GELU_LIMIT)
    square = a * a
    rest = k.fma(a, a, -square)
    high, low = LN2[k.bits]
    reduced = _shifted(k, -square, LOG2_E / 2, (2 * high, 2 * low))
    finish = _with_tail_single if k.bits == 32 else _with_tail_double
    return finish(k, x, a, reduced.r - rest, reduced.power(k))


def _with_tail_single(k: Lanes, x: Val, a: Val, r: Val, power: Val) -> Val:
    """`max(x, 0) - a Phi(-a)`: of `exp(r / 2)` and a polynomial in `a u` with `u = 1 / (a + 2)`.

    What `u` is off relatively, the factor is off some 1.4 times: the exponential makes up for it.
    """
    u = 1.0 / (a + 2.0)
    w = k.fma(u, -2.0, 1.0)
    factor = k.poly(w, tuple(c * 0.5 ** _SHIFT[32] for c in table.NORMAL_TAIL[32])) * u
    halves = [c * 0.5**n for n, c in enumerate((1.0, 1.0, *table.EXP[32]))]
    p = k.poly(k.fma(k.fma(-u, a, w), 2.8, r), tuple(halves)) * power
    return k.fma(-(a * p), factor, k.at_least(x, -0.0))


def _with_tail_double(k: Lanes, x: Val, a: Val, r: Val, power: Val) -> Val:
    """The same by the error function's polynomial near zero and by its complement's beyond."""
    s = a * math.sqrt(0.5)
    z = k.at_most(s, 0.5)
    near = (0.5 - 0.5 * k.fma(z, k.poly(z * z, table.ERF[64]), z)) * a
    t = k.at_least(s, 0.5)
    ratio = k.poly((t - 4.0) / (t + 4.0), table.ERFCX[64]) / k.fma(t, 4.0, 2.0)
    half = r * 0.5
    p = k.fma(half * half, k.poly(half, table.EXPM1[64]), half)
    far = a * k.fma(p, ratio, ratio) * power * 0.5 ** _SHIFT[64]
    return k.at_least(x, -0.0) - k.select(s < 0.5, near, far)
