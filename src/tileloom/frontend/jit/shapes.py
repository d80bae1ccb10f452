"""Array-API functions that move and multiply arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, ShapeError
from ...graph import ops
from ...graph.nodes import Tensor, as_extent
from ...graph.ops.common import normalize_axis
from ...graph.symbols import is_symbolic
from .array import Array, ArrayLike, Axis, as_type, lift, promote
from .indexing import known_in_range
from .public import public

Shape = int | Sequence[int]


def shape_of(shape: Shape) -> tuple[int, ...]:
    """A shape as it was given, or as one extent."""
    single = isinstance(shape, (int, np.integer)) or is_symbolic(shape)
    return tuple(map(as_extent, (shape,) if single else shape))  # type: ignore[arg-type]


def together(arrays: Sequence[ArrayLike]) -> list[Tensor]:
    """Arrays in the type that all of them are promoted to."""
    lifted = [lift(a) for a in arrays]
    kind = promote(*lifted)
    return [as_type(a, kind) for a in lifted]


# ---------------------------------------------------------------------------- moving


@public
def reshape(x: ArrayLike, /, shape: Shape, *, order: str = "C") -> Array:
    """The elements under another shape, one extent of which may be -1.

    Args:
        order: "C" counts elements along the last axis first, "F" along the first one.
    """
    tensor = lift(x).tensor
    if order in ("C", "A"):
        return Array(ops.reshape(tensor, shape_of(shape)))
    if order != "F":
        raise ArgumentError(f"the order of elements is 'C', 'A' or 'F', not {order!r}")
    columns = ops.reshape(ops.transpose(tensor, None), shape_of(shape)[::-1])
    return Array(ops.transpose(columns, None))


@public
def permute_dims(x: ArrayLike, /, axes: Sequence[int]) -> Array:
    """The dimensions in another order."""
    return Array(ops.transpose(lift(x).tensor, tuple(axes)))


@public
def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """The dimensions in another order; reversed unless told."""
    return Array(ops.transpose(lift(x).tensor, None if axes is None else tuple(axes)))


@public
def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two dimensions exchanged."""
    return Array(ops.swapaxes(lift(x).tensor, -1, -2))


@public
def moveaxis(x: ArrayLike, source: int, destination: int, /) -> Array:
    """A dimension moved to another place."""
    return Array(ops.moveaxis(lift(x).tensor, source, destination))


@public
def swapaxes(x: ArrayLike, axis1: int, axis2: int, /) -> Array:
    """Two dimensions exchanged."""
    return Array(ops.swapaxes(lift(x).tensor, axis1, axis2))


@public
def expand_dims(x: ArrayLike, /, *, axis: int | Sequence[int] = 0) -> Array:
    """Dimensions of extent 1 inserted."""
    return Array(ops.expand_dims(lift(x).tensor, axis))


@public
def squeeze(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Dimensions of extent 1 taken out."""
    return Array(ops.squeeze(lift(x).tensor, axis))


@public
def broadcast_to(x: ArrayLike, /, shape: Shape) -> Array:
    """The array repeated along dimensions of extent 1 and new ones."""
    return Array(ops.broadcast_to(lift(x).tensor, shape_of(shape)))


@public
def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """All arrays under the one shape that they broadcast to."""
    return [Array(t) for t in ops.broadcast_arrays(*(lift(a).tensor for a in arrays))]


@public
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Arrays one after another along an axis; None flattens them first."""
    tensors = together(arrays)
    if axis is None:
        tensors = [ops.reshape(t, (t.type.size,)) for t in tensors]
    return Array(ops.concat(tensors, axis or 0))


@public
def stack(arrays: Sequence[ArrayLike], /, *, axis: int = 0) -> Array:
    """Arrays along a new axis."""
    return Array(ops.stack(together(arrays), axis))


@public
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    return tuple(Array(t) for t in ops.unstack(lift(x).tensor, axis))


@public
def split(x: ArrayLike, parts: int | Sequence[int], /, *, axis: int = 0) -> list[Array]:
    """Equal parts along an axis, or parts that end before the given positions (as in NumPy)."""
    tensor = lift(x).tensor
    if isinstance(parts, int):
        if parts < 1 or tensor.shape[axis] % parts:
            raise ShapeError(f"{tensor.type} has no {parts} equal parts along axis {axis}")
        return [Array(t) for t in ops.split(tensor, parts, axis)]
    ends = [*parts, tensor.shape[axis]]
    sizes = [end - begin for begin, end in zip([0, *parts], ends, strict=True)]
    return [Array(t) for t in ops.split(tensor, sizes, axis)]


@public
def flip(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """The order of elements reversed along axes."""
    return Array(ops.flip(lift(x).tensor, axis))


@public
def roll(x: ArrayLike, /, shift: int | Sequence[int], *, axis: Axis = None) -> Array:
    """Elements moved along axes, round the end."""
    return Array(ops.roll(lift(x).tensor, shift, axis))


@public
def tile(x: ArrayLike, repetitions: Shape, /) -> Array:
    """The array repeated as a whole, so often along each of the last axes (or of new ones)."""
    tensor, counts = lift(x).tensor, shape_of(repetitions)
    counts = (1,) * (tensor.ndim - len(counts)) + counts
    whole = ops.reshape(tensor, (1,) * (len(counts) - tensor.ndim) + tensor.shape)
    return Array(ops.tile(whole, counts))


@public
def repeat(x: ArrayLike, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element repeated; `repeats` may say for each how often, as integers known beforehand."""
    tensor = lift(x).tensor
    if isinstance(repeats, (int, np.integer)):
        return Array(ops.repeat(tensor, int(repeats), axis))
    if is_symbolic(repeats):
        return Array(ops.repeat(tensor, repeats, axis))
    counts = np.asarray(repeats)
    if axis is None:
        tensor = ops.reshape(tensor, (tensor.type.size,))
    along = normalize_axis(axis or 0, tensor.ndim)
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ArgumentError(f"repeats are integers that are not negative, got {repeats!r}")
    if counts.ndim > 1 or counts.size not in (1, tensor.shape[along]):
        raise ShapeError(f"{counts.shape} repeats for axis {along} of {tensor.type}")
    places = np.repeat(np.arange(tensor.shape[along]), counts)
    return Array(ops.gather(tensor, ops.constant(places), along))


@public
def pad(x: ArrayLike, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Array:
    """Elements added before and after each axis (modes constant, edge, reflect, wrap)."""
    array = lift(x)
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return Array(ops.pad(array.tensor, [tuple(w) for w in widths], mode, constant_values))


@public
def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None) -> Array:
    """Slices at the given positions; negative ones count from the end."""
    tensor = lift(x).tensor
    if axis is None:
        tensor, axis = ops.reshape(tensor, (tensor.type.size,)), 0
    axis = normalize_axis(axis, tensor.ndim)
    places = lift(indices).tensor
    slices = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
    if 0 not in slices or not places.dtype.is_int:  # NumPy does not look where nothing is taken
        places = known_in_range(places, tensor.shape[axis], axis)
    return Array(ops.gather(tensor, places, axis))


@public
def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> Array:
    """For each position along the other axes, the elements at the given indices."""
    tensor = lift(x).tensor
    axis = normalize_axis(axis, tensor.ndim)
    places = known_in_range(lift(indices).tensor, tensor.shape[axis], axis)
    return Array(ops.take_along_axis(tensor, places, axis))


@public
def tril(x: ArrayLike, /, *, k: int = 0) -> Array:
    """Zeros above the k-th diagonal."""
    return Array(ops.tril(lift(x).tensor, k))


@public
def triu(x: ArrayLike, /, *, k: int = 0) -> Array:
    """Zeros below the k-th diagonal."""
    return Array(ops.triu(lift(x).tensor, k))


@public
def sort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False) -> Array:
    """The elements in order along an axis."""
    return Array(ops.sort(lift(x).tensor, axis, descending))


@public
def argsort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False) -> Array:
    """The positions of the elements in order along an axis."""
    return Array(ops.argsort(lift(x).tensor, axis, descending))


def _strong(value: Any) -> Array:
    """An array of a value, in which numbers have the width that NumPy's arrays of them have."""
    array = lift(value)
    return Array(array.tensor) if array.weak else array


@public
def diff(
    x: ArrayLike,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Differences of neighbours along an axis, `n` times over, with more elements at the ends."""
    if n < 0:
        raise ArgumentError(f"differences are taken n >= 0 times, not {n}")
    if n == 0:
        return lift(x)
    given = [_strong(part) for part in (prepend, x, append) if part is not None]
    tensors = together(given)
    tensor = tensors[prepend is not None]
    along = normalize_axis(axis, tensor.ndim)
    one = (*tensor.shape[:along], 1, *tensor.shape[along + 1 :])
    parts = [t if t.ndim else ops.broadcast_to(t, one) for t in tensors]
    tensor = ops.concat(parts, along) if len(parts) > 1 else tensor
    subtract = ops.not_equal if tensor.dtype.is_bool else ops.sub
    for _ in range(n):
        later = ops.strided_slice(tensor, (1,), (tensor.shape[along],), (along,))
        earlier = ops.strided_slice(tensor, (0,), (-1,), (along,))
        tensor = subtract(later, earlier)
    return Array(tensor)


@public
def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> list[Array]:
    """One array for each coordinate, over the grid of all combinations."""
    tensors = [lift(a).tensor for a in arrays]
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(tensors)
    for place, tensor in zip(places, tensors, strict=True):
        shape[place] = tensor.type.size
    grids = []
    for place, tensor in zip(places, tensors, strict=True):
        ones = [1] * len(shape)
        ones[place] = shape[place]
        grids.append(Array(ops.broadcast_to(ops.reshape(tensor, ones), shape)))
    return grids


# ---------------------------------------------------------------------------- products


@public
def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The matrix product, with batches broadcast."""
    a, b = together([x1, x2])
    return Array(ops.matmul(a, b))


@public
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis."""
    a, b = together([x1, x2])
    return Array(ops.sum(ops.mul(a, b), (axis,), False))


@public
def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: Any = 2) -> Array:
    """The sum of products over pairs of axes."""
    a, b = together([x1, x2])
    if isinstance(axes, int):
        axes = (list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    left, right = ([n % t.ndim for n in side] for t, side in zip((a, b), axes, strict=True))
    keep_a = [n for n in range(a.ndim) if n not in left]
    keep_b = [n for n in range(b.ndim) if n not in right]
    depth = math.prod(a.shape[n] for n in left)
    rows = ops.reshape(ops.transpose(a, keep_a + left), (-1, depth))
    columns = ops.reshape(ops.transpose(b, right + keep_b), (depth, -1))
    shape = [a.shape[n] for n in keep_a] + [b.shape[n] for n in keep_b]
    return Array(ops.reshape(ops.matmul(rows, columns), shape))


@public
def einsum(equation: str, /, *operands: ArrayLike) -> Array:
    """Einstein's summation."""
    return Array(ops.einsum(equation, *together(operands)))
