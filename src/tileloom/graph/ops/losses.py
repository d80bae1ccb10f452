"""Losses, as compositions. `reduction` is "none", "mean" or "sum" over all elements.

Sources: MindSpore's graph-kernel expanders; PyTorch's and PaddlePaddle's documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ShapeError, UserError
from ..nodes import Tensor
from ..symbols import is_symbolic
from . import reduce
from .binary import add, div, equal, less, maximum, mul, not_equal, sub
from .choose import cast, where
from .common import check_dtype, product
from .composite import composite
from .constants import full_like, iota
from .normalize import log_softmax
from .rearrange import expand_dims
from .shape import broadcast_to, reshape
from .unary import abs as absolute
from .unary import exp, log, log1p, neg, relu, sigmoid, square

_REDUCTIONS = ("none", "mean", "sum", "batchmean")


def check_reduction(reduction: str) -> None:
    """Refuse an unknown reduction."""
    if reduction not in _REDUCTIONS:
        raise UserError(f"unknown reduction {reduction!r}", hint=f"one of {', '.join(_REDUCTIONS)}")


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    check_reduction(reduction)
    if reduction == "none":
        return loss
    total = reduce.sum(loss)
    if reduction == "sum":
        return total
    count = loss.type.size if reduction == "mean" else loss.shape[0] if loss.ndim else 1
    return div(total, count if is_symbolic(count) else float(count))


def spread_gradient(dy: Tensor, shape: Sequence[int], reduction: str) -> Tensor:
    """The gradient of a reduced loss, for each element of the loss."""
    check_reduction(reduction)
    if reduction == "none":
        return dy
    if reduction != "sum":
        dy = div(dy, float(product(shape if reduction == "mean" else shape[:1])))
    return broadcast_to(dy, shape)


# ---------------------------------------------------------------------------- of distances


@composite()
def mse_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(x - target)²."""
    return _reduced(square(sub(x, target)), reduction)


@composite()
def l1_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """|x - target|."""
    return _reduced(absolute(sub(x, target)), reduction)


@composite()
def huber_loss(x: Tensor, target: Tensor, delta: float = 1.0, reduction: str = "mean") -> Tensor:
    """d² / 2 for distances d below delta, else delta * (d - delta / 2)."""
    size = absolute(sub(x, target))
    loss = where(less(size, delta), mul(square(size), 0.5), mul(sub(size, 0.5 * delta), delta))
    return _reduced(loss, reduction)


@composite()
def smooth_l1_loss(x: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """`huber_loss` divided by its delta."""
    size = absolute(sub(x, target))
    if beta == 0:
        return _reduced(size, reduction)
    loss = where(less(size, beta), mul(square(size), 0.5 / beta), sub(size, 0.5 * beta))
    return _reduced(loss, reduction)


# ---------------------------------------------------------------------------- of probabilities

#: Logarithms in `bce_loss` are not below this, as in PyTorch.
LEAST_LOG = -100.0


@composite()
def bce_loss(
    p: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(target log p + (1 - target) log(1 - p)), no logarithm below -100."""
    yes, no = maximum(log(p), LEAST_LOG), maximum(log(sub(1.0, p)), LEAST_LOG)
    loss = sub(mul(sub(target, 1.0), no), mul(target, yes))
    return _reduced(loss if weight is None else mul(loss, weight), reduction)


@composite()
def log_loss(p: Tensor, label: Tensor, eps: float = 1e-4) -> Tensor:
    """-label log(p + eps) - (1 - label) log(1 - p + eps)."""
    yes, no = log(add(p, eps)), log(sub(1.0 + eps, p))
    return sub(mul(sub(label, 1.0), no), mul(label, yes))


@composite()
def kl_div(x: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean") -> Tensor:
    """target * (log target - x), where x is a logarithm, and maybe the target too."""
    if log_target:
        loss = mul(exp(target), sub(target, x))
    else:  # 0 log 0 is 0
        entropy = where(equal(target, 0.0), 0.0, mul(target, log(target)))
        loss = sub(entropy, mul(target, x))
    return _reduced(loss, reduction)


@composite()
def sigmoid_cross_entropy_with_logits(x: Tensor, label: Tensor) -> Tensor:
    """max(x, 0) - x * label + log(1 + exp(-|x|))."""
    return add(sub(relu(x), mul(x, label)), log1p(exp(neg(absolute(x)))))


@composite()
def sigmoid_cross_entropy_with_logits_grad(dy: Tensor, x: Tensor, label: Tensor) -> Tensor:
    """dy * (sigmoid(x) - label)."""
    return mul(dy, sub(sigmoid(x), label))


# ---------------------------------------------------------------------------- of classes


def class_axis(x: Tensor) -> int:
    """Classes are along axis 1, or 0 of a vector."""
    if x.ndim == 0:
        raise ShapeError("needs a dimension of classes")
    return min(1, x.ndim - 1)


def chosen_class(x: Tensor, target: Tensor) -> Tensor:
    """Where the class of an element is that of the target, in the shape of x."""
    axis = class_axis(x)
    if target.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise ShapeError(f"targets {target.type} do not fit {x.type}")
    check_dtype(target.type, "integer", "the targets")
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return equal(expand_dims(target, axis), iota(shape, axis, target.dtype))


def class_weights(x: Tensor, target: Tensor, weight: Tensor | None, ignored: int) -> Tensor:
    """The weight of each target, 0 of those to ignore."""
    counts = not_equal(target, ignored)
    if weight is None:
        return cast(counts, x.dtype)
    axis = class_axis(x)
    if weight.shape != (x.shape[axis],):
        raise ShapeError(f"weights {weight.type} do not fit the classes of {x.type}")
    column = reshape(weight, [-1, *(1 for _ in x.shape[axis + 1 :])])
    own = reduce.sum(where(chosen_class(x, target), column, 0.0), axis)
    return where(counts, own, 0.0)


def _nll(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignored: int
) -> tuple[Tensor, Tensor]:
    each = class_weights(x, target, weight, ignored)
    picked = reduce.sum(where(chosen_class(x, target), x, 0.0), class_axis(x))
    loss = where(equal(each, 0.0), 0.0, neg(mul(picked, each)))
    check_reduction(reduction)
    total = reduce.sum(each)
    if reduction == "none":
        return loss, total
    whole = reduce.sum(loss)
    return div(whole, total) if reduction == "mean" else whole, total


@composite()
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean",
    ignored: int = -100,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-x at the target class (axis 1) times its weight; "mean" divides by the sum of the weights.

    Returns:
        The loss and the sum of the weights.
    """
    return _nll(x, target, weight, reduction, ignored)


@composite(like=(1,))
def nll_loss_grad(
    dy: Tensor, x: Tensor, target: Tensor, total: Tensor, weight: Tensor | None = None,
    reduction: str = "mean", ignored: int = -100,
) -> Tensor:  # fmt: skip
    """The gradient of `nll_loss` by x; `total` is the sum of the weights."""
    each = class_weights(x, target, weight, ignored)
    share = neg(mul(spread_gradient(dy, target.shape, "none" if reduction == "none" else "sum"),
                    each))  # fmt: skip
    if reduction == "mean":
        share = div(share, total)
    return where(chosen_class(x, target), expand_dims(share, class_axis(x)), 0.0)


@composite()
def cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean",
    ignored: int = -100, smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """`nll_loss` of the log_softmax over classes (axis 1), with smoothed labels."""
    axis = class_axis(x)
    logs = log_softmax(x, axis)
    loss = _nll(logs, target, weight, reduction, ignored)[0]
    if smoothing == 0:
        return loss
    each = class_weights(x, target, None, ignored)
    column = full_like(x, 1.0) if weight is None else (
        reshape(weight, [-1, *(1 for _ in x.shape[axis + 1 :])]))  # fmt: skip
    even = mul(neg(reduce.sum(mul(logs, column), axis)), each)
    if reduction != "none":
        even = reduce.sum(even)
    if reduction == "mean":
        even = div(even, reduce.sum(class_weights(x, target, weight, ignored)))
    return add(mul(loss, 1 - smoothing), mul(even, smoothing / max(x.shape[axis], 1)))


@composite()
def softmax_cross_entropy_with_logits(x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """-sum(labels * log_softmax(x)) over the last axis, and its gradient softmax(x) - labels."""
    logs = log_softmax(x, -1)
    return neg(reduce.sum(mul(labels, logs), -1)), sub(exp(logs), labels)


@composite()
def sparse_softmax_cross_entropy_with_logits(x: Tensor, labels: Tensor) -> Tensor:
    """-log_softmax(x) at the labels, for each row; classes are along axis 1."""
    return _nll(log_softmax(x, class_axis(x)), labels, None, "none", -1)[0]


@composite(like=(1,))
def sparse_softmax_cross_entropy_with_logits_grad(dy: Tensor, x: Tensor, labels: Tensor) -> Tensor:
    """(softmax(x) - one_hot(labels)) * dy."""
    axis = class_axis(x)
    hit = cast(chosen_class(x, labels), x.dtype)
    return mul(sub(exp(log_softmax(x, axis)), hit), expand_dims(dy, axis))
