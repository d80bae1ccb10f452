"""Arrays of indices: int32 or int64 as given, widened where int32 is too small, never wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tileloom.base.errors import DTypeError, ShapeError, UserError

Array: TypeAlias = NDArray[Any]
#: What a list of indices may be given as.
IndexLike: TypeAlias = Array | Sequence[int]

INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


def index_array(name: str, given: IndexLike) -> Array:
    """A list of indices as an array; arrays keep their type, other sequences become int64.

    >>> index_array("indptr", [0, 2]), index_array("rows", np.array([1], np.int32))
    (array([0, 2]), array([1], dtype=int32))
    """
    array = np.asarray(given)
    if not array.size and not isinstance(given, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype not in INDEX_TYPES:
        hint = f"convert it first: {name}.astype(numpy.int64)" if array.dtype.kind in "iu" else None
        raise DTypeError(f"{name} is of type {array.dtype}; indices are int32 or int64", hint=hint)
    if array.ndim != 1:
        raise ShapeError(f"{name} has shape {array.shape}; indices have one dimension")
    return np.ascontiguousarray(array)


def fitting(dtype: np.dtype[Any], largest: int) -> np.dtype[Any]:
    """The type of indices up to `largest`: `dtype`, or int64 if that cannot hold them.

    >>> fitting(np.dtype(np.int32), 10), fitting(np.dtype(np.int32), 1 << 31)
    (dtype('int32'), dtype('int64'))
    """
    return dtype if largest <= np.iinfo(dtype).max else np.dtype(np.int64)


def joint(*arrays: Array) -> np.dtype[Any]:
    """The wider of the types of several index arrays."""
    return np.result_type(*arrays)


def offsets(lengths: Array, dtype: np.dtype[Any]) -> Array:
    """Where each of several consecutive parts begins, and where the last ends.

    >>> offsets(np.array([2, 0, 3]), np.dtype(np.int32))
    array([0, 2, 2, 5], dtype=int32)
    """
    total = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=total[1:])
    return total.astype(fitting(dtype, int(total[-1])), copy=False)


def positions(count: int, dtype: np.dtype[Any]) -> Array:
    """0, 1, 2, ... of a type that holds them."""
    return np.arange(count, dtype=fitting(dtype, count))


def whole(name: str, value: int, least: int = 1) -> int:
    """A whole number that is not less than another, or a refusal."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UserError(f"{name} is {value!r}; a whole number is needed")
    if value < least:
        raise UserError(f"{name} is {value}; at least {least} is needed")
    return int(value)


def ceil_div(count: int, size: int) -> int:
    """How many parts of a size hold `count`."""
    return -(-count // size)
