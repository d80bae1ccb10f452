"""Pooling: a reduction over sliding windows of [N, C, spatial...]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import dtype
from ...expr import GE, LT, Expr, binary, const
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply, apply1
from .binary import div, pow
from .common import (
    Types,
    accumulate,
    check_dtype,
    check_rank,
    compute_tensor,
    constant,
    define,
    double,
    extents,
    product,
    reduce_axes,
)
from .composite import build, define_composite
from .pad import pad_with
from .unary import abs as absolute
from .windows import Windows, spread, spread_pads

Amounts = int | Sequence[int] | None


def _spatial(type_: TensorType) -> tuple[int, ...]:
    check_rank(type_, 2)
    return type_.shape[2:]


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    check_dtype(types[0], "number")
    windows, sizes = Windows.of(attrs, attrs["kernel"]), _spatial(types[0])
    windows.check(len(sizes))
    shape = (*types[0].shape[:2], *windows.outputs(sizes, attrs["ceil_mode"]))
    return [TensorType(shape, types[0].dtype)]


def window_index(windows: Windows, outputs: Sequence[Any], offsets: Sequence[Any]) -> list[Any]:
    """Where windows read in the padded tensor."""
    rows = zip(outputs, windows.strides, offsets, windows.dilations, strict=True)
    return [o * stride + k * dilation for o, stride, k, dilation in rows]


def padded(source: te.Tensor, windows: Windows, outputs: Sequence[int], value: Expr) -> te.Tensor:
    """The tensor with its padding, as a stage of its own; the tensor itself if there is none."""
    shape = source.static_shape
    sizes = shape[2:]
    after = windows.ends(sizes, outputs)
    if not any(windows.before) and not any(after):
        return source
    pads = [(0, 0), (0, 0), *zip(windows.before, after, strict=True)]
    full = tuple(n + low + high for n, (low, high) in zip(shape, pads, strict=True))
    return pad_with(source, pads, value, TensorType(full, source.dtype), "padded")


def patches(x: Array, windows: Windows, outputs: Sequence[int], value: Any) -> Array:
    """Every window of [N, C, spatial...] as [N, C, outputs..., kernel...], for references."""
    sizes = x.shape[2:]
    pads = [(0, 0), (0, 0), *zip(windows.before, windows.ends(sizes, outputs), strict=True)]
    full = np.full([n + sum(pair) for n, pair in zip(x.shape, pads, strict=True)], value, x.dtype)
    full[tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, pads, strict=True))] = x
    index: list[Any] = [slice(None), slice(None)]
    rank = windows.rank
    for k in range(rank):
        at = np.arange(outputs[k])[:, None] * windows.strides[k]
        at = at + np.arange(windows.kernel[k]) * windows.dilations[k]
        shape = [1] * (2 * rank)
        shape[k], shape[rank + k] = at.shape
        index.append(at.reshape(shape))
    result: Array = full[tuple(index)]
    return result


def _narrowing(windows: Windows, sizes: Sequence[int], outputs: Sequence[int]) -> list[int]:
    """The spatial dimensions, those that pooling shrinks most first: less is left for the rest."""
    return sorted(range(windows.rank), key=lambda k: outputs[k] / max(1, sizes[k]))


def _pool_steps(types: Types, attrs: Attrs, outputs: Types) -> int:
    """Of pooling along one dimension after the other."""
    windows = Windows.of(attrs, attrs["kernel"])
    before, after = list(types[0].shape), outputs[0].shape
    ends = windows.ends(before[2:], after[2:])
    sizes = [n + low + high for n, low, high in zip(before[2:], windows.before, ends, strict=True)]
    shape, steps = [*before[:2], *sizes], product(before) + product(sizes) * product(before[:2])
    for k in _narrowing(windows, sizes, after[2:]):
        shape[2 + k] = after[2 + k]
        steps += product(shape) * windows.kernel[k]
    return steps


def _pooled(x: Array, windows: Windows, outputs: Sequence[int], value: Any, combine: Any) -> Array:
    """The windows of [N, C, spatial...], each combined to one element, for references.

    Windows are boxes, so that one dimension can go after the other, element by element of a
    window: that takes no memory for the windows themselves.
    """
    sizes = x.shape[2:]
    pads = [(0, 0), (0, 0), *zip(windows.before, windows.ends(sizes, outputs), strict=True)]
    found = np.pad(x, pads, constant_values=value)
    for k in _narrowing(windows, found.shape[2:], outputs):
        along = np.moveaxis(found, 2 + k, 0)
        step, reach = windows.strides[k], (outputs[k] - 1) * windows.strides[k] + 1
        starts = (j * windows.dilations[k] for j in range(windows.kernel[k]))
        taken = [along[start : start + reach : step] for start in starts]
        result = taken[0].copy()
        for part in taken[1:]:
            combine(result, part, out=result)
        found = np.moveaxis(result, 0, 2 + k)
    return found


def _pool(name: str, reducer: te.Reducer, combine: Callable[..., Any]) -> None:
    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        windows = Windows.of(attrs, attrs["kernel"])
        value = reducer.combiner(types[0].dtype).identity[0].value  # type: ignore[attr-defined]
        if types[0].size == 0:
            return [np.zeros(types[0].shape)]
        return [_pooled(double(arrays[0]), windows, types[0].shape[2:], value, combine)]

    def compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
        windows = Windows.of(attrs, attrs["kernel"])
        neutral = reducer.combiner(types[0].dtype).identity[0]
        source = padded(inputs[0], windows, types[0].shape[2:], neutral)
        ks = reduce_axes(windows.kernel, product(inputs[0].static_shape), types[0].size)

        def value(n: Any, c: Any, *at: Any) -> Any:
            return source(n, c, *window_index(windows, at, ks))

        return [accumulate(types[0], reducer, value, ks, name)]

    define(name, "reduction", _infer, evaluate, compute, steps=_pool_steps)


_pool("max_pool", te.max, np.maximum)
_pool("sum_pool", te.sum, np.add)


# ---------------------------------------------------------------------------- with indices


def _infer_indices(types: Types, attrs: Attrs) -> list[TensorType]:
    (values,) = _infer(types, attrs)
    return [values, TensorType(values.shape, dtype("int64"))]


def _reference_indices(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
    x, windows, outputs = double(arrays[0]), Windows.of(attrs, attrs["kernel"]), types[0].shape[2:]
    if types[0].size == 0:
        return [np.zeros(types[0].shape)] * 2
    places = np.arange(x.size).reshape(x.shape)
    values = patches(x, windows, outputs, te.lowest(types[0].dtype).value)  # type: ignore[attr-defined]
    flat = (*values.shape[: values.ndim - windows.rank], product(windows.kernel))
    # Padding carries the largest index, so that it never wins a tie.
    places = patches(places, windows, outputs, np.iinfo(np.int64).max).reshape(flat)
    values = values.reshape(flat)
    best = values.max(axis=-1, keepdims=True)
    ties = np.where((values == best) | np.isnan(values), places, np.iinfo(np.int64).max)
    return [best[..., 0], ties.min(axis=-1)]


def _compute_indices(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    x, windows = inputs[0], Windows.of(attrs, attrs["kernel"])
    shape = x.static_shape
    ks = reduce_axes(windows.kernel, product(shape), types[0].size)

    def body(*index: Any) -> Any:
        at = [i - low for i, low in zip(window_index(windows, index[2:], ks), windows.before)]
        inside = const(True)
        place = index[0] * shape[1] + index[1]
        for i, size in zip(at, shape[2:], strict=True):
            inside = inside & binary(GE, i, 0) & binary(LT, i, size)
            place = place * size + i
        number = te.if_then_else(inside, place, te.highest(place.dtype))
        value = te.if_then_else(inside, x(*index[:2], *at), te.lowest(x.dtype))
        return te.argmax((number, value), axis=ks)

    place, best = te.compute(extents(types[0].shape, ks), lambda *i: body(*i), name="max_pool")
    return [
        best,
        compute_tensor(types[1], lambda *i: place(*i).astype("int64"), "max_pool_indices"),
    ]


def _indices_steps(types: Types, attrs: Attrs, outputs: Types) -> int:
    return 4 * outputs[0].size * product(attrs["kernel"]) + 4 * types[0].size


define(
    "max_pool_with_indices",
    "reduction",
    _infer_indices,
    _reference_indices,
    _compute_indices,
    steps=_indices_steps,
)


# ---------------------------------------------------------------------------- averages


def _counts(x: Tensor, attrs: dict[str, Any]) -> Array:
    """How many elements each window of the average counts, as [1, 1, outputs...]."""
    windows, sizes = Windows.of(attrs, attrs["kernel"]), x.shape[2:]
    outputs = windows.outputs(sizes, attrs["ceil_mode"])
    result: Array = np.ones((1, 1), np.float64)
    for k, size in enumerate(sizes):
        at = np.arange(outputs[k])[:, None] * windows.strides[k] - windows.before[k]
        at = at + np.arange(windows.kernel[k]) * windows.dilations[k]
        if attrs["count_include_pad"]:
            inside = at < size + windows.after[k]
        else:
            inside = (at >= 0) & (at < size)
        result = result[..., None] * inside.sum(axis=1)
    return result


def _avg_pool(x: Tensor, **attrs: Any) -> Tensor:
    check_dtype(x.type, "float")
    count_include_pad = attrs["count_include_pad"]
    rest = {key: value for key, value in attrs.items() if key != "count_include_pad"}
    total = apply1("sum_pool", (x,), **rest)
    counts = _counts(x, {**rest, "count_include_pad": count_include_pad})
    uniform = counts.size and (counts == counts.flat[0]).all()
    return div(total, float(counts.flat[0]) if uniform else constant(counts, x.dtype))


def _avg_pool_reference(x: Array, **attrs: Any) -> Array:
    windows = Windows.of(attrs, attrs["kernel"])
    outputs = windows.outputs(x.shape[2:], attrs["ceil_mode"])
    axes = tuple(range(-windows.rank, 0))
    inside = np.ones_like(x)
    if attrs["count_include_pad"]:
        pads = [(0, 0), (0, 0), *zip(windows.before, windows.after, strict=True)]
        inside = np.ones([n + sum(pair) for n, pair in zip(x.shape, pads, strict=True)])
        shifted = Windows(windows.kernel, windows.strides, (0,) * 2 * windows.rank,
                          windows.dilations)  # fmt: skip
        counts = patches(inside, shifted, outputs, 0).sum(axis=axes)
    else:
        counts = patches(inside, windows, outputs, 0).sum(axis=axes)
    result: Array = patches(x, windows, outputs, 0).sum(axis=axes) / counts
    return result


def _lp_pool(x: Tensor, *, p: float, **attrs: Any) -> Tensor:
    check_dtype(x.type, "float")
    return pow(apply1("sum_pool", (pow(absolute(x), p),), **attrs), 1.0 / p)


def _lp_pool_reference(x: Array, *, p: float, **attrs: Any) -> Array:
    windows = Windows.of(attrs, attrs["kernel"])
    outputs = windows.outputs(x.shape[2:], attrs["ceil_mode"])
    total = (patches(np.abs(x), windows, outputs, 0) ** p).sum(tuple(range(-windows.rank, 0)))
    return np.asarray(total ** (1 / p))


define_composite("avg_pool", _avg_pool, _avg_pool_reference)
define_composite("lp_pool", _lp_pool, _lp_pool_reference)


# ---------------------------------------------------------------------------- builders


def _attrs(
    kernel: Sequence[int], strides: Amounts, pads: Amounts, dilations: Amounts, ceil_mode: bool
) -> dict[str, Any]:
    rank = len(kernel)
    return {
        "kernel": spread(kernel, rank),
        "strides": spread(strides, rank),
        "pads": spread_pads(pads, rank),
        "dilations": spread(dilations, rank),
        "ceil_mode": bool(ceil_mode),
    }


def max_pool(
    x: Tensor, kernel: Sequence[int], strides: Amounts = None, pads: Amounts = None,
    dilations: Amounts = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The maximum of each window; strides default to 1, pads are (before..., after...)."""
    return apply1("max_pool", (x,), **_attrs(kernel, strides, pads, dilations, ceil_mode))


def max_pool_with_indices(
    x: Tensor, kernel: Sequence[int], strides: Amounts = None, pads: Amounts = None,
    dilations: Amounts = None, ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool` and, as int64, where in the flattened `x` each maximum stands."""
    attrs = _attrs(kernel, strides, pads, dilations, ceil_mode)
    values, places = apply("max_pool_with_indices", (x,), **attrs)
    return values, places


def sum_pool(
    x: Tensor, kernel: Sequence[int], strides: Amounts = None, pads: Amounts = None,
    dilations: Amounts = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of each window."""
    return apply1("sum_pool", (x,), **_attrs(kernel, strides, pads, dilations, ceil_mode))


def avg_pool(
    x: Tensor, kernel: Sequence[int], strides: Amounts = None, pads: Amounts = None,
    dilations: Amounts = None, ceil_mode: bool = False, count_include_pad: bool = False,
) -> Tensor:  # fmt: skip
    """The mean of each window; padding is counted only with `count_include_pad`."""
    attrs = _attrs(kernel, strides, pads, dilations, ceil_mode)
    return build("avg_pool", x, **attrs, count_include_pad=bool(count_include_pad))


def lp_pool(
    x: Tensor, kernel: Sequence[int], strides: Amounts = None, pads: Amounts = None,
    dilations: Amounts = None, ceil_mode: bool = False, p: float = 2.0,
) -> Tensor:  # fmt: skip
    """The p-norm of each window."""
    attrs = _attrs(kernel, strides, pads, dilations, ceil_mode)
    return build("lp_pool", x, **attrs, p=float(p))
