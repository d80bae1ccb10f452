"""The arrays that sparse formats are made of: what is asked of each of them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtype import DType, dtype
from ...base.errors import ArgumentError, DTypeError, ShapeError
from ...runtime import as_numpy

__all__ = [
    "INDEX_TYPES",
    "as_index",
    "as_part",
    "as_shape",
    "compact",
    "element_type",
    "plain",
    "stacked",
]

INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


def as_shape(shape: Sequence[int], rank: int | None = None) -> tuple[int, ...]:
    """The extents as plain integers."""
    try:
        extents = tuple(operator.index(extent) for extent in shape)
    except TypeError:
        raise ShapeError(f"shape {shape!r} is no sequence of integers") from None
    if any(extent < 0 for extent in extents):
        raise ShapeError(f"shape {extents} has a negative extent")
    if rank is not None and len(extents) != rank:
        raise ShapeError(f"shape {extents} has rank {len(extents)}, not {rank}")
    return extents


def as_part(value: Any, what: str, rank: int, *, strided: bool = False) -> Any:
    """An array of this rank; lists and tuples become NumPy arrays, tensors on GPUs stay."""
    array = value
    if isinstance(value, list | tuple):
        array = np.asarray(value)
    elif not _is_on_gpu(value):
        array = plain(as_numpy(value), what, strided=strided)
    if array.ndim != rank:
        raise ShapeError(f"{what} has rank {array.ndim}, not {rank}")
    return array


def _is_on_gpu(value: Any) -> bool:
    return bool(getattr(value, "is_cuda", False))


def as_index(value: Any, what: str, *, strided: bool = False) -> Any:
    """An array of indices: int32 and int64 stay, other integers are copied as int64.

    >>> as_index(np.uint8([1, 2]), "indices").dtype
    dtype('int64')
    """
    array = value
    if type(value) is not np.ndarray or value.ndim != 1 or not value.flags.c_contiguous:
        array = as_part(value, what, rank=1, strided=strided)
    if array.dtype in INDEX_TYPES:
        return array
    name = str(array.dtype).removeprefix("torch.")
    if not isinstance(array, np.ndarray):
        if name in ("int32", "int64"):
            return array
    elif array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.int64)
    raise DTypeError(f"{what} has elements of {name}; indices are int32 or int64")


def plain(array: np.ndarray[Any, Any], what: str, *, strided: bool = False) -> Any:
    """The array as a plain NumPy array over the same memory.

    Raises:
        ArgumentError: it is masked, or strided where that cannot be.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(
            f"{what} is a masked array: the mask would be lost",
            hint="leave masked entries out, or fill them: .filled(0)",
        )
    if not (strided or array.flags.c_contiguous):
        raise ArgumentError(
            f"{what} is strided: {array.strides} bytes for elements of {array.itemsize}",
            hint="a copy of the whole array has its parts in one piece each",
        )
    return array if type(array) is np.ndarray else np.asarray(array)


def compact(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array itself where its elements lie in row-major order without gaps, or else a copy."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def stacked(rows: Sequence[Any], count: int) -> Any:
    """Arrays of `count` indices as the rows of one: a view where they lie in memory like that."""
    if not rows:
        return np.empty((0, count), np.int64)
    if not isinstance(rows[0], np.ndarray):  # on a GPU
        return sys.modules["torch"].stack(tuple(rows))
    first, starts = rows[0], [row.__array_interface__["data"][0] for row in rows]
    step = starts[1] - starts[0] if len(rows) > 1 else 0
    if len(rows) > 1 and not (
        first.base is not None
        and all(row.base is first.base and row.strides == first.strides for row in rows)
        and all(row.dtype == first.dtype for row in rows)
        and starts == [starts[0] + step * number for number in range(len(rows))]
    ):
        return np.stack(rows)
    return np.lib.stride_tricks.as_strided(first, (len(rows), count), (step, *first.strides))


def element_type(array: Any, what: str = "x") -> DType:
    """The type of an array's elements as kernels have it.

    Raises:
        DTypeError: kernels have no such type.

    >>> element_type(np.zeros(3, np.int64))
    'int64'
    >>> element_type(np.zeros(3, np.complex64), "a.data")
    Traceback (most recent call last):
    tileloom.base.errors.DTypeError: a.data has elements of complex64, ...
    """
    kind = array.dtype
    return _TYPES.get(kind) or _element_type(kind, what)


#: Of NumPy's and PyTorch's types.
_TYPES: dict[Any, DType] = {}


def _element_type(kind: Any, what: str) -> DType:
    name = str(kind).removeprefix("torch.")
    if name.startswith("complex"):
        raise DTypeError(
            f"{what} has elements of {name}, and kernels have no complex numbers",
            hint="compute with the real and the imaginary parts as two arrays",
        )
    if not getattr(kind, "isnative", True):
        raise DTypeError(
            f"{what} has elements of foreign byte order, {kind.str}",
            hint='x.astype(x.dtype.newbyteorder("="))',
        )
    try:
        return _TYPES.setdefault(kind, dtype(name))
    except (DTypeError, TypeError):
        raise DTypeError(f"{what} has elements of {name}, which kernels do not have") from None
