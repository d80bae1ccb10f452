"""Reductions over axes: sum, prod, max, min, any, all, argmax, argmin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import dtype
from ...base.errors import ShapeError
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import sub
from .common import (
    DTypeClass,
    Types,
    accumulate,
    builder,
    check_dtype,
    compute_tensor,
    define,
    double,
    extents,
    normalize_axes,
    normalize_axis,
    product,
    reduce_axes,
)
from .rearrange import flip
from .shape import reshape

Axes = int | Sequence[int] | None


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction.

    >>> reduced_shape((2, 3, 4), (1,), True), reduced_shape((2, 3, 4), (0, 2), False)
    ((2, 1, 4), (3,))
    """
    if keepdims:
        return tuple(1 if k in axes else extent for k, extent in enumerate(shape))
    return tuple(extent for k, extent in enumerate(shape) if k not in axes)


def full_index(
    index: Sequence[Any], reduced: Sequence[Any], axes: Sequence[int], keepdims: bool
) -> list[Any]:
    """The input index of an output index and the reduction axes."""
    rank = len(index) if keepdims else len(index) + len(axes)
    inner, outer = iter(reduced), iter(index)
    result: list[Any] = []
    for k in range(rank):
        if k not in axes:
            result.append(next(outer))
            continue
        if keepdims:
            next(outer)
        result.append(next(inner))
    return result


def _reduction(
    name: str,
    accepted: DTypeClass,
    reference: Callable[..., Any],
    choose: Callable[[bool], te.Reducer],
) -> None:
    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        check_dtype(types[0], accepted)
        axes = normalize_axes(attrs["axis"], len(types[0].shape))
        return [TensorType(reduced_shape(types[0].shape, axes, attrs["keepdims"]), types[0].dtype)]

    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        return [reference(double(arrays[0]), attrs["axis"], attrs["keepdims"], types[0])]

    def compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
        source, axes, keepdims = inputs[0], attrs["axis"], attrs["keepdims"]
        ks = reduce_axes([source.static_shape[axis] for axis in axes], product(source.static_shape))

        def value(*index: Any) -> Any:
            return source(*full_index(index, ks, axes, keepdims))

        reducer = choose(source.dtype.is_bool)
        return [accumulate(types[0], reducer, value, ks, name)]

    define(name, "reduction", infer, evaluate, compute)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Array, axes: tuple[int, ...], keepdims: bool, type_: TensorType) -> Any:
        kind = type_.dtype
        return function(x, axis=axes, keepdims=keepdims, dtype=None if kind.is_float else x.dtype)

    return reference


def _extreme(function: Callable[..., Any], worst: Callable[[str], Any]) -> Callable[..., Any]:
    """NumPy's maximum or minimum, and of nothing at all the identity."""

    def reference(x: Array, axes: tuple[int, ...], keepdims: bool, type_: TensorType) -> Any:
        if product([x.shape[axis] for axis in axes]) == 0:
            return np.full(type_.shape, worst(type_.dtype).value)
        return function(x, axis=axes, keepdims=keepdims)

    return reference


_reduction("reduce_sum", "number", _of(np.sum), lambda bools: te.sum)
_reduction("reduce_prod", "number", _of(np.prod), lambda bools: te.prod)
_reduction("reduce_max", "any", _extreme(np.max, te.lowest), lambda b: te.any if b else te.max)
_reduction("reduce_min", "any", _extreme(np.min, te.highest), lambda b: te.all if b else te.min)
_reduction("reduce_any", "bool", lambda x, axes, keep, t: np.any(x, axis=axes, keepdims=keep),
           lambda bools: te.any)  # fmt: skip
_reduction("reduce_all", "bool", lambda x, axes, keep, t: np.all(x, axis=axes, keepdims=keep),
           lambda bools: te.all)  # fmt: skip


# ---------------------------------------------------------------------------- argmax, argmin


def _infer_arg(types: Types, attrs: Attrs) -> list[TensorType]:
    check_dtype(types[0], "number")
    axis = normalize_axis(attrs["axis"], len(types[0].shape))
    result = TensorType(reduced_shape(types[0].shape, (axis,), attrs["keepdims"]), dtype("int64"))
    if types[0].shape[axis] == 0 and result.size:
        raise ShapeError(f"axis {axis} of {types[0]} has no elements to choose from")
    return [result]


def _arg(name: str, reference: Callable[..., Any], reducer: te.Reducer) -> None:
    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        if types[0].size == 0:
            return [np.zeros(types[0].shape)]
        return [reference(double(arrays[0]), attrs["axis"], keepdims=attrs["keepdims"])]

    def compute(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
        source, axes, keepdims = inputs[0], (attrs["axis"],), attrs["keepdims"]
        ks = reduce_axes([source.static_shape[axes[0]]], product(source.static_shape))

        def value(*index: Any) -> Any:
            k = ks[0].var
            best = source(*full_index(index, ks, axes, keepdims))
            return reducer((k, best), axis=ks)

        place = te.compute(extents(types[0].shape, ks), lambda *i: value(*i), name=name)[0]
        return [compute_tensor(types[0], lambda *i: place(*i).astype("int64"), f"{name}_cast")]

    define(name, "reduction", _infer_arg, evaluate, compute)


_arg("argmax", np.argmax, te.argmax)
_arg("argmin", np.argmin, te.argmin)


# ---------------------------------------------------------------------------- builders


def _reduce(name: str, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    return apply1(name, (x,), axis=normalize_axes(axis, x.ndim), keepdims=bool(keepdims))


@builder
def sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum over axes, in the type of `x` (narrow floats are accumulated in float32)."""
    return _reduce("reduce_sum", x, axis, keepdims)


@builder
def prod(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The product over axes, in the type of `x`."""
    return _reduce("reduce_prod", x, axis, keepdims)


@builder
def max(x: Tensor, axis: Axes = None, keepdims: bool = False, empty_ok: bool = False) -> Tensor:
    """The maximum over axes; NaN if there is one.

    The maximum of nothing is refused, or with `empty_ok` the least value of the type.
    """
    _check_not_empty(x, axis, empty_ok)
    return _reduce("reduce_max", x, axis, keepdims)


@builder
def min(x: Tensor, axis: Axes = None, keepdims: bool = False, empty_ok: bool = False) -> Tensor:
    """The minimum over axes; NaN if there is one. See `max` for the minimum of nothing."""
    _check_not_empty(x, axis, empty_ok)
    return _reduce("reduce_min", x, axis, keepdims)


def _check_not_empty(x: Tensor, axis: Axes, empty_ok: bool) -> None:
    axes = normalize_axes(axis, x.ndim)
    over = product([x.shape[k] for k in axes])
    if over == 0 and product(reduced_shape(x.shape, axes, False)) and not empty_ok:
        raise ShapeError(f"{x.type} has no elements along axis {list(axes)}")


@builder
def any(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether a bool holds somewhere along axes."""
    return _reduce("reduce_any", x, axis, keepdims)


@builder
def all(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether a bool holds everywhere along axes."""
    return _reduce("reduce_all", x, axis, keepdims)


@builder
def argmax(
    x: Tensor, axis: int | None = None, keepdims: bool = False, last: bool = False
) -> Tensor:
    """The index of the maximum (the first, or the last, of equal ones) as int64; NaN wins."""
    return _arg_builder("argmax", x, axis, keepdims, last)


@builder
def argmin(
    x: Tensor, axis: int | None = None, keepdims: bool = False, last: bool = False
) -> Tensor:
    """The index of the minimum (the first, or the last, of equal ones) as int64; NaN wins."""
    return _arg_builder("argmin", x, axis, keepdims, last)


def _arg_builder(name: str, x: Tensor, axis: int | None, keepdims: bool, last: bool) -> Tensor:
    if axis is None:
        flat = _arg_builder(name, reshape(x, [x.type.size]), 0, False, last)
        return reshape(flat, [1] * x.ndim) if keepdims else flat
    k = normalize_axis(axis, x.ndim)
    if not last:
        return apply1(name, (x,), axis=k, keepdims=bool(keepdims))
    return sub(x.shape[k] - 1, apply1(name, (flip(x, k),), axis=k, keepdims=bool(keepdims)))
