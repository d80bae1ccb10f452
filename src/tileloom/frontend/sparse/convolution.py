"""Convolutions of sparse images: point clouds and voxels, in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, DTypeError, ShapeError
from ...base.record import Record
from ...sparse.arrays import dense, requires_grad
from .rgms import Relations, relations_of, rgms

Array = np.ndarray[Any, Any]


class ConvolutionMap(Record):
    """Which points a convolution joins, for each offset of its kernel.

    Attributes:
        relations: for each offset, in row-major order, which input point each output point takes.
        coords: of the output points, of shape (points, 1 + dimensions).
        kernel_size: in each dimension.
    """

    relations: Relations
    coords: Array
    kernel_size: tuple[int, ...]


def convolution_map(
    coords: Any,
    kernel_size: int | Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    submanifold: bool = False,
) -> ConvolutionMap:
    """Which input points each output point of a sparse convolution takes in.

    Output point `p` takes input point `p * stride + k * dilation - padding` with the weights of
    offset `k`. Outputs are all points that take something in; in a submanifold convolution they are
    the inputs, and the kernel stands with its middle on them.

    Args:
        coords: integers of shape (points, 1 + dimensions); the first column says which image of a
            batch a point is of. No point may occur twice.
        kernel_size, stride, padding, dilation: one number, or one for each dimension.
        submanifold: the outputs are the inputs; stride and padding are as they have to be.

    Raises:
        ShapeError: the arguments differ in their number of dimensions.
        ArgumentError: a point occurs twice, or a number is out of range.

    Source: submanifold sparse convolution (Graham and van der Maaten, 2017).

    >>> found = convolution_map([[0, 1], [0, 2], [0, 5]], 3, submanifold=True)
    >>> found.relations.rows.tolist(), found.relations.columns.tolist()
    ([1, 0, 1, 2, 0], [0, 0, 1, 2, 1])
    """
    points = np.asarray(coords)
    if points.ndim != 2 or points.shape[1] < 2 or points.dtype.kind not in "iu":
        raise ShapeError(
            f"coords are integers of shape (points, 1 + dimensions), not {points.dtype} of shape "
            f"{points.shape}"
        )
    points = points.astype(np.int64)
    rank = points.shape[1] - 1
    size = _per_dimension("kernel_size", kernel_size, rank, 1)
    steps = _per_dimension("dilation", dilation, rank, 1)
    if submanifold:
        stride, padding = 1, [k // 2 * d for k, d in zip(size, steps, strict=True)]
    strides = _per_dimension("stride", stride, rank, 1)
    pads = _per_dimension("padding", padding, rank, 0)
    offsets = np.indices(size).reshape(rank, -1).T * steps - pads
    index = _Index(points)
    if submanifold:
        outputs = points
    else:
        outputs = _reached(points, offsets, np.array(strides))
    sources = [
        index.find(np.hstack([outputs[:, :1], outputs[:, 1:] * strides + offset]))
        for offset in offsets
    ]
    rows = [np.flatnonzero(found >= 0) for found in sources]
    columns = np.concatenate([found[own] for found, own in zip(sources, rows, strict=True)])
    shape = (len(offsets), len(outputs), len(points))
    ones = np.ones(len(columns), np.float32)
    joined = np.concatenate(rows)
    found = relations_of(
        [len(own) for own in rows], joined, np.ones(len(joined), np.int64), columns, ones, shape
    )
    return ConvolutionMap(found, outputs, size)


def sparse_conv(points: ConvolutionMap, x: Any, w: Any, out: Any = None) -> Any:
    """A sparse convolution: features of the output points of a map.

    Args:
        points: made by `convolution_map`, once for all layers over the same points.
        x: features of the input points, of shape (inputs, channels).
        w: weights of shape (*kernel_size, channels, channels out), or with the dimensions of the
            kernel as one.
        out: a row-major array of shape (outputs, channels out) for the result.

    Returns:
        `out`, or a new array: a tensor where `x` is one.

    For tensors that require gradients these are recorded.

    >>> found = convolution_map([[0, 1], [0, 2], [0, 5]], 3, submanifold=True)
    >>> x, w = np.array([[1], [2], [3]], "float32"), np.ones((3, 1, 1), "float32")
    >>> sparse_conv(found, x, w).ravel().tolist()
    [3.0, 3.0, 3.0]
    """
    weights = dense(w, what="w").array
    count = len(points.relations)
    if weights.shape[:-2] not in (points.kernel_size, (count,)):
        raise ShapeError(
            f"w has shape {weights.shape}; of a kernel of size {points.kernel_size} it is "
            f"({', '.join(map(str, points.kernel_size))}, channels, channels out)"
        )
    flat = (w if requires_grad(w) else weights).reshape(count, *weights.shape[-2:])
    found = points.relations
    kind = np.result_type(dense(x, what="x").array, weights)
    if kind.kind != "f":
        raise DTypeError(f"sparse_conv computes with floating-point numbers, not {kind}")
    if found.values.dtype != kind:
        found = found.replace(values=found.values.astype(kind))
    return rgms(found, x, flat, out)


def _per_dimension(name: str, value: int | Sequence[int], rank: int, least: int) -> tuple[int, ...]:
    values = (value,) * rank if isinstance(value, int) else tuple(map(int, value))
    if len(values) != rank:
        raise ShapeError(f"{name} has {len(values)} numbers for {rank} dimensions")
    if min(values) < least:
        raise ArgumentError(f"{name} is {min(values)}; it is at least {least}")
    return values


def _reached(points: Array, offsets: Array, strides: Array) -> Array:
    """The points that take in at least one of the inputs, in ascending order."""
    found = []
    for offset in offsets:
        moved = points[:, 1:] - offset
        whole = (moved % strides == 0).all(axis=1)
        found.append(np.hstack([points[whole, :1], moved[whole] // strides]))
    return np.unique(np.concatenate(found), axis=0)


class _Index:
    """Finds the positions of points."""

    def __init__(self, points: Array) -> None:
        self.low = points.min(axis=0) if len(points) else np.zeros(points.shape[1], np.int64)
        high = points.max(axis=0) if len(points) else self.low
        self.extent = high - self.low + 1
        if float(np.prod(self.extent.astype(np.float64))) >= 2.0**62:
            raise ArgumentError(f"the points span {self.extent.tolist()}: that is too far apart")
        keys = self._keys(points)
        self.order = np.argsort(keys, kind="stable")
        self.sorted = keys[self.order]
        twice = np.flatnonzero(self.sorted[1:] == self.sorted[:-1])
        if len(twice):
            first, second = self.order[twice[0] : twice[0] + 2]
            raise ArgumentError(
                f"point {points[first].tolist()} occurs twice, at {first} and {second}"
            )

    def _keys(self, points: Array) -> Array:
        keys: Array = np.zeros(len(points), np.int64)
        for part, low, extent in zip(points.T, self.low, self.extent, strict=True):
            keys = keys * extent + (part - low)
        return keys

    def find(self, points: Array) -> Array:
        """The position of each point, -1 where there is no such."""
        inside = ((points >= self.low) & (points < self.low + self.extent)).all(axis=1)
        keys = self._keys(points)
        place = np.minimum(np.searchsorted(self.sorted, keys), max(0, len(self.sorted) - 1))
        found: Array = np.full(len(points), -1, np.int64)
        if len(self.sorted):
            same = inside & (self.sorted[place] == keys)
            found[same] = self.order[place[same]]
        return found
