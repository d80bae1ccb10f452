"""Layers as training sees them: normalisation with statistics, dropout by a given mask, bias."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ShapeError, UserError
from ..nodes import Tensor
from . import reduce
from .binary import add, div, mul, sub
from .choose import cast
from .common import builder, normalize_axis, product
from .composite import build, build_all, composite
from .normalize import per_channel
from .shape import reshape
from .unary import rsqrt, square

# ---------------------------------------------------------------------------- normalisation


def _moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes, kept as unit dimensions; in two passes."""
    count = float(product([x.shape[k] for k in axes]))
    mean = div(reduce.sum(x, axes, keepdims=True), count)
    return mean, div(reduce.sum(square(sub(x, mean)), axes, keepdims=True), count)


def _layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, axis: int, eps: float
) -> list[Tensor]:
    mean, var = _moments(x, list(range(axis, x.ndim)))
    y = mul(sub(x, mean), rsqrt(add(var, eps)))
    y = y if scale is None else mul(y, scale)
    return [y if bias is None else add(y, bias), mean, var]


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *,
    momentum: float, eps: float, unbiased: bool,
) -> list[Tensor]:  # fmt: skip
    axes = [k for k in range(x.ndim) if k != 1]
    count = product([x.shape[k] for k in axes])
    now, spread = _moments(x, axes)
    normal = mul(sub(x, now), rsqrt(add(spread, eps)))
    factor, shift = (per_channel(x, cast(v, x.dtype), "scale") for v in (scale, bias))
    y = add(mul(normal, factor), shift)
    flat, wide = (
        cast(reshape(new, old.shape), old.dtype) for new, old in ((now, mean), (spread, var))
    )
    # Of one element there is no unbiased variance: 0 / 0.
    seen = div(mul(wide, float(count)), float(max(count - 1, 0))) if unbiased else wide
    running = [
        add(mul(old, 1 - momentum), mul(new, momentum)) for old, new in ((mean, flat), (var, seen))
    ]
    return [y, *running, flat, wide]


composite("layer_norm_with_stats", _layer_norm)
composite("batch_norm_training", _batch_norm, like=(0, 3, 4, 3, 4))


@builder
def layer_norm_with_stats(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, axis: int = -1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, and the mean and variance that it found, with unit dimensions."""
    if bias is not None and scale is None:
        raise UserError("a bias needs a scale")
    y, mean, var = build_all("layer_norm_with_stats", x, scale, bias,
                             axis=normalize_axis(axis, x.ndim), eps=float(eps))  # fmt: skip
    return y, mean, var


@builder
def batch_norm_training(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float = 0.1,
    eps: float = 1e-5, unbiased: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Each channel (axis 1) normalised with its own statistics.

    Returns:
        The result; running mean and variance moved by `momentum` toward those of x (the variance
        with n / (n - 1) if `unbiased`); mean and variance of x.
    """
    return build_all("batch_norm_training", x, scale, bias, mean, var, momentum=float(momentum),
                     eps=float(eps), unbiased=bool(unbiased))  # fmt: skip


# ---------------------------------------------------------------------------- dropout


def _dropout(x: Tensor, mask: Tensor, rate: float) -> Tensor:
    if not 0 <= rate <= 1:
        raise UserError(f"a dropout rate of {rate}", hint="between 0 and 1")
    scale = 0.0 if rate == 1 else 1 / (1 - rate)
    return mul(mul(x, cast(mask, x.dtype)), scale)


composite("dropout", _dropout)
composite("dropout_grad", _dropout)


def dropout(x: Tensor, mask: Tensor | None = None, rate: float = 0.5) -> Tensor:
    """x / (1 - rate) where the mask holds, else 0; without a mask, as in inference, x.

    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> dropout(x) is x
    True
    """
    return x if mask is None else build("dropout", x, mask, rate=float(rate))


def dropout_grad(dy: Tensor, mask: Tensor, rate: float = 0.5) -> Tensor:
    """`dropout` of the gradient, by the same mask."""
    return build("dropout_grad", dy, mask, rate=float(rate))


# ---------------------------------------------------------------------------- bias


def _bias_add(x: Tensor, bias: Tensor, axis: int) -> Tensor:
    if bias.shape != (x.shape[axis],):
        raise ShapeError(f"a bias {bias.type} does not fit axis {axis} of {x.type}")
    return add(x, reshape(bias, [bias.shape[0], *(1 for _ in x.shape[axis + 1 :])]))


composite("bias_add", _bias_add)
composite("bias_add_grad", lambda dy, axis: (
    reduce.sum(dy, [k for k in range(dy.ndim) if k != axis])))  # fmt: skip


@builder
def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x plus a bias for each place along an axis (1: channels first, -1: channels last)."""
    return build("bias_add", x, bias, axis=normalize_axis(axis, x.ndim))


@builder
def bias_add_grad(dy: Tensor, axis: int = 1) -> Tensor:
    """dy summed over all axes but one, of `bias_add`."""
    return build("bias_add_grad", dy, axis=normalize_axis(axis, dy.ndim))
