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
from .composite import build, composite, define_composite
from .constants import full_like
from .unary import abs as absolute
from .unary import cos, exp, log1p, neg, relu, sigmoid, sign, sin, square, tanh

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_INVERSE_SQRT_TAU = 1 / math.sqrt(2 * math.pi)
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)

# ---------------------------------------------------------------------------- elementary functions


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


def _gradient(
    name: str, doc: str, rule: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Tensor, Tensor], Tensor]:
    define_composite(name, rule)

    def gradient(dy: Tensor, known: Tensor) -> Tensor:
        return build(name, dy, known)

    gradient.__name__ = gradient.__qualname__ = name
    gradient.__doc__ = doc
    return gradient


exp_grad = _gradient("exp_grad", "dy * y, of `exp`.", mul)
tanh_grad = _gradient(
    "tanh_grad", "dy * (1 - y²), of `tanh`.", lambda dy, y: mul(dy, sub(1.0, square(y)))
)
sigmoid_grad = _gradient(
    "sigmoid_grad", "dy * y * (1 - y), of `sigmoid`.", lambda dy, y: mul(mul(dy, y), sub(1.0, y))
)
relu_grad = _gradient(
    "relu_grad", "dy where y is positive, of `relu`.", lambda dy, y: where(greater(y, 0.0), dy, 0.0)
)
sqrt_grad = _gradient("sqrt_grad", "dy / (2 y), of `sqrt`.", lambda dy, y: div(mul(dy, 0.5), y))
rsqrt_grad = _gradient(
    "rsqrt_grad", "-dy * y³ / 2, of `rsqrt`.", lambda dy, y: mul(mul(dy, -0.5), mul(square(y), y))
)
reciprocal_grad = _gradient(
    "reciprocal_grad", "-dy * y², of `reciprocal`.", lambda dy, y: neg(mul(dy, square(y)))
)
abs_grad = _gradient("abs_grad", "dy * sign(x), of `abs`.", lambda dy, x: mul(dy, sign(x)))
square_grad = _gradient("square_grad", "2 dy * x, of `square`.", lambda dy, x: mul(mul(dy, 2.0), x))
log_grad = _gradient("log_grad", "dy / x, of `log`.", div)
sin_grad = _gradient("sin_grad", "dy * cos(x), of `sin`.", lambda dy, x: mul(dy, cos(x)))
cos_grad = _gradient("cos_grad", "-dy * sin(x), of `cos`.", lambda dy, x: neg(mul(dy, sin(x))))
erf_grad = _gradient(
    "erf_grad",
    "dy * 2 / sqrt(pi) * exp(-x²), of `erf`.",
    lambda dy, x: mul(mul(dy, _TWO_OVER_SQRT_PI), exp(neg(square(x)))),
)
floor_grad = _gradient(
    "floor_grad", "0, of `floor` and other steps.", lambda dy, x: full_like(dy, 0.0)
)
relu6_grad = _gradient(
    "relu6_grad",
    "dy where x is between 0 and 6, of `relu6`.",
    lambda dy, x: where(logical_and(greater(x, 0.0), less(x, 6.0)), dy, 0.0),
)
silu_grad = _gradient("silu_grad", "The gradient of `silu`.", _silu)
mish_grad = _gradient("mish_grad", "The gradient of `mish`.", _mish)
log_sigmoid_grad = _gradient(
    "log_sigmoid_grad",
    "dy * sigmoid(-x), of `log_sigmoid`.",
    lambda dy, x: mul(dy, sigmoid(neg(x))),
)
softsign_grad = _gradient(
    "softsign_grad",
    "dy / (1 + |x|)², of `softsign`.",
    lambda dy, x: div(dy, square(add(absolute(x), 1.0))),
)
hard_swish_grad = _gradient("hard_swish_grad", "The gradient of `hard_swish`.", _hard_swish)

# ---------------------------------------------------------------------------- with parameters


@composite()
def gelu_grad(dy: Tensor, x: Tensor, approximate: str = "none") -> Tensor:
    """The gradient of `gelu` in the same form."""
    # The share of x that passes, by a quotient: its tail keeps its digits.
    share = where(less(absolute(x), 1e-30), 0.5, div(gelu(x, approximate), x))
    if approximate == "none":
        density = mul(exp(mul(square(x), -0.5)), _INVERSE_SQRT_TAU)
        return mul(dy, add(share, mul(x, density)))
    # share + 2 x share (1 - share) u', where share = (1 + tanh u) / 2
    slope = mul(add(mul(square(x), 3 * 0.044715), 1.0), 2 * _SQRT_2_OVER_PI)
    return mul(dy, add(share, mul(mul(mul(x, share), sub(1.0, share)), slope)))


@composite()
def softplus_grad(dy: Tensor, x: Tensor, beta: float = 1.0, threshold: float = math.inf) -> Tensor:
    """dy * sigmoid(beta x), of `softplus`; dy beyond the threshold."""
    v = x if beta == 1.0 else mul(x, beta)
    slope = mul(dy, sigmoid(v))
    return slope if threshold == math.inf else where(greater(v, threshold), dy, slope)


@composite()
def hard_sigmoid_grad(dy: Tensor, x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """alpha * dy where the line is between 0 and 1, of `hard_sigmoid`."""
    line = add(mul(x, alpha), beta)
    inside = logical_and(greater(line, 0.0), less(line, 1.0))
    return where(inside, mul(dy, alpha), 0.0)


@composite()
def elu_grad(
    dy: Tensor, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Tensor:
    """The gradient of `elu`; of `celu` with alpha 1 / alpha for the input; of `selu`."""
    below = mul(exp(mul(x, input_scale)), alpha * scale * input_scale)
    return mul(dy, where(greater(x, 0.0), full_like(x, scale), below))


@composite()
def leaky_relu_grad(dy: Tensor, x: Tensor, alpha: float = 0.01) -> Tensor:
    """dy where x is positive, else alpha * dy, of `leaky_relu`."""
    return where(greater(x, 0.0), dy, mul(dy, alpha))


@composite()
def swiglu_grad(dy: Tensor, x: Tensor, gate: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `swiglu` by its argument and its gate."""
    return _silu(mul(dy, gate), x), mul(dy, mul(x, sigmoid(x)))
