"""Layers as training sees them: normalisation with statistics, dropout by a given mask, bias."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ShapeError, UserError
from ..nodes import Tensor
from . import reduce
from .binary import add, div, mul, sub
from .choose import cast
from .common import product
from .composite import build, composite, define_composite
from .normalize import per_channel
from .shape import reshape
from .unary import rsqrt, square

# ---------------------------------------------------------------------------- normalisation


def _moments(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean and variance over axes, kept as unit dimensions; in two passes."""
    count = float(product([x.shape[k] for k in axes]))
    mean = div(reduce.sum(x, axes, keepdims=True), count)
    return mean, div(reduce.sum(square(sub(x, mean)), axes, keepdims=True), count)


@composite()
def layer_norm_with_stats(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, axis: int = -1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`layer_norm`, and the mean and variance that it found, with unit dimensions."""
    mean, var = _moments(x, list(range(axis, x.ndim)))
    y = mul(sub(x, mean), rsqrt(add(var, eps)))
    y = y if scale is None else mul(y, scale)
    return y if bias is None else add(y, bias), mean, var


@composite(like=(0, 3, 4, 3, 4))
def batch_norm_training(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, momentum: float = 0.1,
    eps: float = 1e-5, unbiased: bool = True,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Each channel (axis 1) normalised with its own statistics.

    Returns:
        The result; running mean and variance moved by `momentum` toward those of x (the variance
        with n / (n - 1) if `unbiased`); mean and variance of x.
    """
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
    return y, *running, flat, wide


# ---------------------------------------------------------------------------- dropout


def _dropped(x: Tensor, mask: Tensor, rate: float) -> Tensor:
    if not 0 <= rate <= 1:
        raise UserError(f"a dropout rate of {rate}", hint="between 0 and 1")
    scale = 0.0 if rate == 1 else 1 / (1 - rate)
    return mul(mul(x, cast(mask, x.dtype)), scale)


define_composite("dropout", _dropped)


def dropout(x: Tensor, mask: Tensor | None = None, rate: float = 0.5) -> Tensor:
    """x / (1 - rate) where the mask holds, else 0; without a mask, as in inference, x.

    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> dropout(x) is x
    True
    """
    return x if mask is None else build("dropout", x, mask, rate=float(rate))


@composite()
def dropout_grad(dy: Tensor, mask: Tensor, rate: float = 0.5) -> Tensor:
    """`dropout` of the gradient, by the same mask."""
    return _dropped(dy, mask, rate)


# ---------------------------------------------------------------------------- bias


@composite()
def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """x plus a bias for each place along an axis (1: channels first, -1: channels last)."""
    if bias.shape != (x.shape[axis],):
        raise ShapeError(f"a bias {bias.type} does not fit axis {axis} of {x.type}")
    return add(x, reshape(bias, [bias.shape[0], *(1 for _ in x.shape[axis + 1 :])]))


@composite()
def bias_add_grad(dy: Tensor, axis: int = 1) -> Tensor:
    """dy summed over all axes but one, of `bias_add`."""
    return reduce.sum(dy, [k for k in range(dy.ndim) if k != axis])
