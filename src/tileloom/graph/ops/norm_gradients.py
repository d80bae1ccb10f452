"""Gradients of softmax and of normalisations, as compositions.

`mean` and `rstd` are what a normalisation found: the mean and 1 / sqrt(variance + eps).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ShapeError
from ..nodes import Tensor
from . import reduce
from .binary import add, div, mul, sub
from .common import builder, normalize_axis, product
from .composite import build, build_all, composite
from .normalize import per_channel
from .shape import reshape
from .unary import exp, rsqrt, square

Axes = Sequence[int]

# ---------------------------------------------------------------------------- softmax


def _total(x: Tensor, axis: int | Axes) -> Tensor:
    return reduce.sum(x, axis, keepdims=True)


composite("softmax_grad", lambda dy, y, axis: mul(sub(dy, _total(mul(dy, y), axis)), y))
composite("softmax_grad_ext", lambda dy, y, z, axis: (
    mul(mul(sub(dy, _total(mul(dy, y), axis)), y), z)))  # fmt: skip
composite("log_softmax_grad", lambda dy, y, axis: sub(dy, mul(exp(y), _total(dy, axis))))


@builder
def softmax_grad(dy: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """(dy - sum(dy * y)) * y, of `softmax` with result y."""
    return build("softmax_grad", dy, y, axis=normalize_axis(axis, y.ndim))


@builder
def softmax_grad_ext(dy: Tensor, y: Tensor, z: Tensor, axis: int = -1) -> Tensor:
    """`softmax_grad` times z."""
    return build("softmax_grad_ext", dy, y, z, axis=normalize_axis(axis, y.ndim))


@builder
def log_softmax_grad(dy: Tensor, y: Tensor, axis: int = -1) -> Tensor:
    """dy - exp(y) * sum(dy), of `log_softmax` with result y."""
    return build("log_softmax_grad", dy, y, axis=normalize_axis(axis, y.ndim))


# ---------------------------------------------------------------------------- rows


def _normalized_grad(g: Tensor, normal: Tensor, rstd: Tensor, axes: Axes, count: int) -> Tensor:
    """The gradient by x of normal = (x - mean(x)) * rstd(x), where g is that by normal.

    MindSpore's pd_var and pd_mean, joined: rstd * (g - mean(g) - normal * mean(g * normal)).
    """
    shift = div(_total(g, axes), float(count))
    slope = div(_total(mul(g, normal), axes), float(count))
    return mul(rstd, sub(sub(g, shift), mul(normal, slope)))


def _layer_norm(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None, *, axis: int
) -> list[Tensor]:
    axes = list(range(axis, x.ndim))
    shape = [*x.shape[:axis], *(1 for _ in axes)]
    mean, rstd = reshape(mean, shape), reshape(rstd, shape)
    normal = mul(sub(x, mean), rstd)
    g = dy if scale is None else mul(dy, scale)
    by_x = _normalized_grad(g, normal, rstd, axes, product(x.shape[axis:]))
    if scale is None:
        return [by_x]
    before = list(range(axis))
    by_scale, by_bias = (reduce.sum(v, before) if before else v for v in (mul(dy, normal), dy))
    return [by_x, by_scale, by_bias]


def _rms_norm(
    dy: Tensor, x: Tensor, scale: Tensor | None = None, *, axis: int, eps: float
) -> list[Tensor]:
    axes = list(range(axis, x.ndim))
    count = float(product(x.shape[axis:]))
    rstd = rsqrt(add(div(_total(square(x), axes), count), eps))
    normal = mul(x, rstd)
    g = dy if scale is None else mul(dy, scale)
    slope = div(_total(mul(g, normal), axes), count)
    by_x = mul(rstd, sub(g, mul(normal, slope)))
    if scale is None:
        return [by_x]
    before = list(range(axis))
    return [by_x, reduce.sum(mul(dy, normal), before) if before else mul(dy, normal)]


composite("layer_norm_grad", _layer_norm, like=(1, 4, 4))
composite("rms_norm_grad", _rms_norm, like=(1, 2))


@builder
def layer_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None, axis: int = -1
) -> tuple[Tensor, ...]:
    """The gradients of `layer_norm` by x and, with a scale, by scale and bias."""
    return build_all("layer_norm_grad", dy, x, mean, rstd, scale, axis=normalize_axis(axis, x.ndim))


@builder
def rms_norm_grad(
    dy: Tensor, x: Tensor, scale: Tensor | None = None, axis: int = -1, eps: float = 1e-5
) -> tuple[Tensor, ...]:
    """The gradients of `rms_norm` by x and, with a scale, by the scale."""
    return build_all("rms_norm_grad", dy, x, scale, axis=normalize_axis(axis, x.ndim),
                     eps=float(eps))  # fmt: skip


# ---------------------------------------------------------------------------- channels


def _batch_norm(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, rstd: Tensor, *, training: bool
) -> list[Tensor]:
    axes = [k for k in range(x.ndim) if k != 1]
    scale_, mean, rstd = (per_channel(x, v, "statistics") for v in (scale, mean, rstd))
    normal = mul(sub(x, mean), rstd)
    g = mul(dy, scale_)
    if training:
        by_x = _normalized_grad(g, normal, rstd, axes, product([x.shape[k] for k in axes]))
    else:
        by_x = mul(g, rstd)
    return [by_x, reduce.sum(mul(dy, normal), axes), reduce.sum(dy, axes)]


def _group_norm(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None, *, groups: int
) -> list[Tensor]:
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"{groups} groups do not divide the channels of {x.type}")
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
        return [reshape(by_x, x.shape)]
    sums = [reshape(reduce.sum(v, (0, 3)), [c]) for v in (mul(given, normal), given)]
    return [reshape(by_x, x.shape), *sums]


composite("batch_norm_grad", _batch_norm, like=(1, 2, 2))
composite("group_norm_grad", _group_norm, like=(1, 4, 4))


@builder
def batch_norm_grad(
    dy: Tensor, x: Tensor, scale: Tensor, mean: Tensor, rstd: Tensor, training: bool = True
) -> tuple[Tensor, ...]:
    """The gradients of batch normalisation by x, scale and bias.

    In training `mean` and `rstd` are those of x, else given ones that do not depend on it.
    """
    return build_all("batch_norm_grad", dy, x, scale, mean, rstd, training=bool(training))


@builder
def group_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, groups: int, scale: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The gradients of `group_norm` by x and, with a scale, by scale and bias."""
    return build_all("group_norm_grad", dy, x, mean, rstd, scale, groups=int(groups))


@builder
def instance_norm_grad(
    dy: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, scale: Tensor | None = None
) -> tuple[Tensor, ...]:
    """`group_norm_grad` with each channel on its own."""
    if x.ndim < 2:
        raise ShapeError(f"needs a batch and a channel dimension, got {x.type}")
    return group_norm_grad(dy, x, mean, rstd, x.shape[1], scale)
