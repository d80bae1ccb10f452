"""Reading at computed places: gather, gather_elements, gather_nd, take, one_hot.

An index below 0 counts from the end. An index out of range is moved to the nearest element, as
compiled code must never read outside a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base.errors import ShapeError
from ...expr import LT, Expr, Max, Min, binary, const
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply1
from .binary import add, equal, less
from .choose import cast, where
from .common import (
    Operand,
    Types,
    builder,
    check_dtype,
    check_rank,
    compute_tensor,
    constant,
    define,
    index_kind,
    normalize_axis,
    product,
)
from .constants import iota
from .rearrange import expand_dims
from .shape import broadcast_to, reshape


def bounded(index: Array, extent: int) -> Array:
    """Indices wrapped and moved into range."""
    wide = index.astype(np.int64)
    result: Array = np.clip(np.where(wide < 0, wide + extent, wide), 0, max(extent - 1, 0))
    return result


def _bound(index: Expr, extent: int) -> Expr:
    """The same as an expression, as an index of the usual type."""
    kind = index.dtype if index.dtype.bits >= 32 else "int32"
    if index.dtype.is_unsigned or index_kind(extent) == "int64":
        kind = "int64"
    i = index.astype(kind)
    wrapped = te.select(binary(LT, i, const(0, kind)), i + const(extent, kind), i)
    inside = binary(Max, binary(Min, wrapped, const(extent - 1, kind)), const(0, kind))
    return inside.astype(index_kind(extent))


def _check_indices(types: Types, read: Sequence[int], size: int) -> None:
    check_dtype(types[1], "integer", "the indices")
    if product(read) == 0 and size:
        raise ShapeError(f"{types[0]} has no elements to gather")


def _infer_gather(types: Types, attrs: Attrs) -> list[TensorType]:
    data, indices = types
    axis = attrs["axis"]
    check_rank(data, axis + 1, "the data")
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    _check_indices(types, data.shape[axis : axis + 1], product(shape))
    return [TensorType(shape, data.dtype)]


def _reference_gather(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    data, indices = arrays
    if types[0].size == 0:
        return [np.zeros(types[0].shape, data.dtype)]
    return [np.take(data, bounded(indices, data.shape[attrs["axis"]]), attrs["axis"])]


def _compute_gather(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    data, indices = inputs
    axis, rank = attrs["axis"], indices.ndim
    extent = data.static_shape[axis]

    def body(*index: Any) -> Expr:
        place = _bound(indices(*index[axis : axis + rank]), extent)
        return data(*index[:axis], place, *index[axis + rank :])

    return [compute_tensor(types[0], body, "gather")]


define("gather", "injective", _infer_gather, _reference_gather, _compute_gather)


def _infer_elements(types: Types, attrs: Attrs) -> list[TensorType]:
    data, indices = types
    axis = attrs["axis"]
    if len(data.shape) != len(indices.shape):
        raise ShapeError(f"the indices {indices} need as many dimensions as the data {data}")
    for k, (have, want) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if k != axis and want > have:
            raise ShapeError(f"the indices {indices} exceed axis {k} of the data {data}")
    _check_indices(types, data.shape[axis : axis + 1], indices.size)
    return [TensorType(indices.shape, data.dtype)]


def _reference_elements(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    data, indices = arrays
    axis = attrs["axis"]
    inner = tuple(slice(n if k != axis else None) for k, n in enumerate(indices.shape))
    if types[0].size == 0:
        return [np.zeros(types[0].shape, data.dtype)]
    return [np.take_along_axis(data[inner], bounded(indices, data.shape[axis]), axis)]


def _compute_elements(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    data, indices = inputs
    axis = attrs["axis"]

    def body(*index: Any) -> Expr:
        at = list(index)
        at[axis] = _bound(indices(*index), data.static_shape[axis])
        return data(*at)

    return [compute_tensor(types[0], body, "gather_elements")]


define("gather_elements", "injective", _infer_elements, _reference_elements, _compute_elements)


def _infer_nd(types: Types, attrs: Attrs) -> list[TensorType]:
    data, indices = types
    batch = attrs["batch_dims"]
    check_rank(indices, batch + 1, "the indices")
    depth = indices.shape[-1]
    if data.shape[:batch] != indices.shape[:batch] or batch + depth > len(data.shape):
        raise ShapeError(f"indices {indices} with {batch} batch dimensions do not fit {data}")
    shape = (*indices.shape[:-1], *data.shape[batch + depth :])
    _check_indices(types, data.shape[batch : batch + depth], product(shape))
    return [TensorType(shape, data.dtype)]


def _reference_nd(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    data, indices = arrays
    batch, depth = attrs["batch_dims"], indices.shape[-1]
    if types[0].size == 0:
        return [np.zeros(types[0].shape, data.dtype)]
    rank = indices.ndim - 1
    grid = [
        np.arange(n).reshape([-1 if k == j else 1 for j in range(rank)])
        for k, n in enumerate(indices.shape[:batch])
    ]
    picks = [bounded(indices[..., k], data.shape[batch + k]) for k in range(depth)]
    return [data[(*grid, *picks)] if grid or picks else np.broadcast_to(data, types[0].shape)]


def _compute_nd(inputs: Sequence[te.Tensor], attrs: Attrs, types: Types) -> list[te.Tensor]:
    data, indices = inputs
    batch, rank = attrs["batch_dims"], indices.ndim - 1
    depth, shape = indices.static_shape[-1], data.static_shape

    def body(*index: Any) -> Expr:
        place = [_bound(indices(*index[:rank], k), shape[batch + k]) for k in range(depth)]
        return data(*index[:batch], *place, *index[rank:])

    return [compute_tensor(types[0], body, "gather_nd")]


define("gather_nd", "injective", _infer_nd, _reference_nd, _compute_nd)


@builder
def gather(data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """`data` at the indices along an axis; the index's dimensions stand where the axis was."""
    return apply1("gather", (data, indices), axis=normalize_axis(axis, data.ndim))


def take(data: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """`gather`; without an axis, of the flattened data."""
    if axis is None:
        return gather(reshape(data, [data.type.size]), indices, 0)
    return gather(data, indices, axis)


@builder
def gather_elements(data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """out[i, j, k] = data[i, indices[i, j, k], k] for axis 1, and so on."""
    return apply1("gather_elements", (data, indices), axis=normalize_axis(axis, data.ndim))


@builder
def take_along_axis(data: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """`gather_elements` of operands broadcast against each other outside the axis."""
    k = normalize_axis(axis, data.ndim)
    outside = [list(x.shape) for x in (data, indices)]
    lengths = [shape[k] for shape in outside]
    common = [max(pair) if 0 not in pair else 0 for pair in zip(*outside, strict=True)]
    wide = [
        broadcast_to(x, [*common[:k], length, *common[k + 1 :]])
        for x, length in zip((data, indices), lengths, strict=True)
    ]
    return gather_elements(wide[0], wide[1], k)


def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """The slices of `data` at the index tuples in the last axis of `indices`."""
    return apply1("gather_nd", (data, indices), batch_dims=int(batch_dims))


@builder
def one_hot(
    indices: Tensor, depth: int, on: Operand = 1, off: Operand = 0,
    axis: int = -1, dtype_: str = "float32",
) -> Tensor:  # fmt: skip
    """`on` at the index along a new axis, `off` elsewhere; indices out of range have no `on`.

    Args:
        dtype_: the type of numbers among `on` and `off`.
    """
    k = normalize_axis(axis, indices.ndim + 1)
    check_dtype(indices.type, "integer", "the indices")
    wide = cast(indices, "int64")
    wrapped = where(less(wide, 0), add(wide, depth), wide)
    shape = [1] * (indices.ndim + 1)
    shape[k] = depth
    hit = equal(expand_dims(wrapped, k), iota(shape, k))
    values = (v if isinstance(v, Tensor) else constant(v, dtype_) for v in (on, off))
    return where(hit, *values)
