"""Steps of optimizers, as compositions: parameters, gradients and statistics in, new ones out.

Sources: Kingma and Ba 2015 (Adam), Loshchilov and Hutter 2019 (AdamW), You et al. 2020 (LAMB), and
MindSpore's graph-kernel expanders of these.
"""

from __future__ import annotations

from ..nodes import Tensor
from . import reduce
from .binary import add, div, greater, mul, pow, sub
from .choose import where
from .common import Operand
from .composite import composite
from .unary import sqrt, square

Three = tuple[Tensor, Tensor, Tensor]


def _averages(
    grad: Tensor, m: Tensor, v: Tensor, beta1: float, beta2: float
) -> tuple[Tensor, Tensor]:
    """The running means of the gradient and of its square."""
    mean = add(mul(m, beta1), mul(grad, 1 - beta1))
    return mean, add(mul(v, beta2), mul(square(grad), 1 - beta2))


def _correction(step: Operand, beta: Operand) -> Tensor:
    """1 - beta^step."""
    return sub(1.0, pow(beta, step))


@composite(like=(0, 1, 2))
def adam(
    param: Tensor, m: Tensor, v: Tensor, grad: Tensor, power1: Operand, power2: Operand,
    rate: Operand, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
    nesterov: bool = False,
) -> Three:  # fmt: skip
    """One step of Adam; `power1` and `power2` are beta1 and beta2 to the number of this step.

    Returns:
        The new param, m and v.
    """
    mean, spread = _averages(grad, m, v, beta1, beta2)
    pace = div(mul(rate, sqrt(sub(1.0, power2))), sub(1.0, power1))
    way = add(mul(mean, beta1), mul(grad, 1 - beta1)) if nesterov else mean
    return sub(param, mul(pace, div(way, add(sqrt(spread), eps)))), mean, spread


@composite(like=(0, 1, 2))
def adam_weight_decay(
    param: Tensor, m: Tensor, v: Tensor, grad: Tensor, rate: Operand, beta1: float = 0.9,
    beta2: float = 0.999, eps: float = 1e-8, decay: float = 0.0,
) -> Three:  # fmt: skip
    """One step of Adam with decay added to the update and no correction of the first steps."""
    mean, spread = _averages(grad, m, v, beta1, beta2)
    update = div(mean, add(sqrt(spread), eps))
    if decay:
        update = add(update, mul(param, decay))
    return sub(param, mul(update, rate)), mean, spread


@composite(like=(0, 1, 2))
def adamw(
    param: Tensor, m: Tensor, v: Tensor, grad: Tensor, step: Operand, rate: Operand,
    beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, decay: float = 0.01,
) -> Three:  # fmt: skip
    """One step of AdamW, the number of which is `step` (the first is 1); new param, m, v."""
    mean, spread = _averages(grad, m, v, beta1, beta2)
    shrunk = sub(param, mul(mul(param, decay), rate))
    size = add(sqrt(div(spread, _correction(step, beta2))), eps)
    return sub(shrunk, mul(div(mean, _correction(step, beta1)), div(rate, size))), mean, spread


@composite(like=(1, 2, 3))
def adam_apply_one_with_decay(
    grad: Tensor, v: Tensor, m: Tensor, param: Tensor, rate: Operand, beta1: Operand,
    rest1: Operand, beta2: Operand, rest2: Operand, decay: Operand, eps: Operand,
) -> Three:  # fmt: skip
    """`adam_weight_decay` by MindSpore's operands (rest is 1 - beta); new v, m and param."""
    spread = add(mul(v, beta2), mul(square(grad), rest2))
    mean = add(mul(m, beta1), mul(grad, rest1))
    update = add(div(mean, add(sqrt(spread), eps)), mul(param, decay))
    return spread, mean, sub(param, mul(update, rate))


@composite(like=(3, 1, 2))
def lamb_apply_optimizer(
    grad: Tensor, v: Tensor, m: Tensor, param: Tensor, beta1: Operand, rest1: Operand,
    beta2: Operand, rest2: Operand, eps: Operand, steps: Operand, use_decay: Operand,
    decay: Operand,
) -> Three:  # fmt: skip
    """The first half of LAMB by MindSpore's operands (rest is 1 - beta); the update, new v, m."""
    spread = add(mul(v, beta2), mul(square(grad), rest2))
    mean = add(mul(m, beta1), mul(grad, rest1))
    size = add(sqrt(div(spread, _correction(steps, beta2))), eps)
    update = div(div(mean, _correction(steps, beta1)), size)
    return add(update, mul(mul(use_decay, decay), param)), spread, mean


@composite(like=(4,))
def lamb_apply_weight(
    w_norm: Tensor, g_norm: Tensor, rate: Operand, update: Tensor, param: Tensor
) -> Tensor:
    """The second half of LAMB: param - rate * (w_norm / g_norm, 1 if one is 0) * update."""
    quotient = where(greater(g_norm, 0.0), div(w_norm, g_norm), 1.0)
    ratio = where(greater(w_norm, 0.0), quotient, 1.0)
    return sub(param, mul(mul(ratio, rate), update))


@composite(like=(0, 1, 2))
def lamb(
    param: Tensor, m: Tensor, v: Tensor, grad: Tensor, step: Operand, rate: Operand,
    beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6, decay: float = 0.01,
) -> Three:  # fmt: skip
    """One step of LAMB, the number of which is `step` (the first is 1); new param, m, v."""
    mean, spread = _averages(grad, m, v, beta1, beta2)
    size = add(sqrt(div(spread, _correction(step, beta2))), eps)
    update = add(div(div(mean, _correction(step, beta1)), size), mul(param, decay))
    w_norm, g_norm = (sqrt(reduce.sum(square(x))) for x in (param, update))
    return lamb_apply_weight(w_norm, g_norm, rate, update, param), mean, spread


@composite(like=(0, 1))
def momentum(
    param: Tensor, speed: Tensor, grad: Tensor, rate: Operand, momentum: float = 0.9,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of gradient descent with momentum; new param and speed."""
    fresh = add(mul(speed, momentum), grad)
    way = add(grad, mul(fresh, momentum)) if nesterov else fresh
    return sub(param, mul(way, rate)), fresh


@composite(like=(0, 1))
def adagrad(
    param: Tensor, total: Tensor, grad: Tensor, rate: Operand, eps: float = 1e-10
) -> tuple[Tensor, Tensor]:
    """One step of Adagrad; new param and sum of squares."""
    fresh = add(total, square(grad))
    return sub(param, div(mul(rate, grad), add(sqrt(fresh), eps))), fresh
