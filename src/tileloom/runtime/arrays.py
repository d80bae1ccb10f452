"""Arrays of others, without copies: what memory an object stands for.

NumPy arrays, PyTorch tensors, and whatever speaks DLPack, the array interface or the buffer
protocol. Nothing is ever copied: an object whose memory cannot be used as it is, is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtype import DType, dtype
from ..base.errors import ArgumentError, DTypeError
from . import dlpack
from .pool import empty

__all__ = ["ArrayView", "as_numpy", "as_view", "empty", "from_dlpack"]


class ArrayView(NamedTuple):
    """Memory that belongs to someone else; strides are in bytes."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    readonly: bool
    owner: object  # keeps the memory alive
    device: str = "cpu"

    @property
    def extent(self) -> tuple[int, int]:
        """The first address that is used and the first past the last; equal when empty."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        if self.strides == compact_strides(self.shape, self.dtype.bytes):
            return self.pointer, self.pointer + math.prod(self.shape) * self.dtype.bytes
        reach = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = self.pointer + sum(step for step in reach if step < 0)
        return low, self.pointer + sum(step for step in reach if step > 0) + self.dtype.bytes

    @property
    def is_compact(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        wanted = compact_strides(self.shape, self.dtype.bytes)
        if self.strides == wanted or 0 in self.shape:
            return True
        each = zip(self.shape, self.strides, wanted, strict=True)
        return all(n == 1 or have == step for n, have, step in each)


def compact_strides(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Row-major strides in bytes.

    >>> compact_strides((2, 3, 4), 4)
    (48, 16, 4)
    """
    strides = [item] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def as_view(value: Any) -> ArrayView:
    """The memory behind an array-like object.

    Raises:
        ArgumentError: when it is no array, or one whose memory cannot be used as it is.
    """
    if isinstance(value, np.ndarray):
        refuse_masked(value)
        return _numpy_view(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_view(value, torch)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return from_dlpack(value)
    try:
        return _numpy_view(np.asarray(_holder(value), copy=False))
    except (ValueError, TypeError, RuntimeError, BufferError) as error:
        raise ArgumentError(f"{_describe(value)} gives no memory without a copy: {error}") from None


def refuse_masked(value: Any) -> None:
    """Refuse an array with a mask, which would be lost."""
    if type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            "masked arrays are not supported: the mask would be lost",
            hint="pass x.filled(...), or the data and the mask as two arrays",
        )


def _holder(value: Any) -> Any:
    """What NumPy makes an array of without looking at elements."""
    if isinstance(value, np.generic):
        raise ArgumentError(f"not an array but {_describe(value)}")
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return value
    try:
        return memoryview(value)
    except TypeError:
        raise ArgumentError(f"not an array but {_describe(value)}") from None


def _describe(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def _numpy_view(array: np.ndarray[Any, Any]) -> ArrayView:
    if not array.dtype.isnative:
        raise ArgumentError(f"an array of foreign byte order, {array.dtype.str}")
    kind = _numpy_types.get(array.dtype) or _numpy_type(array.dtype)
    pointer = array.__array_interface__["data"][0]
    return ArrayView(pointer, array.shape, array.strides, kind, not array.flags.writeable, array)


_numpy_types: dict[Any, DType] = {}


def _numpy_type(kind: Any) -> DType:
    try:
        return _numpy_types.setdefault(kind, dtype(kind))
    except (DTypeError, TypeError):
        raise ArgumentError(f"an array of unsupported type {kind}") from None


def _torch_view(tensor: Any, torch: Any) -> ArrayView:
    """A tensor's memory; DLPack would refuse those that require gradients."""
    if tensor.layout is not torch.strided:
        raise ArgumentError(f"a PyTorch tensor of layout {tensor.layout}")
    if tensor.is_neg() or tensor.is_conj():
        raise ArgumentError("a PyTorch tensor with a pending conjugation or negation")
    kind = _torch_types.get(tensor.dtype) or _torch_type(tensor.dtype)
    item = kind.bytes
    strides = tuple([step * item for step in tensor.stride()])
    if tensor.is_cpu:
        return ArrayView(tensor.data_ptr(), tuple(tensor.shape), strides, kind, False, tensor)
    return ArrayView(0, tuple(tensor.shape), strides, kind, False, tensor, str(tensor.device))


_torch_types: dict[Any, DType] = {}


def _torch_type(kind: Any) -> DType:
    try:
        return _torch_types.setdefault(kind, dtype(str(kind).removeprefix("torch.")))
    except DTypeError:
        raise ArgumentError(f"a PyTorch tensor of unsupported type {kind}") from None


def byte_strides(found: dlpack.Found, kind: DType) -> tuple[int, ...]:
    """The strides in bytes of what a capsule says."""
    if found.strides is None:
        return compact_strides(found.shape, kind.bytes)
    return tuple(step * kind.bytes for step in found.strides)


def from_dlpack(value: Any) -> ArrayView:
    """The memory of an object that speaks DLPack."""
    found = dlpack.read(value)
    kind = dtype(found.dtype)
    steps = byte_strides(found, kind)
    return ArrayView(
        found.pointer, found.shape, steps, kind, found.readonly, found.owner, found.device
    )


class _Memory:
    """Memory under the array interface; NumPy keeps it, and with it the owner."""

    def __init__(self, view: ArrayView, item: np.dtype[Any]) -> None:
        self.owner = view.owner
        self.__array_interface__ = {
            "data": (view.pointer, view.readonly),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{item.itemsize}" if item.kind == "V" else item.str,
            "version": 3,
        }


def as_numpy(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array over the same memory.

    >>> a = np.arange(3)
    >>> as_numpy(a) is a
    True
    """
    if isinstance(value, np.ndarray):
        refuse_masked(value)
        return value
    view = as_view(value)
    if view.device != "cpu":
        raise ArgumentError(f"an array on {view.device}, not in the CPU's memory")
    item = view.dtype.numpy
    # NumPy's own types go by name; those of ml_dtypes only as bytes that are looked at again.
    carrier = item if item.isbuiltin == 1 else np.dtype(f"u{item.itemsize}")
    if 0 in view.shape or view.pointer == 0:
        return np.empty(view.shape, item)
    return np.asarray(_Memory(view, carrier)).view(item)
