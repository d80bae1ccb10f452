"""Special functions, computed in float64 and rounded to float32.

Sources: Abramowitz and Stegun 6.1.41, 6.3.18 and their recurrences and reflections (lgamma,
digamma); Press et al., Numerical Recipes, 6.2.2 (erfcx, to 1.2e-7); Giles 2010, "Approximating the
erfinv function" (in single precision).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call, as_tensor
from ..registry import aten

_SHIFT = 8
_LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132)
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
         1.48851587, -0.82215223, 0.17087277)  # fmt: skip
_ERFINV_CENTRE = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                  -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
_ERFINV_TAIL = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
                -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The polynomial with these coefficients, the constant one first."""
    result = ops.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = ops.add(ops.mul(result, x), coefficient)
    return result


def _exact(call: Call, x: Tensor) -> Tensor:
    if call.dtype == "float64":
        raise UnsupportedError("special functions in float64")
    return as_tensor(x, "float64")


def _shifted_log(x: Tensor) -> tuple[Tensor, Tensor]:
    """x + 8, and the product x (x + 1) ... (x + 7)."""
    product = x
    for k in range(1, _SHIFT):
        product = ops.mul(product, ops.add(x, float(k)))
    return ops.add(x, float(_SHIFT)), product


def _lgamma_positive(x: Tensor) -> Tensor:
    y, product = _shifted_log(x)
    inverse = ops.reciprocal(y)
    series = ops.mul(polynomial(ops.square(inverse), _LGAMMA), inverse)
    stirling = ops.sub(ops.mul(ops.sub(y, 0.5), ops.log(y)), y)
    far = ops.add(ops.add(stirling, 0.5 * math.log(2 * math.pi)), series)
    # Beyond 1e30 the product overflows; there log x is all that the shift changes.
    log_product = ops.where(ops.less(x, 1e30), ops.log(product), ops.mul(ops.log(x), float(_SHIFT)))
    result = ops.sub(far, log_product)
    return ops.where(ops.isinf(x), x, result)


def _whole(x: Tensor) -> Tensor:
    return ops.equal(ops.floor(x), x)


@aten("lgamma.default")
def lgamma(call: Call, x: Tensor) -> Tensor:
    """log |gamma(x)|."""
    v = _exact(call, x)
    low = ops.less(v, 0.5)
    positive = _lgamma_positive(ops.where(low, ops.sub(1.0, v), v))
    turn = ops.sub(v, ops.floor(v))  # sin has period 2 pi; of large numbers this keeps digits
    sine = ops.abs(ops.sin(ops.mul(turn, math.pi)))
    mirrored = ops.sub(ops.log(ops.div(math.pi, sine)), positive)
    result = ops.where(low, mirrored, positive)
    pole = ops.logical_and(ops.less_equal(v, 0.0), _whole(v))
    return call.cast(ops.where(ops.logical_or(pole, ops.isinf(v)), math.inf, result))


@aten("digamma.default")
def digamma(call: Call, x: Tensor) -> Tensor:
    """The logarithmic derivative of the gamma function."""
    v = _exact(call, x)
    low = ops.less(v, 0.5)
    positive = ops.where(low, ops.sub(1.0, v), v)
    total = ops.reciprocal(positive)
    for k in range(1, _SHIFT):
        total = ops.add(total, ops.reciprocal(ops.add(positive, float(k))))
    y = ops.add(positive, float(_SHIFT))
    inverse = ops.reciprocal(y)
    square = ops.square(inverse)
    series = ops.sub(ops.mul(polynomial(square, _DIGAMMA), square), ops.mul(inverse, 0.5))
    far = ops.sub(ops.add(ops.log(y), series), total)
    turn = ops.sub(v, ops.floor(v))
    mirrored = ops.sub(far, ops.div(math.pi, ops.tan(ops.mul(turn, math.pi))))
    result = ops.where(low, mirrored, far)
    pole = ops.logical_and(ops.less(v, 0.0), _whole(v))
    result = ops.where(pole, math.nan, result)
    # At 0 the limit, whose sign is that of the zero.
    return call.cast(ops.where(ops.equal(v, 0.0), ops.neg(ops.reciprocal(v)), result))


@aten("polygamma.default")
def polygamma(call: Call, order: int, x: Tensor) -> Tensor:
    """Derivatives of digamma: the function itself."""
    if order != 0:
        raise UnsupportedError(f"polygamma of order {order}")
    return digamma(call, x)


def _erfcx_positive(x: Tensor) -> Tensor:
    """exp(x * x) erfc(x) of positive x."""
    t = ops.div(2.0, ops.add(x, 2.0))
    return ops.mul(t, ops.exp(polynomial(t, _ERFC)))


@aten("erfc.default")
def erfc(call: Call, x: Tensor) -> Tensor:
    """1 - erf(x), also where that is tiny."""
    return ops.erfc(call.cast(x))


@aten("special_erfcx.default")
def erfcx(call: Call, x: Tensor) -> Tensor:
    """exp(x * x) erfc(x)."""
    v = _exact(call, x)
    positive = _erfcx_positive(ops.abs(v))
    negative = ops.sub(ops.mul(ops.exp(ops.square(v)), 2.0), positive)
    return call.cast(ops.where(ops.less(v, 0.0), negative, positive))


@aten("erfinv.default")
def erfinv(call: Call, x: Tensor) -> Tensor:
    """The inverse of erf."""
    v = _exact(call, x)
    w = ops.neg(ops.log(ops.mul(ops.sub(1.0, v), ops.add(v, 1.0))))
    centre = polynomial(ops.sub(w, 2.5), _ERFINV_CENTRE)
    tail = polynomial(ops.sub(ops.sqrt(w), 3.0), _ERFINV_TAIL)
    result = ops.mul(ops.where(ops.less(w, 5.0), centre, tail), v)
    return call.cast(ops.where(ops.equal(ops.abs(v), 1.0), ops.mul(v, math.inf), result))
