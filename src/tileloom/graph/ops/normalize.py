"""Statistics and normalisations, as compositions of reductions and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ..nodes import Tensor
from ..op import Array
from ..symbols import is_symbolic, symbolic_number
from . import reduce
from .binary import add, div, maximum, mul, pow, sub
from .choose import where
from .common import builder, check_dtype, extent, normalize_axes, product
from .composite import composite
from .pool import sum_pool
from .shape import reshape
from .unary import abs as absolute
from .unary import exp, isfinite, log, rsqrt, sqrt, square

Axes = int | Sequence[int] | None


def _count(x: Tensor, axis: Axes) -> float:
    """How many elements there are over axes; symbolic if an extent is."""
    count = product([x.shape[k] for k in normalize_axes(axis, x.ndim)])
    return count if is_symbolic(count) else float(count)


def _mean(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    check_dtype(x.type, "float")
    return div(reduce.sum(x, axis, keepdims), _count(x, axis))


def _var(x: Tensor, axis: Axes, keepdims: bool, correction: float) -> Tensor:
    centred = sub(x, _mean(x, axis, True))
    count, total = _count(x, axis), reduce.sum(square(centred), axis, keepdims)
    # With no degrees of freedom left the variance is not defined: 0 / 0.
    if is_symbolic(count):
        return div(total, maximum(sub(extent(symbolic_number(count), x.dtype), correction), 0.0))
    return div(total, max(count - correction, 0.0))


def _var_reference(x: Array, axis: Any, keepdims: bool, correction: float) -> Array:
    centred = x - np.sum(x, axis=axis, keepdims=True) / _size(x, axis)
    total: Array = np.sum(np.square(centred), axis=axis, keepdims=keepdims)
    return total / np.float64(max(_size(x, axis) - correction, 0.0))


def _size(x: Array, axis: tuple[int, ...]) -> np.float64:
    return np.float64(product([x.shape[k] for k in axis]))


@composite(lambda x, axis, keepdims: np.sum(x, axis=axis, keepdims=keepdims) / _size(x, axis))
def mean(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes; NaN of nothing."""
    return _mean(x, axis, keepdims)


@composite(_var_reference)
def var(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Tensor:
    """The mean squared distance from the mean; the sum is divided by the count - correction."""
    return _var(x, axis, keepdims, correction)


@composite(lambda x, **attrs: np.sqrt(_var_reference(x, **attrs)))
def std(x: Tensor, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Tensor:
    """The square root of `var`."""
    return sqrt(_var(x, axis, keepdims, correction))


# ---------------------------------------------------------------------------- softmax


def _check_softmax(x: Tensor) -> None:
    check_dtype(x.type, "float")
    if x.ndim == 0:
        raise ShapeError("needs at least one dimension")


def _peak(x: Tensor, axis: Axes) -> Tensor:
    return reduce.max(x, axis, keepdims=True, empty_ok=True)


def _softmax_reference(x: Array, axis: int) -> Any:
    if x.size == 0:
        return x
    weights = np.exp(x - x.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


@composite(_softmax_reference)
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, without overflow."""
    _check_softmax(x)
    weights = exp(sub(x, _peak(x, (axis,))))
    return div(weights, reduce.sum(weights, axis, keepdims=True))


def _log_softmax_reference(x: Array, axis: int) -> Any:
    if x.size == 0:
        return x
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@composite(_log_softmax_reference)
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """log(softmax(x)), without overflow."""
    _check_softmax(x)
    shifted = sub(x, _peak(x, (axis,)))
    return sub(shifted, log(reduce.sum(exp(shifted), axis, keepdims=True)))


@composite(lambda x, axis, keepdims: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims))
def logsumexp(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes, without overflow."""
    check_dtype(x.type, "float")
    peak = _peak(x, axis)
    peak = where(isfinite(peak), peak, 0.0)
    result = add(log(reduce.sum(exp(sub(x, peak)), axis, keepdims=True)), peak)
    axes = normalize_axes(axis, x.ndim)
    return result if keepdims else reshape(result, reduce.reduced_shape(x.shape, axes, False))


# ---------------------------------------------------------------------------- normalisation


def _standardize(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """(x - mean) / sqrt(var + eps) over axes."""
    centred = sub(x, _mean(x, axes, True))
    spread = div(reduce.sum(square(centred), axes, keepdims=True), _count(x, axes))
    return mul(centred, rsqrt(add(spread, eps)))


def _standardize_reference(x: Array, axes: tuple[int, ...], eps: float) -> Any:
    mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def _affine(
    x: Any, scale: Any, bias: Any, times: Callable[..., Any], plus: Callable[..., Any]
) -> Any:
    if scale is not None:
        x = times(x, scale)
    return x if bias is None else plus(x, bias)


def _layer_norm_reference(
    x: Array, scale: Any = None, bias: Any = None, *, axis: int, eps: float
) -> Any:
    axes = tuple(range(axis, x.ndim))
    return _affine(_standardize_reference(x, axes, eps), scale, bias, np.multiply, np.add)


@composite(_layer_norm_reference)
def layer_norm(
    x: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    axis: int = -1,
    eps: float = 1e-5,
) -> Tensor:
    """`x` with mean 0 and variance 1 over the axes from `axis` on, then scaled and shifted."""
    axes = tuple(range(axis, x.ndim))
    result: Tensor = _affine(_standardize(x, axes, eps), scale, bias, mul, add)
    if result.shape != x.shape:
        raise ShapeError(f"scale and bias do not broadcast to {x.type}")
    return result


def _rms_norm_reference(x: Array, scale: Any = None, *, axis: int, eps: float) -> Any:
    power = np.mean(np.square(x), axis=tuple(range(axis, x.ndim)), keepdims=True)
    return _affine(x / np.sqrt(power + eps), scale, None, np.multiply, np.add)


@composite(_rms_norm_reference)
def rms_norm(x: Tensor, scale: Tensor | None = None, axis: int = -1, eps: float = 1e-5) -> Tensor:
    """`x` divided by its root mean square over the axes from `axis` on, then scaled."""
    axes = tuple(range(axis, x.ndim))
    power = div(reduce.sum(square(x), axes, keepdims=True), _count(x, axes))
    result: Tensor = _affine(mul(x, rsqrt(add(power, eps))), scale, None, mul, add)
    return result


def check_channels(x: Tensor) -> None:
    """Refuse a tensor without channels (axis 1)."""
    if x.ndim < 2:
        raise ShapeError(f"needs a batch and a channel dimension, got {x.type}")


def check_groups(x: Tensor, groups: int) -> None:
    """Refuse groups that do not divide the channels."""
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"{groups} groups do not divide the channels of {x.type}")


def per_channel(x: Tensor, values: Tensor, what: str) -> Tensor:
    """A vector over the channels (axis 1) in a shape that broadcasts to `x`."""
    if x.ndim < 2 or values.shape != (x.shape[1],):
        raise ShapeError(f"{what} must have one value for each channel of {x.type}: {values.type}")
    return reshape(values, [1, x.shape[1]] + [1] * (x.ndim - 2))


def _column(x: Array, values: Array) -> Array:
    return values.reshape([1, -1] + [1] * (x.ndim - 2))


def _batch_norm_reference(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, eps: float
) -> Array:
    scale, bias, mean, var = (_column(x, v) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + eps) * scale + bias


@composite(_batch_norm_reference)
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float = 1e-5
) -> Tensor:
    """Each channel (axis 1) normalised with the given statistics (inference)."""
    for what, values in {"scale": scale, "bias": bias, "mean": mean, "var": var}.items():
        per_channel(x, values, what)
    # As a product and a sum, which fold into a convolution before it.
    factor = mul(scale, rsqrt(add(var, eps)))
    shift = sub(bias, mul(mean, factor))
    return add(mul(x, per_channel(x, factor, "scale")), per_channel(x, shift, "bias"))


def _group_norm_reference(x: Array, scale: Array, bias: Array, *, groups: int, eps: float) -> Any:
    parts = x.reshape(x.shape[0], groups, product(x.shape[1:]) // groups)
    normal = _standardize_reference(parts, (2,), eps).reshape(x.shape)
    return normal * _column(x, scale) + _column(x, bias)


@composite(_group_norm_reference)
def group_norm(x: Tensor, groups: int, scale: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Normalised over groups of channels and all positions, then scaled per channel."""
    check_groups(x, groups)
    parts = reshape(x, [x.shape[0], groups, product(x.shape[1:]) // groups])
    normal = reshape(_standardize(parts, (2,), eps), x.shape)
    scaled = mul(normal, per_channel(x, scale, "scale"))
    return add(scaled, per_channel(x, bias, "bias"))


@builder
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`group_norm` with each channel on its own."""
    check_channels(x)
    return group_norm(x, x.shape[1], scale, bias, eps)


def _lrn_reference(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        low = max(0, c - (size - 1) // 2)
        total[:, c] = np.square(x[:, low : c + math.ceil((size - 1) / 2) + 1]).sum(axis=1)
    return x / (bias + alpha / size * total) ** beta


@composite(_lrn_reference)
def lrn(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """Local response normalisation over `size` neighbouring channels."""
    check_dtype(x.type, "float")
    check_channels(x)
    n, c = x.shape[:2]
    flat = reshape(square(x), [n, 1, c, product(x.shape[2:])])
    before = (size - 1) // 2
    # The sum of squares over neighbouring channels.
    total = sum_pool(flat, (size, 1), pads=(before, 0, size - 1 - before, 0))
    return div(x, pow(add(mul(reshape(total, x.shape), alpha / size), bias), beta))


def l1_norm(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum of absolute values over axes."""
    return reduce.sum(absolute(x), axis, keepdims)


def l2_norm(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The square root of the sum of squares over axes."""
    return sqrt(reduce.sum(square(x), axis, keepdims))


def sum_square(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum of squares over axes."""
    return reduce.sum(square(x), axis, keepdims)
