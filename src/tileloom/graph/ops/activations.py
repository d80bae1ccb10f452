"""Activation functions of neural networks, as compositions.

Sources: ONNX operator documentation; Hendrycks and Gimpel 2016 (gelu), Ramachandran et al. 2017
(swish), Misra 2019 (mish), Klambauer et al. 2017 (selu), Clevert et al. 2015 (elu).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import UserError
from ..nodes import Tensor
from ..op import Array
from .binary import add, div, greater, less, minimum, mul, sub
from .choose import clip, where
from .composite import build, composite
from .unary import abs as absolute
from .unary import erf, exp, expm1, log1p, neg, relu, sigmoid, tanh

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: Tensor, approximate: str) -> Tensor:
    if approximate == "none":
        return mul(mul(x, 0.5), add(erf(mul(x, _SQRT_HALF)), 1.0))
    if approximate != "tanh":
        raise UserError(f"gelu: unknown approximation {approximate!r}", hint="'none' or 'tanh'")
    inner = mul(mul(x, add(mul(mul(x, x), 0.044715), 1.0)), _SQRT_2_OVER_PI)
    return mul(mul(x, 0.5), add(tanh(inner), 1.0))


def _gelu_reference(x: Array, approximate: str) -> Any:
    if approximate == "none":
        return 0.5 * x * (1 + np.asarray(_erf(x * _SQRT_HALF), np.float64))
    return 0.5 * x * (1 + np.tanh(_SQRT_2_OVER_PI * (x + 0.044715 * x**3)))


def _logistic(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)))


def _softplus(x: Tensor) -> Tensor:
    return add(relu(x), log1p(exp(neg(absolute(x)))))


def _elu(x: Tensor, alpha: float) -> Tensor:
    return where(greater(x, 0.0), x, mul(expm1(minimum(x, 0.0)), alpha))


def _elu_reference(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x: Tensor, alpha: float) -> Tensor:
    return add(relu(x), minimum(mul(expm1(div(minimum(x, 0.0), alpha)), alpha), 0.0))


def _hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    return clip(add(mul(x, alpha), beta), 0.0, 1.0)


composite("gelu", _gelu, _gelu_reference)
composite("silu", lambda x: mul(x, sigmoid(x)), lambda x: x * _logistic(x))
composite("softplus", _softplus, lambda x: np.logaddexp(0.0, x))
composite("softsign", lambda x: div(x, add(absolute(x), 1.0)), lambda x: x / (1 + np.abs(x)))
composite("elu", _elu, _elu_reference)
composite("celu", _celu, lambda x, alpha: (
    np.maximum(x, 0) + np.minimum(alpha * np.expm1(np.minimum(x, 0) / alpha), 0)))  # fmt: skip
composite(
    "selu",
    lambda x, alpha, gamma: mul(_elu(x, alpha), gamma),
    lambda x, alpha, gamma: gamma * _elu_reference(x, alpha),
)
composite(
    "leaky_relu",
    lambda x, alpha: where(less(x, 0.0), mul(x, alpha), x),
    lambda x, alpha: np.where(x < 0, alpha * x, x),
)
composite(
    "prelu",
    lambda x, slope: where(less(x, 0), mul(x, slope), x),
    lambda x, slope: np.where(x < 0, slope * x, x),
)
composite(
    "hard_sigmoid",
    _hard_sigmoid,
    lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
)
composite(
    "hard_swish",
    lambda x: mul(x, _hard_sigmoid(x, 1 / 6, 0.5)),
    lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
)
composite(
    "mish",
    lambda x: mul(x, tanh(_softplus(x))),
    lambda x: x * np.tanh(np.logaddexp(0.0, x)),
)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), exactly ("none") or in the tanh approximation ("tanh")."""
    return build("gelu", x, approximate=approximate)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return build("silu", x)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return build("softplus", x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return build("softsign", x)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is positive, else alpha * (exp(x) - 1)."""
    return build("elu", x, alpha=float(alpha))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    return build("celu", x, alpha=float(alpha))


def selu(x: Tensor, alpha: float = _SELU_ALPHA, gamma: float = _SELU_GAMMA) -> Tensor:
    """gamma * elu(x, alpha)."""
    return build("selu", x, alpha=float(alpha), gamma=float(gamma))


def leaky_relu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """x where it is not negative, else alpha * x."""
    return build("leaky_relu", x, alpha=float(alpha))


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where it is not negative, else slope * x."""
    return build("prelu", x, slope)


def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * x + beta, between 0 and 1."""
    return build("hard_sigmoid", x, alpha=float(alpha), beta=float(beta))


def hard_swish(x: Tensor) -> Tensor:
    """x * hard_sigmoid(x, 1/6, 1/2)."""
    return build("hard_swish", x)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return build("mish", x)


def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where it is greater than alpha, else 0."""
    return where(greater(x, alpha), x, 0)


def shrink(x: Tensor, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x moved toward 0 by the bias outside [-lambd, lambd], 0 inside."""
    above = where(greater(x, lambd), sub(x, bias), 0)
    return where(less(x, -lambd), add(x, bias), above)
