"""Steps of optimizers: plain arithmetic on weights, gradients and their running statistics."""

from __future__ import annotations

from collections.abc import Callable

from ....base.errors import UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler

DOMAIN = "ai.onnx.preview.training"


def _for_each(
    call: Call, parts: int, step: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
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

    def step(rate: Tensor, count: Tensor, x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        turns = ops.add(ops.mul(ops.cast(count, x.dtype), decay), 1.0)
        gradient = _regularized(call, x, g)
        pace = ops.div(ops.cast(rate, x.dtype), turns)
        return ops.adagrad(x, h, gradient, pace, eps)

    return _for_each(call, 3, step)


@handler("Momentum", domain=DOMAIN)
def momentum(call: Call) -> tuple[Tensor, ...]:
    alpha, beta = call.number("alpha"), call.number("beta")
    nesterov = call.choice("mode", "standard", ("standard", "nesterov")) == "nesterov"

    def step(rate: Tensor, count: Tensor, x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        gradient = _regularized(call, x, g)
        first = ops.equal(count, 0)
        share = ops.where(first, ops.constant(1.0, x.dtype), beta)
        pace = ops.cast(rate, x.dtype)
        if nesterov:  # looks ahead from the whole gradient, not from its share
            speed = ops.add(ops.mul(v, alpha), ops.mul(gradient, share))
            way = ops.add(gradient, ops.mul(speed, alpha))
            return ops.sub(x, ops.mul(way, pace)), speed
        return ops.momentum(x, v, ops.mul(gradient, share), pace, alpha)

    return _for_each(call, 3, step)


@handler("Adam", domain=DOMAIN)
def adam(call: Call) -> tuple[Tensor, ...]:
    alpha, beta = call.number("alpha", 0.9), call.number("beta", 0.999)
    eps, after = call.number("epsilon", 0.0), call.number("norm_coefficient_post", 0.0)

    def step(
        rate: Tensor, count: Tensor, x: Tensor, g: Tensor, v: Tensor, h: Tensor
    ) -> tuple[Tensor, ...]:
        gradient = _regularized(call, x, g)
        first, second = _power(alpha, count, x), _power(beta, count, x)
        pace = ops.cast(rate, x.dtype)
        fresh, mean, spread = ops.adam(x, v, h, gradient, first, second, pace, alpha, beta, eps)
        return ops.mul(fresh, 1 - after), mean, spread

    return _for_each(call, 4, step)


def _power(base: float, count: Tensor, x: Tensor) -> Tensor:
    """base^count, and 0 before the first step, which is not corrected."""
    power = ops.pow(ops.constant(base, x.dtype), ops.cast(count, x.dtype))
    return ops.where(ops.greater(count, 0), power, 0.0)
