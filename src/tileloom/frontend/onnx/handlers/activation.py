"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler

_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "HardSwish": ops.hard_swish, "Mish": ops.mish, "Relu": ops.relu, "Softplus": ops.softplus,
    "Softsign": ops.softsign,
}  # fmt: skip


@handler(*_PLAIN)
def plain(call: Call) -> Tensor:
    return _PLAIN[call.op](call.tensor(0))


#: The numbers that a function takes besides a tensor, and their defaults.
_WITH_NUMBERS: dict[str, tuple[Callable[..., Tensor], dict[str, float]]] = {
    "Celu": (ops.celu, {"alpha": 1.0}),
    "Elu": (ops.elu, {"alpha": 1.0}),
    "HardSigmoid": (ops.hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": (ops.leaky_relu, {"alpha": 0.01}),
    "Selu": (ops.selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Shrink": (ops.shrink, {"bias": 0.0, "lambd": 0.5}),
    "ThresholdedRelu": (ops.thresholded_relu, {"alpha": 1.0}),
}


@handler(*_WITH_NUMBERS)
def with_numbers(call: Call) -> Tensor:
    function, defaults = _WITH_NUMBERS[call.op]
    return function(call.tensor(0), *(call.number(*about) for about in defaults.items()))


@handler("PRelu", since=7)
def prelu(call: Call) -> Tensor:
    return ops.prelu(call.tensor(0), call.tensor(1))


@handler("Gelu")
def gelu(call: Call) -> Tensor:
    return ops.gelu(call.tensor(0), call.choice("approximate", "none", ("none", "tanh")))


@handler("Swish")
def swish(call: Call) -> Tensor:
    x, alpha = call.tensor(0), call.number("alpha", 1.0)
    return ops.silu(x) if alpha == 1.0 else ops.mul(x, ops.sigmoid(ops.mul(x, alpha)))
