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


@handler("Elu")
def elu(call: Call) -> Tensor:
    return ops.elu(call.tensor(0), call.number("alpha", 1.0))


@handler("Celu")
def celu(call: Call) -> Tensor:
    return ops.celu(call.tensor(0), call.number("alpha", 1.0))


@handler("Selu")
def selu(call: Call) -> Tensor:
    alpha = call.number("alpha", 1.67326319217681884765625)
    return ops.selu(call.tensor(0), alpha, call.number("gamma", 1.05070102214813232421875))


@handler("LeakyRelu")
def leaky_relu(call: Call) -> Tensor:
    return ops.leaky_relu(call.tensor(0), call.number("alpha", 0.01))


@handler("PRelu", since=7)
def prelu(call: Call) -> Tensor:
    return ops.prelu(call.tensor(0), call.tensor(1))


@handler("ThresholdedRelu")
def thresholded_relu(call: Call) -> Tensor:
    return ops.thresholded_relu(call.tensor(0), call.number("alpha", 1.0))


@handler("HardSigmoid")
def hard_sigmoid(call: Call) -> Tensor:
    return ops.hard_sigmoid(call.tensor(0), call.number("alpha", 0.2), call.number("beta", 0.5))


@handler("Shrink")
def shrink(call: Call) -> Tensor:
    return ops.shrink(call.tensor(0), call.number("bias", 0.0), call.number("lambd", 0.5))


@handler("Gelu")
def gelu(call: Call) -> Tensor:
    return ops.gelu(call.tensor(0), call.choice("approximate", "none", ("none", "tanh")))


@handler("Swish")
def swish(call: Call) -> Tensor:
    x, alpha = call.tensor(0), call.number("alpha", 1.0)
    return ops.silu(x) if alpha == 1.0 else ops.mul(x, ops.sigmoid(ops.mul(x, alpha)))
