"""Gradients of losses by their first operand, as compositions.

`dy` is the gradient by the loss as it was reduced.
"""

from __future__ import annotations

from ..nodes import Tensor
from .binary import add, div, maximum, mul, sub
from .choose import clip
from .composite import composite
from .losses import spread_gradient
from .unary import exp, neg, sign

#: Denominators in the gradient of `bce_loss` are not below this, as in PyTorch.
_LEAST = 1e-12


@composite(like=(1,))
def mse_loss_grad(dy: Tensor, x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """2 (x - target) dy."""
    return mul(spread_gradient(dy, x.shape, reduction), mul(sub(x, target), 2.0))


@composite(like=(1,))
def l1_loss_grad(dy: Tensor, x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """sign(x - target) dy."""
    return mul(spread_gradient(dy, x.shape, reduction), sign(sub(x, target)))


@composite(like=(1,))
def huber_loss_grad(
    dy: Tensor, x: Tensor, target: Tensor, delta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """(x - target) dy, between -delta and delta."""
    return mul(spread_gradient(dy, x.shape, reduction), clip(sub(x, target), -delta, delta))


@composite(like=(1,))
def smooth_l1_loss_grad(
    dy: Tensor, x: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """(x - target) dy / beta, between -1 and 1."""
    way = sub(x, target)
    slope = clip(div(way, beta), -1.0, 1.0) if beta else sign(way)
    return mul(spread_gradient(dy, x.shape, reduction), slope)


@composite(like=(1,))
def bce_loss_grad(
    dy: Tensor, p: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """(p - target) / (p (1 - p)) dy."""
    slope = div(sub(p, target), maximum(mul(p, sub(1.0, p)), _LEAST))
    slope = slope if weight is None else mul(slope, weight)
    return mul(spread_gradient(dy, slope.shape, reduction), slope)


@composite(like=(1,))
def log_loss_grad(dy: Tensor, p: Tensor, label: Tensor, eps: float = 1e-4) -> Tensor:
    """The gradient of `log_loss` by p."""
    return mul(dy, sub(div(sub(1.0, label), sub(1.0 + eps, p)), div(label, add(p, eps))))


@composite(like=(1,))
def kl_div_grad(
    dy: Tensor, x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """-target dy."""
    weight = exp(target) if log_target else target
    return neg(mul(spread_gradient(dy, x.shape, reduction), weight))
