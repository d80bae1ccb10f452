"""Arrays in a GPU's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ...base.dtype import DType, dtype
from ...base.errors import ArgumentError
from ..arrays import as_numpy, compact_strides
from . import api, exports, streams
from .device import GPU
from .device import device as find_device
from .memory import MemoryBlock, pool


class Layout:
    """What arrays have in common that a kernel treats alike; one object for each combination."""

    __slots__ = ("device", "dtype", "shape", "strides")

    def __init__(
        self, shape: tuple[int, ...], kind: DType, strides: tuple[int, ...], device: GPU
    ) -> None:
        self.shape, self.dtype, self.strides, self.device = shape, kind, strides, device


@cache
def _layouts(index: int) -> dict[tuple[Any, ...], Layout]:
    return {}


_MOST_LAYOUTS = 1 << 16


def layout_of(shape: tuple[int, ...], kind: DType, strides: tuple[int, ...], device: GPU) -> Layout:
    """The one layout of this kind; strides are in bytes."""
    known = _layouts(device.index)
    key = (shape, kind, strides)
    found = known.get(key)
    if found is None or found.device is not device:
        if len(known) > _MOST_LAYOUTS:
            known.clear()
        found = known[key] = Layout(shape, kind, strides, device)
    return found


class DeviceArray:
    """An array in a GPU's memory, in row-major order unless it borrows another package's.

    It is made by `empty` and `asarray`, passed to kernels, and read with `numpy()`. PyTorch, CuPy
    and JAX take it without a copy through `__dlpack__` or `__cuda_array_interface__`.
    """

    __slots__ = ("__weakref__", "block", "layout", "pointer")

    def __init__(self, block: MemoryBlock, pointer: int, layout: Layout) -> None:
        self.block = block
        self.pointer = pointer
        self.layout = layout

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.layout.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.layout.dtype

    @property
    def device(self) -> GPU:
        """Where it lies."""
        return self.layout.device

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self.layout.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.bytes

    @property
    def is_compact(self) -> bool:
        """Whether elements lie in row-major order without gaps."""
        wanted = compact_strides(self.shape, self.dtype.bytes)
        each = zip(self.shape, self.strides, wanted, strict=True)
        return 0 in self.shape or all(n == 1 or have == step for n, have, step in each)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on {self.device}>"

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        raise TypeError(f"{self!r} is no array of the CPU; its method numpy() makes one")

    # ------------------------------------------------------------------ copies

    def numpy(self, stream: Any = None) -> np.ndarray[Any, Any]:
        """A copy in the CPU's memory, of what is there when the stream has come so far."""
        out = np.empty(self.shape, self.dtype.numpy)
        self._need_compact("numpy()")
        if out.nbytes:
            handle = self._use(stream)
            with self.device.active():
                api.call("cuMemcpyDtoHAsync", out.ctypes.data, self.pointer, out.nbytes, handle)
                api.call("cuStreamSynchronize", handle)
        return out

    def copy_from(self, host: Any, stream: Any = None) -> None:
        """Take the elements of an array in the CPU's memory, of the same shape and type."""
        source = np.asarray(as_numpy(host), order="C")
        if source.shape != self.shape or dtype(source.dtype) != self.dtype:
            raise ArgumentError(
                f"a {self.dtype} array of shape {self.shape} cannot take the elements of a "
                f"{source.dtype} array of shape {source.shape}"
            )
        self._need_compact("copy_from()")
        if source.nbytes:
            handle = self._use(stream)
            with self.device.active():
                address = source.ctypes.data
                api.call("cuMemcpyHtoDAsync", self.pointer, address, source.nbytes, handle)
                api.call("cuStreamSynchronize", handle)  # the source may die or change after

    def copy(self, stream: Any = None) -> DeviceArray:
        """Another array with the same elements."""
        self._need_compact("copy()")
        handle = self._use(stream)
        out = empty(self.shape, self.dtype, self.device, handle)
        if self.nbytes:
            with self.device.active():
                api.call("cuMemcpyDtoDAsync", out.pointer, self.pointer, self.nbytes, handle)
        return out

    def copy_from_device(self, source: DeviceArray, stream: Any = None) -> None:
        """Take the elements of a compact array in a GPU's memory, of the same shape and type."""
        self._need_compact("copy_from_device()")
        if self.nbytes and source.pointer != self.pointer:
            handle = self._use(stream)
            source.block.use(source.device, handle)
            with self.device.active():
                api.call("cuMemcpyDtoDAsync", self.pointer, source.pointer, self.nbytes, handle)

    def clear(self, stream: Any = None) -> None:
        """Set every byte to zero."""
        self._need_compact("clear()")
        if self.nbytes:
            handle = self._use(stream)
            with self.device.active():
                api.call("cuMemsetD8Async", self.pointer, 0, self.nbytes, handle)

    def reshape(self, *extents: Any) -> DeviceArray:
        """The same elements under another shape, without a copy; extents one by one or as one."""
        self._need_compact("reshape()")
        first = extents[0] if len(extents) == 1 else extents
        shape = tuple(first) if isinstance(first, (tuple, list)) else extents
        if math.prod(shape) != self.size or any(n < 0 for n in shape):
            raise ArgumentError(f"{self.size} elements cannot have the shape {shape}")
        strides = compact_strides(shape, self.dtype.bytes)
        return DeviceArray(
            self.block, self.pointer, layout_of(shape, self.dtype, strides, self.device)
        )

    def _need_compact(self, what: str) -> None:
        if not self.is_compact:
            raise ArgumentError(f"{what} wants an array in row-major order without gaps")

    def _use(self, stream: Any) -> int:
        """The handle of a stream that may use the memory from now on."""
        handle = streams.resolve(stream, self.device)
        self.block.use(self.device, handle)
        return handle

    # ------------------------------------------------------------------ for others

    def __dlpack_device__(self) -> tuple[int, int]:
        return exports.device_code(self.device.index)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for a consumer that works in `stream`, as the array API standard says.

        None and 1 are the legacy default stream; -1 asks for no synchronisation.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"an array on {self.device} cannot be given to {dl_device}")
        if stream == 0:
            raise ValueError("stream 0 is ambiguous for DLPack; 1 is the legacy default stream")
        source = self.copy() if copy else self
        if stream != -1:
            source._use(streams.DEFAULT if stream is None else stream)
        item = self.dtype.bytes
        steps = tuple(step // item for step in source.strides)
        return exports.capsule(
            source, source.pointer, self.shape, steps, self.dtype, self.device.index, max_version
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        item = self.dtype.numpy
        if item.isbuiltin != 1:  # consumers fall back on DLPack
            raise AttributeError(f"the CUDA array interface has no name for {self.dtype}")
        return {
            "shape": self.shape,
            "typestr": item.str,
            "data": (self.pointer, False),
            "strides": None if self.is_compact else self.strides,
            "version": 3,
            "stream": self.block.last or 1,  # 0 is forbidden; 1 is the legacy default stream
        }


def empty(
    shape: int | Sequence[int], kind: Any = "float32", device: Any = None, stream: Any = None
) -> DeviceArray:
    """An uninitialised array on a device.

    Args:
        kind: the type of its elements.
        device: a number, "cuda:1" or a `GPU`; the first one if it is not given.
        stream: where it will be used first; the current one if it is not given.

    Raises:
        DeviceMemoryError: the memory does not suffice.
    """
    where = find_device(device)
    extents = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in extents):
        raise ArgumentError(f"an array cannot have the shape {extents}")
    item = dtype(kind)
    if item.is_vector or (item.bits < 8 and not item.is_bool):
        raise ArgumentError(f"arrays of {item} cannot be made")
    size = math.prod(extents) * item.bytes
    block = pool(where).take(size, streams.resolve(stream, where))
    layout = layout_of(extents, item, compact_strides(extents, item.bytes), where)
    return DeviceArray(block, block.pointer, layout)


def zeros(
    shape: int | Sequence[int], kind: Any = "float32", device: Any = None, stream: Any = None
) -> DeviceArray:
    """An array of zeros on a device; see `empty`."""
    made = empty(shape, kind, device, stream)
    made.clear(stream)
    return made


def host_array(value: Any) -> np.ndarray[Any, Any]:
    """An array in the CPU's memory, made of Python numbers if need be."""
    try:
        return as_numpy(value)
    except ArgumentError:
        made = np.asarray(value)
        if made.dtype.kind == "O":
            raise
        return made


def forget() -> None:
    """Know no layouts any more; for tests."""
    _layouts.cache_clear()
