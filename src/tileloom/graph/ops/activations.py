"""Activation functions of neural networks: silu and gelu by intrinsics, others as compositions.

Sources: ONNX operator documentation; Hendrycks and Gimpel 2016 (gelu), Ramachandran et al. 2017
(swish), Misra 2019 (mish), Klambauer et al. 2017 (selu), Clevert et al. 2015 (elu).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ... import compute as te
from ...base.errors import ShapeError, UserError
from ...expr.ops import get_op
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import add, div, equal, greater, less, minimum, mul, sub
from .choose import clip, where
from .common import (
    Operand,
    Types,
    builder,
    check_dtype,
    define,
    double,
    elementwise,
    normalize_axis,
)
from .composite import build, composite, define_composite
from .shape import strided_slice
from .unary import abs as absolute
from .unary import exp, expm1, in_float32, log1p, neg, relu, tanh

_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def check_gelu(approximate: str) -> None:
    """Refuse an unknown form of gelu."""
    if approximate not in ("none", "tanh", "sigmoid"):
        raise UserError(
            f"gelu: unknown approximation {approximate!r}", hint="'none', 'tanh' or 'sigmoid'"
        )


def _infer_float(types: Types, attrs: Attrs) -> list[TensorType]:
    check_dtype(types[0], "float")
    return [types[0]]


def _gated(name: str, intrinsic: Callable[[Attrs], str]) -> None:
    """An op that is `x` times a probability, by an intrinsic that keeps the digits of its tail."""

    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        meaning = get_op(f"tir.{intrinsic(attrs)}").evaluate
        return [cast("Callable[..., Any]", meaning)(double(arrays[0]))]

    def compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> Sequence[te.Tensor]:
        body = in_float32(lambda x: te.call(intrinsic(attrs), x))
        return elementwise(body, name)(inputs, attrs, types)

    define(name, "elementwise", _infer_float, evaluate, compute)


_gated("silu", lambda attrs: "silu")
_gated("gelu", lambda attrs: "gelu" if attrs["approximate"] == "none" else "gelu_tanh")


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), exactly ("none") or with tanh for erf ("tanh", and "sigmoid" for the same)."""
    check_gelu(approximate)
    return apply1("gelu", (x,), approximate=approximate)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return apply1("silu", (x,))


def _logistic(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)))


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = math.inf) -> Tensor:
    v = x if beta == 1.0 else mul(x, beta)
    soft = add(relu(v), log1p(exp(neg(absolute(v)))))
    if beta != 1.0:
        soft = div(soft, beta)
    return soft if threshold == math.inf else where(greater(v, threshold), x, soft)


def _softplus_reference(x: Array, beta: float = 1.0, threshold: float = math.inf) -> Array:
    return np.where(x * beta > threshold, x, np.logaddexp(0.0, x * beta) / beta)


@composite(_softplus_reference)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = math.inf) -> Tensor:
    """log(1 + exp(beta x)) / beta, without overflow; x where beta x is beyond the threshold."""
    return _softplus(x, beta, threshold)


@composite(lambda x: -np.logaddexp(0.0, -x))
def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return neg(_softplus(neg(x)))


@composite(lambda x: x / (1 + np.abs(x)))
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return div(x, add(absolute(x), 1.0))


def _elu(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    below = minimum(x, 0.0)
    below = mul(expm1(below if input_scale == 1.0 else mul(below, input_scale)), alpha)
    result = where(greater(x, 0.0), x, below)
    return result if scale == 1.0 else mul(result, scale)


def _elu_reference(x: Array, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * input_scale)) * scale


@composite(_elu_reference)
def elu(x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """scale * (x where it is positive, else alpha * (exp(input_scale * x) - 1))."""
    return _elu(x, alpha, scale, input_scale)


@composite(
    lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)
)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    return add(relu(x), minimum(mul(expm1(div(minimum(x, 0.0), alpha)), alpha), 0.0))


@composite(lambda x, alpha, gamma: _elu_reference(x, alpha, gamma))
def selu(x: Tensor, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA) -> Tensor:
    """gamma * elu(x, alpha)."""
    return _elu(x, alpha, gamma, 1.0)


@composite(lambda x, alpha: np.where(x < 0, alpha * x, x))
def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x where it is not negative, else alpha * x."""
    return where(less(x, 0.0), mul(x, alpha), x)


@composite(lambda x, slope: np.where(x < 0, slope * x, x))
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where it is not negative, else slope * x."""
    return where(less(x, 0), mul(x, slope), x)


def _hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    return clip(add(mul(x, alpha), beta), 0.0, 1.0)


@composite(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1))
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, between 0 and 1."""
    return _hard_sigmoid(x, alpha, beta)


@composite(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
def hard_swish(x: Tensor) -> Tensor:
    """x * hard_sigmoid(x, 1/6, 1/2)."""
    return mul(x, _hard_sigmoid(x, 1 / 6, 0.5))


@composite(lambda x: x * np.tanh(np.logaddexp(0.0, x)))
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return mul(x, tanh(_softplus(x)))


@composite(lambda x: np.clip(x, 0, 6))
def relu6(x: Tensor) -> Tensor:
    """x between 0 and 6."""
    return clip(x, 0.0, 6.0)


@composite(np.heaviside)
def heaviside(x: Tensor, at_zero: Operand) -> Tensor:
    """0 below zero, 1 above, a value given at zero; NaN of NaN."""
    elsewhere = where(less(x, 0.0), 0.0, where(greater(x, 0.0), 1.0, x))
    return where(equal(x, 0.0), at_zero, elsewhere)


define_composite(
    "swiglu", lambda x, gate: mul(silu(x), gate), lambda x, gate: x * _logistic(x) * gate
)


@builder
def swiglu(x: Tensor, gate: Tensor | None = None, axis: int = -1) -> Tensor:
    """silu(x) * gate; without a gate, of the two halves of x along an axis."""
    if gate is None:
        k = normalize_axis(axis, x.ndim)
        if x.shape[k] % 2:
            raise ShapeError(f"axis {k} of {x.type} has no halves")
        half = x.shape[k] // 2
        x, gate = (strided_slice(x, [n], [n + half], [k]) for n in (0, half))
    return build("swiglu", x, gate)


def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is greater than alpha, else 0."""
    return where(greater(x, alpha), x, 0)


def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved toward 0 by the bias outside [-lambd, lambd], 0 inside."""
    above = where(greater(x, lambd), sub(x, bias), 0)
    return where(less(x, -lambd), add(x, bias), above)
