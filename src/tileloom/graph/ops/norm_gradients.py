"""Gradients of softmax and of normalisations, as compositions.

`mean` and `rstd` are what a normalisation found: the mean and 1 / sqrt(variance + eps).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..nodes import Tensor
from . import reduce
from .binary import add, div, mul, sub
from .common import builder, product
from .composite import composite
from .normalize import check_channels, check_groups, per_channel
from .shape import reshape
from .unary import exp, rsqrt, square

Axes = Sequence[int]

# ---------------------------------------------------------------------------- softmax


def _total(x: Tensor, axis: int | Axes) -> Tensor:
    return reduce.sum(x, axis, keepdims=True)


@composite()
def softmax_grad(dy: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """(dy - sum(dy * y)) * y, of `softmax` with result y."""
    return mul(sub(dy, _total(mul(dy, y), axis)), y)


@composite()
def softmax_grad_ext(dy: Tensor, y: Tensor, z: Tensor, axis: int = -1) -> Tensor:
    """`softmax_grad` times z."""
    return mul(mul(sub(dy, _total(mul(dy, y), axis)), y), z)


@composite()
def log_softmax_grad(dy: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """dy - exp(y) * sum(dy), of `log_softmax` with result y."""
    return sub(dy, mul(exp(y), _total(dy, axis)))


# ---------------------------------------------------------------------------- rows


def _normalized_grad(g: Tensor, normal: Tensor, rstd: Tensor, axes: Axes, count: int) -> Tensor:
    """The gradient by x of normal = (x - mean(x)) * rstd(x), where g is that by normal.

    MindSpore's pd_var and pd_mean, joined: rstd * (g - mean(g) - normal * mean(g * normal)).
    """
    shift = div(_total(g, axes), float(count))
    slope = div(_total(mul(g, normal), axes), float(count))
    return mul(rstd, sub(sub(g, shift), mul(normal, slope)))


@composite(like=(1, 4, 4))
def layer_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None, axis: int = -1
) -> tuple[Tensor, ...]:
    """The gradients of `layer_norm` by x and, with a scale, by scale and bias."""
    axes = list(range(axis, x.ndim))
    shape = [*x.shape[:axis], *(1 for _ in axes)]
    mean, rstd = reshape(mean, shape), reshape(rstd, shape)
    normal = mul(sub(x, mean), rstd)
    g = dy if scale is None else mul(dy, scale)
    by_x = _normalized_grad(g, normal, rstd, axes, product(x.shape[axis:]))
    if scale is None:
        return (by_x,)
    before = list(range(axis))
    by_scale, by_bias = (reduce.sum(v, before) if before else v for v in (mul(dy, normal), dy))
    return by_x, by_scale, by_bias


@composite(like=(1, 2))
def rms_norm_grad(
    dy: Tensor, x: Tensor, scale: Tensor | None = None, axis: int = -1, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """The gradients of `rms_norm` by x and, with a scale, by the scale."""
    axes = list(range(axis, x.ndim))
    count = float(product(x.shape[axis:]))
    rstd = rsqrt(add(div(_total(square(x), axes), count), eps))
    normal = mul(x, rstd)
    g = dy if scale is None else mul(dy, scale)
    slope = div(_total(mul(g, normal), axes), count)
    by_x = mul(rstd, sub(g, mul(normal, slope)))
    if scale is None:
        return (by_x,)
    before = list(range(axis))
    return by_x, reduce.sum(mul(dy, normal), before) if before else mul(dy, normal)


# ---------------------------------------------------------------------------- channels


@composite(like=(1, 2, 2))
def batch_norm_grad(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, rstd: Tensor, training: bool = True
) -> tuple[Tensor, ...]:
    """The gradients of batch normalisation by x, scale and bias.

    In training `mean` and `rstd` are those of x, else given ones that do not depend on it.
    """
    axes = [k for k in range(x.ndim) if k != 1]
    scale_, mean, rstd = (per_channel(x, v, "statistics") for v in (scale, mean, rstd))
    normal = mul(sub(x, mean), rstd)
    g = mul(dy, scale_)
    if training:
        by_x = _normalized_grad(g, normal, rstd, axes, product([x.shape[k] for k in axes]))
    else:
        by_x = mul(g, rstd)
    return by_x, reduce.sum(mul(dy, normal), axes), reduce.sum(dy, axes)


@composite(like=(1, 4, 4))
def group_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, groups: int, scale: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The gradients of `group_norm` by x and, with a scale, by scale and bias."""
    check_groups(x, groups)
    n, c = x.shape[:2]
    split = [n, groups, c // groups, product(x.shape[2:])]
    stats = [reshape(v, [n, groups, 1, 1]) for v in (mean, rstd)]
    normal = mul(sub(reshape(x, split), stats[0]), stats[1])
    given = reshape(dy, split)
    g = given
    if scale is not None:
        per_channel(x, scale, "scale")
        g = mul(given, reshape(scale, [1, groups, c // groups, 1]))
    by_x = _normalized_grad(g, normal, stats[1], (2, 3), split[2] * split[3])
    if scale is None:
        return (reshape(by_x, x.shape),)
    sums = [reshape(reduce.sum(v, (0, 3)), [c]) for v in (mul(given, normal), given)]
    return reshape(by_x, x.shape), *sums


@builder
def instance_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None
) -> tuple[Tensor, ...]:
    """`group_norm_grad` with each channel on its own."""
    check_channels(x)
    return group_norm_grad(dy, x, mean, rstd, x.shape[1], scale)
