"""Array-API functions that make arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base import DType
from ...base.errors import ArgumentError
from ...graph import ops
from ...graph.nodes import Tensor
from ...runtime.arrays import as_numpy
from .array import Array, ArrayLike, as_type, check_plain, element_type, lift, promote
from .inplace import share
from .public import PUBLIC, eager, is_data, public
from .shapes import Shape, shape_of


def _creation(name: str, value: float, what: str) -> None:
    def make(shape: Shape, *, dtype: Any = None) -> Array:
        kind = "float64" if dtype is None else element_type(dtype)
        return Array(ops.full(shape_of(shape), value, str(kind)))

    def make_like(x: ArrayLike, /, *, dtype: Any = None) -> Array:
        array = lift(x)
        kind = array.tensor.dtype if dtype is None else element_type(dtype)
        return Array(ops.full(array.shape, value, str(kind)))

    make.__name__, make_like.__name__ = name, f"{name}_like"
    make.__doc__ = f"An array of {what}, of float64 unless told."
    make_like.__doc__ = f"An array of {what} with the shape of `x`, and its type unless told."
    public(make)
    public(make_like)


_creation("zeros", 0, "zeros")
_creation("ones", 1, "ones")
_creation("empty", 0, "elements that say nothing (they are zeros)")


def _filled(shape: Sequence[int], value: Any, kind: Any) -> Array:
    """An array of one value, or of what is broadcast to its shape."""
    array = lift(value)
    tensor = array.tensor if kind is None else as_type(array, element_type(kind))
    return Array(ops.broadcast_to(tensor, shape))


@public
def full(shape: Shape, fill_value: ArrayLike, *, dtype: Any = None) -> Array:
    """An array of one value, of its type unless told."""
    return _filled(shape_of(shape), fill_value, dtype)


@public
def full_like(x: ArrayLike, /, fill_value: ArrayLike, *, dtype: Any = None) -> Array:
    """An array of one value with the shape of `x`, and its type unless told."""
    array = lift(x)
    return _filled(array.shape, fill_value, array.tensor.dtype if dtype is None else dtype)


@public
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None
) -> Array:
    """Evenly spaced values."""
    kind = None if dtype is None else element_type(dtype).numpy
    bounds: tuple[Any, ...] = (start,) if stop is None else (start, stop, step)
    if stop is None and step != 1:
        bounds = (0, start, step)
    return Array(ops.constant(np.arange(*bounds, dtype=kind)))


@public
def linspace(
    start: ArrayLike, stop: ArrayLike, /, num: int = 50, *, endpoint: bool = True, dtype: Any = None
) -> Array:
    """`num` evenly spaced values along a new first axis, the last of which is `stop` or before it.

    The ends may be traced, and arrays.
    """
    kind = None if dtype is None else element_type(dtype)
    if num < 0:
        raise ArgumentError(f"a number of values is not negative, got {num}")
    if not isinstance(start, Array) and not isinstance(stop, Array):
        numpys = None if kind is None else kind.numpy
        return Array(ops.constant(np.linspace(start, stop, num, endpoint, dtype=numpys)))
    return Array(_between(lift(start), lift(stop), num, endpoint, kind))


def _between(start: Array, stop: Array, num: int, endpoint: bool, kind: DType | None) -> Tensor:
    real = promote(start, stop, lift(0.0))
    first, last = ops.broadcast_arrays(as_type(start, real), as_type(stop, real))
    step = ops.div(ops.sub(last, first), float(max(num - endpoint, 1)))
    line = ops.reshape(ops.constant(np.arange(num), real), (num,) + (1,) * first.ndim)
    values = ops.add(ops.mul(line, step), first)
    if endpoint and num > 1:
        is_last = ops.equal(line, float(num - 1))
        values = ops.where(is_last, last, values)
    if kind is None:
        return values
    return ops.cast(values if kind.is_float else ops.floor(values), kind)


@public
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None) -> Array:
    """Ones on the k-th diagonal, of float64 unless told."""
    kind = "float64" if dtype is None else element_type(dtype)
    return Array(ops.eye(n_rows, n_cols, k, str(kind)))


def asarray(x: ArrayLike, /, *, dtype: Any = None, copy: bool | None = None) -> Array:
    """The value as an array: the same elements, unless they are converted or `copy` says so.

    Lists may hold arrays, which are stacked.
    """
    array = _stacked(x) if _lists_traced(x) else lift(x)
    tensor = array.tensor if dtype is None else as_type(array, element_type(dtype))
    if copy is False and (array is not x or tensor is not array.tensor):
        raise ArgumentError("this value cannot become an array without a copy")
    result = Array(tensor)
    if not copy and tensor is array.tensor:
        share(result, array)
    return result


def _stacked(rows: Sequence[Any]) -> Array:
    result: Array = PUBLIC["stack"](list(map(asarray, rows)))
    return result


def _lists_traced(value: Any) -> bool:
    """Whether it is a list, of lists, that hold a traced array."""
    if not isinstance(value, (list, tuple)):
        return False
    return any(isinstance(part, Array) or _lists_traced(part) for part in value)


def _as_numpys(x: Any, /, *, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    check_plain(x)
    is_foreign = is_data(x) and not isinstance(x, (np.ndarray, np.generic, list, tuple))
    array = as_numpy(x) if is_foreign else np.asarray(x)
    kind = element_type(array.dtype if dtype is None else dtype)
    return np.asarray(array, kind.numpy, copy=copy)


PUBLIC["asarray"] = eager(asarray, _as_numpys)
