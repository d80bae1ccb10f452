"""Array-API functions that move, make and multiply arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import dtype
from ...base.errors import ArgumentError, ShapeError
from ...graph import ops
from ...graph.nodes import Tensor, as_extent
from ...graph.ops.common import normalize_axis
from ...graph.symbols import is_symbolic
from .array import Array, as_type, lift, promote
from .functions import Axis, public
from .indexing import known_in_range

Shape = int | Sequence[int]


def _shape(shape: Shape) -> tuple[int, ...]:
    single = isinstance(shape, (int, np.integer)) or is_symbolic(shape)
    return tuple(map(as_extent, (shape,) if single else shape))  # type: ignore[arg-type]


def together(arrays: Sequence[Any]) -> list[Tensor]:
    """Arrays in the type that all of them are promoted to."""
    lifted = [lift(a) for a in arrays]
    kind = promote(*lifted)
    return [as_type(a, kind) for a in lifted]


# ---------------------------------------------------------------------------- moving


@public
def reshape(x: Any, /, shape: Shape, *, order: str = "C") -> Array:
    """The elements under another shape, one extent of which may be -1.

    Args:
        order: "C" counts elements along the last axis first, "F" along the first one.
    """
    tensor = lift(x).tensor
    if order in ("C", "A"):
        return Array(ops.reshape(tensor, _shape(shape)))
    if order != "F":
        raise ArgumentError(f"the order of elements is 'C', 'A' or 'F', not {order!r}")
    columns = ops.reshape(ops.transpose(tensor, None), _shape(shape)[::-1])
    return Array(ops.transpose(columns, None))


@public
def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """The dimensions in another order."""
    return Array(ops.transpose(lift(x).tensor, tuple(axes)))


@public
def transpose(x: Any, /, axes: Sequence[int] | None = None) -> Array:
    """The dimensions in another order; reversed unless told."""
    return Array(ops.transpose(lift(x).tensor, None if axes is None else tuple(axes)))


@public
def matrix_transpose(x: Any, /) -> Array:
    """The last two dimensions exchanged."""
    return Array(ops.swapaxes(lift(x).tensor, -1, -2))


@public
def moveaxis(x: Any, source: int, destination: int, /) -> Array:
    """A dimension moved to another place."""
    return Array(ops.moveaxis(lift(x).tensor, source, destination))


@public
def swapaxes(x: Any, axis1: int, axis2: int, /) -> Array:
    """Two dimensions exchanged."""
    return Array(ops.swapaxes(lift(x).tensor, axis1, axis2))


@public
def expand_dims(x: Any, /, *, axis: int | Sequence[int] = 0) -> Array:
    """Dimensions of extent 1 inserted."""
    return Array(ops.expand_dims(lift(x).tensor, axis))


@public
def squeeze(x: Any, /, axis: Axis = None) -> Array:
    """Dimensions of extent 1 taken out."""
    return Array(ops.squeeze(lift(x).tensor, axis))


@public
def broadcast_to(x: Any, /, shape: Shape) -> Array:
    """The array repeated along dimensions of extent 1 and new ones."""
    return Array(ops.broadcast_to(lift(x).tensor, _shape(shape)))


@public
def broadcast_arrays(*arrays: Any) -> list[Array]:
    """All arrays under the one shape that they broadcast to."""
    return [Array(t) for t in ops.broadcast_arrays(*(lift(a).tensor for a in arrays))]


@public
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """Arrays one after another along an axis; None flattens them first."""
    tensors = together(arrays)
    if axis is None:
        tensors = [ops.reshape(t, (t.type.size,)) for t in tensors]
    return Array(ops.concat(tensors, axis or 0))


@public
def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Array:
    """Arrays along a new axis."""
    return Array(ops.stack(together(arrays), axis))


@public
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    return tuple(Array(t) for t in ops.unstack(lift(x).tensor, axis))


@public
def split(x: Any, parts: int | Sequence[int], /, *, axis: int = 0) -> list[Array]:
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
def flip(x: Any, /, *, axis: Axis = None) -> Array:
    """The order of elements reversed along axes."""
    return Array(ops.flip(lift(x).tensor, axis))


@public
def roll(x: Any, /, shift: int | Sequence[int], *, axis: Axis = None) -> Array:
    """Elements moved along axes, round the end."""
    return Array(ops.roll(lift(x).tensor, shift, axis))


@public
def tile(x: Any, repetitions: Sequence[int], /) -> Array:
    """The array repeated as a whole."""
    return Array(ops.tile(lift(x).tensor, tuple(repetitions)))


@public
def repeat(x: Any, repeats: int, /, *, axis: int | None = None) -> Array:
    """Each element repeated."""
    return Array(ops.repeat(lift(x).tensor, repeats, axis))


@public
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0) -> Array:
    """Elements added before and after each axis (modes constant, edge, reflect, wrap)."""
    array = lift(x)
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    return Array(ops.pad(array.tensor, [tuple(w) for w in widths], mode, constant_values))


@public
def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """Slices at the given positions; negative ones count from the end."""
    tensor = lift(x).tensor
    if axis is None:
        tensor, axis = ops.reshape(tensor, (tensor.type.size,)), 0
    axis = normalize_axis(axis, tensor.ndim)
    return Array(
        ops.gather(tensor, known_in_range(lift(indices).tensor, tensor.shape[axis], axis), axis)
    )


@public
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Array:
    """For each position along the other axes, the elements at the given indices."""
    tensor = lift(x).tensor
    axis = normalize_axis(axis, tensor.ndim)
    places = known_in_range(lift(indices).tensor, tensor.shape[axis], axis)
    return Array(ops.take_along_axis(tensor, places, axis))


@public
def tril(x: Any, /, *, k: int = 0) -> Array:
    """Zeros above the k-th diagonal."""
    return Array(ops.tril(lift(x).tensor, k))


@public
def triu(x: Any, /, *, k: int = 0) -> Array:
    """Zeros below the k-th diagonal."""
    return Array(ops.triu(lift(x).tensor, k))


@public
def sort(x: Any, /, *, axis: int = -1, descending: bool = False) -> Array:
    """The elements in order along an axis."""
    return Array(ops.sort(lift(x).tensor, axis, descending))


@public
def argsort(x: Any, /, *, axis: int = -1, descending: bool = False) -> Array:
    """The positions of the elements in order along an axis."""
    return Array(ops.argsort(lift(x).tensor, axis, descending))


@public
def cumulative_sum(x: Any, /, *, axis: int | None = None) -> Array:
    """Running sums along an axis."""
    tensor = lift(x).tensor
    if not tensor.dtype.is_float:
        tensor = ops.cast(tensor, "uint64" if tensor.dtype.is_unsigned else "int64")
    if axis is None and tensor.ndim != 1:
        raise ShapeError("cumulative_sum of several dimensions needs an axis")
    return Array(ops.cumsum(tensor, axis or 0))


@public
def diff(x: Any, /, *, axis: int = -1, n: int = 1) -> Array:
    """Differences of neighbours along an axis, `n` times over."""
    array = lift(x)
    for _ in range(n):
        later = ops.strided_slice(array.tensor, (1,), (array.shape[axis],), (axis,))
        earlier = ops.strided_slice(array.tensor, (0,), (-1,), (axis,))
        array = Array(ops.sub(later, earlier))
    return array


@public
def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
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


# ---------------------------------------------------------------------------- making


def _creation(name: str, value: float) -> None:
    def make(shape: Shape, *, dtype: Any = "float32") -> Array:
        return Array(ops.full(_shape(shape), value, str(_kind(dtype))))

    def make_like(x: Any, /, *, dtype: Any = None) -> Array:
        array = lift(x)
        kind = array.tensor.dtype if dtype is None else _kind(dtype)
        return Array(ops.full(array.shape, value, str(kind)))

    make.__name__, make_like.__name__ = name, f"{name}_like"
    make.__doc__ = f"An array of {name}."
    make_like.__doc__ = f"An array of {name} with the shape of `x`, and its type unless told."
    public(make)
    public(make_like)


def _kind(spec: Any) -> Any:
    return dtype(spec)


_creation("zeros", 0)
_creation("ones", 1)


@public
def full(shape: Shape, fill_value: float, *, dtype: Any = None) -> Array:
    """An array of one value."""
    kind = lift(fill_value).tensor.dtype if dtype is None else _kind(dtype)
    return Array(ops.full(_shape(shape), fill_value, str(kind)))


@public
def full_like(x: Any, /, fill_value: float, *, dtype: Any = None) -> Array:
    """An array of one value with the shape of `x`, and its type unless told."""
    array = lift(x)
    kind = array.tensor.dtype if dtype is None else _kind(dtype)
    return Array(ops.full(array.shape, fill_value, str(kind)))


@public
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None
) -> Array:
    """Evenly spaced values."""
    kind = None if dtype is None else _kind(dtype).numpy
    bounds: tuple[Any, ...] = (start,) if stop is None else (start, stop, step)
    if stop is None and step != 1:
        bounds = (0, start, step)
    return Array(ops.constant(np.arange(*bounds, dtype=kind)))


@public
def linspace(start: float, stop: float, /, num: int, *, dtype: Any = None) -> Array:
    """`num` evenly spaced values, both ends included."""
    kind = None if dtype is None else _kind(dtype).numpy
    return Array(ops.constant(np.linspace(start, stop, num, dtype=kind)))


@public
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = "float32") -> Array:
    """Ones on the k-th diagonal."""
    return Array(ops.eye(n_rows, n_cols, k, str(_kind(dtype))))


@public
def asarray(x: Any, /, *, dtype: Any = None) -> Array:
    """The value as an array."""
    array = lift(x)
    return array if dtype is None else Array(as_type(array, _kind(dtype)))


# ---------------------------------------------------------------------------- products


@public
def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product, with batches broadcast."""
    a, b = together([x1, x2])
    return Array(ops.matmul(a, b))


@public
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis."""
    a, b = together([x1, x2])
    return Array(ops.sum(ops.mul(a, b), (axis,), False))


@public
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
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
def einsum(equation: str, /, *operands: Any) -> Array:
    """Einstein's summation."""
    return Array(ops.einsum(equation, *together(operands)))
