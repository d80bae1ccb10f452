"""Device memory: blocks that are kept, by stream and size class, when their arrays die.

A block belongs to a home stream. When the last array over it dies, it goes back to the blocks of
that stream, and whoever takes it next uses it after whatever is in the stream now: nobody waits. A
block that another stream used last makes its home stream wait for that one first.

What is missing comes from `cuMemAllocAsync` where the device has memory pools, else from
`cuMemAlloc`. Small blocks are cut from slabs. Finalisers only append to lists, which is atomic:
they may run at any point of any thread.
"""

from __future__ import annotations

import sys
from functools import cache

from ..pool import size_class
from . import api, streams
from .device import GPU
from .errors import CudaError, DeviceMemoryError

ALIGNMENT = 256
_SLAB = 2 << 20
_LARGE = 32 << 20  # from here on, sizes are rounded up to a slab's
_SMALL = 256 << 10  # blocks up to this size are cut from slabs


class MemoryBlock:
    """Device memory that goes back to its pool when nothing refers to it.

    Attributes:
        home: the stream that it belongs to.
        last: the stream that used it last.
    """

    __slots__ = ("home", "last", "pointer", "pool", "size")

    def __init__(self, pool: DevicePool | None, pointer: int, size: int, home: int) -> None:
        self.pool = pool
        self.pointer = pointer
        self.size = size
        self.home = self.last = home

    def __del__(self) -> None:
        if self.pool is not None and self.size:
            self.pool.returned.append((self.pointer, self.size, self.home, self.last))

    def use(self, device: GPU, handle: int) -> None:
        """Have a stream wait for what others do with the memory, and note that it uses it."""
        if self.last != handle:
            streams.order(device, self.last, handle)
            self.last = handle


class Borrowed(MemoryBlock):
    """Memory that another package owns, kept alive."""

    __slots__ = ("owner",)

    def __init__(self, owner: object, pointer: int, last: int) -> None:
        super().__init__(None, pointer, 0, last)
        self.owner = owner


def _class_of(size: int) -> int:
    """The bytes of the block that serves `size` bytes; little is wasted on large ones."""
    if size > _LARGE:
        return -(-size // _SLAB) * _SLAB
    return size_class(max(size, ALIGNMENT))


class DevicePool:
    """The memory that this process has taken on one device."""

    def __init__(self, device: GPU) -> None:
        self.device = device
        self.returned: list[tuple[int, int, int, int]] = []
        self._free: dict[tuple[int, int], list[int]] = {}  # by stream and size class
        self._bytes_taken = 0

    def take(self, size: int, stream: int) -> MemoryBlock:
        """At least `size` bytes, to be used in a stream.

        Raises:
            DeviceMemoryError: there is not that much.
        """
        if size <= 0:
            return MemoryBlock(None, 0, 0, stream)
        if self.returned:
            self._sort_returned()
        kind = _class_of(size)
        free = self._free.setdefault((stream, kind), [])
        try:
            pointer = free.pop()
        except IndexError:
            try:
                new = self._slab if kind <= _SMALL else self._get
                pointer = new(kind, stream)
            except DeviceMemoryError as error:
                raise self._out_of_memory(size, error) from None
        return MemoryBlock(self, pointer, kind, stream)

    def _sort_returned(self) -> None:
        while self.returned:
            try:
                pointer, size, home, last = self.returned.pop()
            except IndexError:  # another thread was faster
                return
            streams.order(self.device, last, home)
            self._free.setdefault((home, size), []).append(pointer)

    def _slab(self, size: int, stream: int) -> int:
        """Cut a slab into blocks of a size, all of which begin at multiples of 256 bytes."""
        step = -(-size // ALIGNMENT) * ALIGNMENT
        start = self._get(_SLAB, stream)
        self._free[stream, size].extend(start + k * step for k in range(1, _SLAB // step))
        return start

    def _get(self, size: int, stream: int) -> int:
        try:
            return self._allocate(size, stream)
        except DeviceMemoryError:
            self.trim()
        return self._allocate(size, stream)

    def _allocate(self, size: int, stream: int) -> int:
        with self.device.active():
            if self.device.has_memory_pools:
                pointer = api.handle(api.call("cuMemAllocAsync", size, stream))
            else:
                pointer = api.handle(api.call("cuMemAlloc", size))
        self._bytes_taken += size
        return pointer

    def _out_of_memory(self, size: int, error: CudaError) -> DeviceMemoryError:
        free, total = self.device.free_memory(), self.device.memory
        hint = "torch.cuda.empty_cache() gives back what PyTorch keeps"
        return DeviceMemoryError(
            f"{self.device} has no {show_size(size)} of memory left: {show_size(free)} of "
            f"{show_size(total)} are free, arrays of Tileloom hold {show_size(self._bytes_taken)}",
            code=error.code,
            hint=hint if "torch" in sys.modules else None,
        )

    def kept_bytes(self) -> int:
        """Bytes in blocks that no array uses."""
        self._sort_returned()
        return sum(size * len(blocks) for (_, size), blocks in list(self._free.items()))

    def taken_bytes(self) -> int:
        """Bytes that were taken from the driver, whether arrays use them or not."""
        return self._bytes_taken

    def trim(self) -> None:
        """Give blocks that no array uses back to the driver; slabs stay."""
        self._sort_returned()
        with self.device.active():
            for (stream, size), blocks in list(self._free.items()):
                while size > _SMALL and blocks:
                    pointer = blocks.pop()
                    if self.device.has_memory_pools:
                        api.call("cuMemFreeAsync", pointer, stream)
                    else:
                        api.call("cuMemFree", pointer)
                    self._bytes_taken -= size
            api.call("cuCtxSynchronize")  # only then does the driver have it back


def show_size(size: int) -> str:
    """Bytes for people.

    >>> show_size(3 << 29), show_size(5 << 10), show_size(12)
    ('1.50 GiB', '5.00 KiB', '12 bytes')
    """
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


@cache
def _pool(index: int, device: GPU) -> DevicePool:
    return DevicePool(device)


def pool(device: GPU) -> DevicePool:
    """The pool of a device."""
    return _pool(device.index, device)


def forget() -> None:
    """Know no pools any more; for tests."""
    _pool.cache_clear()
