"""Ops that run on the host: sorting, scatters, linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtype
from ...base.errors import ArgumentError, ShapeError, UserError
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .common import (
    Types,
    builder,
    check_dtype,
    check_rank,
    define,
    double,
    normalize_axis,
    same_dtype,
    widen,
)
from .gather import bounded


def _same(types: Types, attrs: Attrs) -> list[TensorType]:
    return [types[0]]


# ---------------------------------------------------------------------------- order


def order(x: Array, axis: int, descending: bool) -> Any:
    """The stable sorting permutation; NaN counts as the greatest value, as in NumPy."""
    x = widen(x)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # Reversed twice, so that equal elements keep their order.
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _sorted(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    picks = order(arrays[0], attrs["axis"], attrs["descending"])
    return [np.take_along_axis(arrays[0], picks, attrs["axis"])]


def _infer_argsort(types: Types, attrs: Attrs) -> list[TensorType]:
    return [TensorType(types[0].shape, dtype("int64"))]


define("sort", "opaque", _same, _sorted)
define(
    "argsort",
    "opaque",
    _infer_argsort,
    lambda arrays, attrs, types: [order(arrays[0], attrs["axis"], attrs["descending"])],
)


@builder
def sort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The elements in order along an axis."""
    k = normalize_axis(axis, x.ndim)
    return apply1("sort", (x,), axis=k, descending=bool(descending))


@builder
def argsort(x: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices that sort along an axis, as int64; equal elements keep their order."""
    k = normalize_axis(axis, x.ndim)
    return apply1("argsort", (x,), axis=k, descending=bool(descending))


# ---------------------------------------------------------------------------- scatter

_REDUCE: dict[str, Any] = {
    "none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _check_scatter(types: Types, attrs: Attrs) -> None:
    same_dtype((types[0], types[2]))
    check_dtype(types[1], "integer", "the indices")
    if attrs["reduction"] not in _REDUCE:
        raise UserError(f"unknown reduction {attrs['reduction']!r}",
                        hint=f"one of {', '.join(_REDUCE)}")  # fmt: skip


def _infer_scatter_elements(types: Types, attrs: Attrs) -> list[TensorType]:
    data, indices, updates = types
    _check_scatter(types, attrs)
    if indices.shape != updates.shape or len(indices.shape) != len(data.shape):
        raise ShapeError(f"indices {indices} and updates {updates} do not fit data {data}")
    for k, (have, want) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if k != attrs["axis"] and want > have:
            raise ShapeError(f"indices {indices} exceed axis {k} of data {data}")
    return [data]


def _scatter(data: Array, at: Any, updates: Array, reduction: str) -> Array:
    wide = widen(data).copy()
    if reduction == "none":
        wide[at] = updates
    else:
        _REDUCE[reduction].at(wide, at, updates.astype(wide.dtype))
    return wide


def _reference_scatter_elements(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    data, indices, updates = arrays
    at = list(np.indices(indices.shape))
    at[attrs["axis"]] = bounded(indices, data.shape[attrs["axis"]])
    return [_scatter(data, tuple(at), updates, attrs["reduction"])]


def _infer_scatter_nd(types: Types, attrs: Attrs) -> list[TensorType]:
    data, indices, updates = types
    _check_scatter(types, attrs)
    check_rank(indices, 1, "the indices")
    depth = indices.shape[-1]
    wanted = (*indices.shape[:-1], *data.shape[depth:])
    if depth > len(data.shape) or updates.shape != wanted:
        raise ShapeError(f"indices {indices} and updates {updates} do not fit data {data}")
    return [data]


def _reference_scatter_nd(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    data, indices, updates = arrays
    depth = indices.shape[-1]
    at = tuple(bounded(indices[..., k], data.shape[k]) for k in range(depth))
    return [_scatter(data, at if at else ..., updates, attrs["reduction"])]


define("scatter_elements", "opaque", _infer_scatter_elements, _reference_scatter_elements)
define("scatter_nd", "opaque", _infer_scatter_nd, _reference_scatter_nd)


@builder
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """`data` with data[i, indices[i, j], ...] = updates[i, j, ...] (or combined) for axis 1."""
    k = normalize_axis(axis, data.ndim)
    return apply1("scatter_elements", (data, indices, updates), axis=k, reduction=reduction)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    """`data` with the slices at the index tuples in the last axis of `indices` replaced."""
    return apply1("scatter_nd", (data, indices, updates), reduction=reduction)


# ---------------------------------------------------------------------------- linear algebra


def _check_square(types: Types) -> None:
    check_dtype(types[0], "float")
    check_rank(types[0], 2)
    if types[0].shape[-1] != types[0].shape[-2]:
        raise ShapeError(f"needs square matrices, got {types[0]}")


def _infer_det(types: Types, attrs: Attrs) -> list[TensorType]:
    _check_square(types)
    return [TensorType(types[0].shape[:-2], types[0].dtype)]


def _infer_inverse(types: Types, attrs: Attrs) -> list[TensorType]:
    _check_square(types)
    return [types[0]]


def _reference_inverse(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    try:
        return [np.linalg.inv(double(arrays[0]))]
    except np.linalg.LinAlgError as error:
        raise ArgumentError(f"inverse: {error}") from error


define(
    "det",
    "opaque",
    _infer_det,
    lambda arrays, attrs, types: [np.linalg.det(double(arrays[0]))],
)
define("inverse", "opaque", _infer_inverse, _reference_inverse)


def det(x: Tensor) -> Tensor:
    """The determinant of the matrices in the last two dimensions."""
    return apply1("det", (x,))


def inverse(x: Tensor) -> Tensor:
    """The inverse of the matrices in the last two dimensions."""
    return apply1("inverse", (x,))
