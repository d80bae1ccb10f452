"""Arrays for results: given by the caller, or new ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import ArgumentError, DTypeError, ShapeError
from ...sparse.arrays import dense

Array = np.ndarray[Any, Any]

#: Bytes of a result from which on it is written past the caches.
STREAMED = 1 << 20


def given(out: Any, shape: tuple[int, ...], kind: np.dtype[Any], **inputs: Array) -> Array:
    """The memory of the caller's array for a result.

    Raises:
        ShapeError, DTypeError, ArgumentError: it is not of the result's shape or type, or cannot be
            written to row by row, or shares memory with an input.
    """
    array = dense(out, what="out").array
    if array.shape != shape:
        raise ShapeError(f"out has shape {array.shape}, the result has {shape}")
    if array.dtype != kind:
        raise DTypeError(f"out holds {array.dtype}, the result is {kind}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ArgumentError("out must be a row-major array that can be written to")
    for name, other in inputs.items():
        if np.may_share_memory(array, other):
            raise ArgumentError(f"out shares memory with {name}, which is read meanwhile")
    result: Array = array
    return result


def empty(rows: int, features: int, kind: np.dtype[Any]) -> Array:
    """A matrix that begins with a cache line where it is large."""
    size = rows * features * kind.itemsize
    if size < STREAMED:
        return np.empty((rows, features), kind)
    memory = np.empty(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(kind).reshape(rows, features)


def converted(result: Array, kind: np.dtype[Any], out: Any = None) -> Array:
    """A result that was computed in another type; in the caller's array if there is one."""
    if out is None:
        return result.astype(kind)
    memory = given(out, result.shape, kind)
    memory[...] = result
    return memory


def refuse_out(out: Any) -> None:
    """Refuse an array for a result of which gradients are recorded.

    Raises:
        ArgumentError: there is one.
    """
    if out is not None:
        raise ArgumentError(
            "out= cannot be given where a gradient is recorded",
            hint="call it under torch.no_grad(), or without out=",
        )
