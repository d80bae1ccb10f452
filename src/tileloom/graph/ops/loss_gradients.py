"""Gradients of losses by their first operand, as compositions.

`dy` is the gradient by the loss as it was reduced.
"""

from __future__ import annotations

from ..nodes import Tensor
from .binary import add, div, maximum, mul, sub
from .choose import clip
from .composite import build, composite
from .losses import spread_gradient
from .unary import exp, neg, sign

#: Denominators in the gradient of `bce_loss` are not below this, as in PyTorch.
_LEAST = 1e-12


def _mse(dy: Tensor, x: Tensor, target: Tensor, reduction: str) -> Tensor:
    return mul(spread_gradient(dy, x.shape, reduction), mul(sub(x, target), 2.0))


def _l1(dy: Tensor, x: Tensor, target: Tensor, reduction: str) -> Tensor:
    return mul(spread_gradient(dy, x.shape, reduction), sign(sub(x, target)))


def _huber(dy: Tensor, x: Tensor, target: Tensor, delta: float, reduction: str) -> Tensor:
    return mul(spread_gradient(dy, x.shape, reduction), clip(sub(x, target), -delta, delta))


def _smooth_l1(dy: Tensor, x: Tensor, target: Tensor, beta: float, reduction: str) -> Tensor:
    if beta == 0:
        return _l1(dy, x, target, reduction)
    slope = clip(div(sub(x, target), beta), -1.0, 1.0)
    return mul(spread_gradient(dy, x.shape, reduction), slope)


def _bce(
    dy: Tensor, p: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str
) -> Tensor:
    slope = div(sub(p, target), maximum(mul(p, sub(1.0, p)), _LEAST))
    slope = slope if weight is None else mul(slope, weight)
    return mul(spread_gradient(dy, slope.shape, reduction), slope)


def _log_loss(dy: Tensor, p: Tensor, label: Tensor, eps: float) -> Tensor:
    return mul(dy, sub(div(sub(1.0, label), sub(1.0 + eps, p)), div(label, add(p, eps))))


def _kl_div(dy: Tensor, x: Tensor, target: Tensor, log_target: bool, reduction: str) -> Tensor:
    weight = exp(target) if log_target else target
    return neg(mul(spread_gradient(dy, x.shape, reduction), weight))


composite("mse_loss_grad", _mse, like=(1,))
composite("l1_loss_grad", _l1, like=(1,))
composite("huber_loss_grad", _huber, like=(1,))
composite("smooth_l1_loss_grad", _smooth_l1, like=(1,))
composite("bce_loss_grad", _bce, like=(1,))
composite("log_loss_grad", _log_loss, like=(1,))
composite("kl_div_grad", _kl_div, like=(1,))


def mse_loss_grad(dy: Tensor, x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """2 (x - target) dy."""
    return build("mse_loss_grad", dy, x, target, reduction=reduction)


def l1_loss_grad(dy: Tensor, x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """sign(x - target) dy."""
    return build("l1_loss_grad", dy, x, target, reduction=reduction)


def huber_loss_grad(
    dy: Tensor, x: Tensor, target: Tensor, delta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """(x - target) dy, between -delta and delta."""
    return build("huber_loss_grad", dy, x, target, delta=float(delta), reduction=reduction)


def smooth_l1_loss_grad(
    dy: Tensor, x: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """(x - target) dy / beta, between -1 and 1."""
    return build("smooth_l1_loss_grad", dy, x, target, beta=float(beta), reduction=reduction)


def bce_loss_grad(
    dy: Tensor, p: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """(p - target) / (p (1 - p)) dy."""
    return build("bce_loss_grad", dy, p, target, weight, reduction=reduction)


def log_loss_grad(dy: Tensor, p: Tensor, label: Tensor, eps: float = 1e-4) -> Tensor:
    """The gradient of `log_loss` by p."""
    return build("log_loss_grad", dy, p, label, eps=float(eps))


def kl_div_grad(
    dy: Tensor, x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """-target dy."""
    return build("kl_div_grad", dy, x, target, log_target=bool(log_target), reduction=reduction)
