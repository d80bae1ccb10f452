"""Steps of optimizers: plain arithmetic on weights, gradients and their running statistics."""

from __future__ import annotations

from collections.abc import Callable

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler

DOMAIN = "ai.onnx.preview.training"


def _for_each(call: Call, parts: int, step: Callable[..., list[Tensor]]) -> tuple[Tensor, ...]:
    """Inputs are (rate, count, all weights, all gradients, all of each statistic)."""
    rate, count = ops.reshape(call.tensor(0), ()), ops.reshape(call.tensor(1), ())
    rest = call.tensors()[2:]
    if not rest or len(rest) % parts:
        raise UserError(f"{len(rest)} tensors cannot be cut into {parts} groups")
    n = len(rest) // parts
    results = [step(rate, count, *rest[k::n]) for k in range(n)]
    return tuple(result[k] for k in range(parts - 1) for result in results)


def _regularized(call: Call, x: Tensor, gradient: Tensor) -> Tensor:
    return ops.add(ops.mul(x, call.number("norm_coefficient", 0.0)), gradient)


@handler("Adagrad", domain=DOMAIN)
def adagrad(call: Call) -> tuple[Tensor, ...]:
    decay, eps = call.number("decay_factor", 0.0), call.number("epsilon", 0.0)

    def step(rate: Tensor, count: Tensor, x: Tensor, g: Tensor, h: Tensor) -> list[Tensor]:
        turns = ops.add(ops.mul(ops.cast(count, x.dtype), decay), 1.0)
        gradient = _regularized(call, x, g)
        total = ops.add(h, ops.square(gradient))
        scaled = ops.mul(ops.div(ops.cast(rate, x.dtype), turns), gradient)
        return [ops.sub(x, ops.div(scaled, ops.add(ops.sqrt(total), eps))), total]

    return _for_each(call, 3, step)


@handler("Momentum", domain=DOMAIN)
def momentum(call: Call) -> tuple[Tensor, ...]:
    alpha, beta = call.number("alpha"), call.number("beta")
    nesterov = call.choice("mode", "standard", ("standard", "nesterov")) == "nesterov"

    def step(rate: Tensor, count: Tensor, x: Tensor, g: Tensor, v: Tensor) -> list[Tensor]:
        gradient = _regularized(call, x, g)
        first = ops.equal(count, 0)
        share = ops.where(first, ops.constant(1.0, x.dtype), beta)
        speed = ops.add(ops.mul(v, alpha), ops.mul(gradient, share))
        way = ops.add(gradient, ops.mul(speed, alpha)) if nesterov else speed
        return [ops.sub(x, ops.mul(way, ops.cast(rate, x.dtype))), speed]

    return _for_each(call, 3, step)


@handler("Adam", domain=DOMAIN)
def adam(call: Call) -> tuple[Tensor, ...]:
    alpha, beta = call.number("alpha", 0.9), call.number("beta", 0.999)
    eps, after = call.number("epsilon", 0.0), call.number("norm_coefficient_post", 0.0)

    def step(
        rate: Tensor, count: Tensor, x: Tensor, g: Tensor, v: Tensor, h: Tensor
    ) -> list[Tensor]:
        gradient = _regularized(call, x, g)
        mean = ops.add(ops.mul(v, alpha), ops.mul(gradient, 1 - alpha))
        spread = ops.add(ops.mul(h, beta), ops.mul(ops.square(gradient), 1 - beta))
        pace = ops.mul(ops.cast(rate, x.dtype), _bias_correction(count, x, alpha, beta))
        fresh = ops.sub(x, ops.mul(pace, ops.div(mean, ops.add(ops.sqrt(spread), eps))))
        return [ops.mul(fresh, 1 - after), mean, spread]

    return _for_each(call, 4, step)


def _bias_correction(count: Tensor, x: Tensor, alpha: float, beta: float) -> Tensor:
    """sqrt(1 - beta^t) / (1 - alpha^t), and 1 before the first step."""
    turns = ops.cast(count, x.dtype)
    first = ops.pow(ops.constant(alpha, x.dtype), turns)
    second = ops.pow(ops.constant(beta, x.dtype), turns)
    factor = ops.div(ops.sqrt(ops.sub(1.0, second)), ops.sub(1.0, first))
    return ops.where(ops.greater(count, 0), factor, 1.0)
