"""Gradients of functions of one tensor, as compositions.

Each takes the gradient by the result first, then what the function was given or gave: `x` is its
argument, `y` its result. The rules are those of MindSpore's graph-kernel expanders and of the
derivatives themselves; at a kink they are what PyTorch says.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..nodes import Tensor
from .activations import gelu
from .binary import add, div, greater, less, less_equal, logical_and, mul, sub
from .choose import where
from .composite import build, build_all, composite
from .constants import full_like
from .unary import abs as absolute
from .unary import cos, exp, log1p, neg, relu, sigmoid, sign, sin, square, tanh

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_INVERSE_SQRT_TAU = 1 / math.sqrt(2 * math.pi)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)

# ---------------------------------------------------------------------------- elementary functions

_OF_RESULT: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "exp_grad": ("dy * y, of `exp`.", mul),
    "tanh_grad": ("dy * (1 - y²), of `tanh`.", lambda dy, y: mul(dy, sub(1.0, square(y)))),
    "sigmoid_grad": (
        "dy * y * (1 - y), of `sigmoid`.", lambda dy, y: mul(mul(dy, y), sub(1.0, y))),
    "relu_grad": (
        "dy where y is positive, of `relu`.", lambda dy, y: where(greater(y, 0.0), dy, 0.0)),
    "sqrt_grad": ("dy / (2 y), of `sqrt`.", lambda dy, y: div(mul(dy, 0.5), y)),
    "rsqrt_grad": (
        "-dy * y³ / 2, of `rsqrt`.", lambda dy, y: mul(mul(dy, -0.5), mul(square(y), y))),
    "reciprocal_grad": ("-dy * y², of `reciprocal`.", lambda dy, y: neg(mul(dy, square(y)))),
}  # fmt: skip

_OF_ARGUMENT: dict[str, tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "abs_grad": ("dy * sign(x), of `abs`.", lambda dy, x: mul(dy, sign(x))),
    "square_grad": ("2 dy * x, of `square`.", lambda dy, x: mul(mul(dy, 2.0), x)),
    "log_grad": ("dy / x, of `log`.", div),
    "sin_grad": ("dy * cos(x), of `sin`.", lambda dy, x: mul(dy, cos(x))),
    "cos_grad": ("-dy * sin(x), of `cos`.", lambda dy, x: neg(mul(dy, sin(x)))),
    "erf_grad": (
        "dy * 2 / sqrt(pi) * exp(-x²), of `erf`.",
        lambda dy, x: mul(mul(dy, _TWO_OVER_SQRT_PI), exp(neg(square(x))))),
    "floor_grad": ("0, of `floor` and other steps.", lambda dy, x: full_like(dy, 0.0)),
    "relu6_grad": (
        "dy where x is between 0 and 6, of `relu6`.",
        lambda dy, x: where(logical_and(greater(x, 0.0), less(x, 6.0)), dy, 0.0)),
    "silu_grad": ("The gradient of `silu`.", lambda dy, x: _silu(dy, x)),
    "mish_grad": ("The gradient of `mish`.", lambda dy, x: _mish(dy, x)),
    "log_sigmoid_grad": (
        "dy * sigmoid(-x), of `log_sigmoid`.", lambda dy, x: mul(dy, sigmoid(neg(x)))),
    "softsign_grad": (
        "dy / (1 + |x|)², of `softsign`.",
        lambda dy, x: div(dy, square(add(absolute(x), 1.0)))),
    "hard_swish_grad": ("The gradient of `hard_swish`.", lambda dy, x: _hard_swish(dy, x)),
}  # fmt: skip


def _silu(dy: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    return mul(mul(dy, s), add(mul(x, sub(1.0, s)), 1.0))


def _mish(dy: Tensor, x: Tensor) -> Tensor:
    soft = add(relu(x), log1p(exp(neg(absolute(x)))))
    t = tanh(soft)
    return mul(dy, add(t, mul(mul(x, sigmoid(x)), sub(1.0, square(t)))))


def _hard_swish(dy: Tensor, x: Tensor) -> Tensor:
    middle = mul(dy, add(mul(x, 1 / 3), 0.5))
    return where(less_equal(x, -3.0), 0.0, where(less(x, 3.0), middle, dy))


def _builder(
    name: str, doc: str, rule: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    composite(name, rule)

    def gradient(dy: Tensor, known: Tensor) -> Tensor:
        return build(name, dy, known)

    gradient.__name__ = gradient.__qualname__ = name
    gradient.__doc__ = doc
    return gradient


_BUILT = {name: _builder(name, *about) for name, about in {**_OF_RESULT, **_OF_ARGUMENT}.items()}
exp_grad = _BUILT["exp_grad"]
tanh_grad = _BUILT["tanh_grad"]
sigmoid_grad = _BUILT["sigmoid_grad"]
relu_grad = _BUILT["relu_grad"]
sqrt_grad = _BUILT["sqrt_grad"]
rsqrt_grad = _BUILT["rsqrt_grad"]
reciprocal_grad = _BUILT["reciprocal_grad"]
abs_grad = _BUILT["abs_grad"]
square_grad = _BUILT["square_grad"]
log_grad = _BUILT["log_grad"]
sin_grad = _BUILT["sin_grad"]
cos_grad = _BUILT["cos_grad"]
erf_grad = _BUILT["erf_grad"]
floor_grad = _BUILT["floor_grad"]
relu6_grad = _BUILT["relu6_grad"]
silu_grad = _BUILT["silu_grad"]
mish_grad = _BUILT["mish_grad"]
log_sigmoid_grad = _BUILT["log_sigmoid_grad"]
softsign_grad = _BUILT["softsign_grad"]
hard_swish_grad = _BUILT["hard_swish_grad"]

# ---------------------------------------------------------------------------- with parameters


def _gelu(dy: Tensor, x: Tensor, approximate: str) -> Tensor:
    # The share of x that passes, by a quotient: its tail keeps its digits.
    share = where(less(absolute(x), 1e-30), 0.5, div(gelu(x, approximate), x))
    if approximate == "none":
        density = mul(exp(mul(square(x), -0.5)), _INVERSE_SQRT_TAU)
        return mul(dy, add(share, mul(x, density)))
    # share + 2 x share (1 - share) u', where share = (1 + tanh u) / 2
    slope = mul(add(mul(square(x), 3 * 0.044715), 1.0), 2 * _SQRT_2_OVER_PI)
    return mul(dy, add(share, mul(mul(mul(x, share), sub(1.0, share)), slope)))


def _softplus(dy: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    v = x if beta == 1.0 else mul(x, beta)
    slope = mul(dy, sigmoid(v))
    return slope if threshold == math.inf else where(greater(v, threshold), dy, slope)


def _hard_sigmoid(dy: Tensor, x: Tensor, alpha: float, beta: float) -> Tensor:
    line = add(mul(x, alpha), beta)
    inside = logical_and(greater(line, 0.0), less(line, 1.0))
    return where(inside, mul(dy, alpha), 0.0)


def _elu(dy: Tensor, x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    below = mul(exp(mul(x, input_scale)), alpha * scale * input_scale)
    return mul(dy, where(greater(x, 0.0), full_like(x, scale), below))


composite("gelu_grad", _gelu)
composite("softplus_grad", _softplus)
composite("hard_sigmoid_grad", _hard_sigmoid)
composite("elu_grad", _elu)
composite("leaky_relu_grad", lambda dy, x, alpha: where(greater(x, 0.0), dy, mul(dy, alpha)))
composite("swiglu_grad", lambda dy, x, gate: (
    _silu(mul(dy, gate), x), mul(dy, mul(x, sigmoid(x)))))  # fmt: skip


def gelu_grad(dy: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """The gradient of `gelu` in the same form."""
    return build("gelu_grad", dy, x, approximate=approximate)


def softplus_grad(dy: Tensor, x: Tensor, beta: float = 1.0, threshold: float = math.inf) -> Tensor:
    """dy * sigmoid(beta x), of `softplus`; dy beyond the threshold."""
    return build("softplus_grad", dy, x, beta=float(beta), threshold=float(threshold))


def hard_sigmoid_grad(dy: Tensor, x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * dy where the line is between 0 and 1, of `hard_sigmoid`."""
    return build("hard_sigmoid_grad", dy, x, alpha=float(alpha), beta=float(beta))


def elu_grad(
    dy: Tensor, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Tensor:
    """The gradient of `elu`; of `celu` with alpha 1 / alpha for the input; of `selu`."""
    return build("elu_grad", dy, x, alpha=float(alpha), scale=float(scale),
                 input_scale=float(input_scale))  # fmt: skip


def leaky_relu_grad(dy: Tensor, x: Tensor, alpha: float = 0.01) -> Tensor:
    """dy where x is positive, else alpha * dy, of `leaky_relu`."""
    return build("leaky_relu_grad", dy, x, alpha=float(alpha))


def swiglu_grad(dy: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `swiglu` by its argument and its gate."""
    by_x, by_gate = build_all("swiglu_grad", dy, x, gate)
    return by_x, by_gate
