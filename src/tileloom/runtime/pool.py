"""Pooled memory for results: blocks that are freed are kept and given out again.

The kernel's first touch of a fresh page costs four times as much as writing to it, and the C
library gives every large block back. So results live in blocks of a few size classes, 64-byte
aligned, on huge pages from 2 MiB. An array's base is its block, which goes back to its free list
when the last array over it dies. Results below 1 KiB are NumPy's own, which makes them faster.

Threads share the lists without locks: `list.append` and `list.pop` are atomic, and a finaliser may
run at any point, where a lock could be one's own. After a fork, parent and child own copies.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.dtype import DType, dtype
from ..base.settings import settings

ALIGNMENT = 64
_HUGE = 2 << 20
POOLED_FROM = 1 << 10
_SMALL_KEPT = 16 << 20  # bytes kept for each class of small blocks
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, _MADV_HUGEPAGE = 3, 0x22, 14

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = _libc.aligned_alloc.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def size_class(size: int) -> int:
    """The bytes of the block that serves `size` bytes: a power of two or 5, 6, 7 quarters of it.

    >>> [size_class(n) for n in (1, 64, 65, 260, 1000, 3 << 20)]
    [64, 64, 128, 320, 1024, 4194304]
    """
    if size <= 4 * ALIGNMENT:
        return max(1, -(-size // ALIGNMENT)) * ALIGNMENT
    unit = _HUGE if size > _HUGE else ALIGNMENT
    step = max(unit, 1 << ((size - 1).bit_length() - 3))
    return -(-size // step) * step


class Pool:
    """Free blocks by size class."""

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._types: dict[int, Any] = {}

    def take(self, size: int) -> Any:
        """A block of at least `size` bytes: an object with the buffer protocol."""
        size = size_class(size)
        kind = self._type(size)
        try:
            address = self._free[size].pop()
        except IndexError:
            address = self._allocate(size)
        return kind.from_address(address)

    def _type(self, size: int) -> Any:
        """The type of the blocks of a size class."""
        kind = self._types.get(size)
        if kind is None:
            self._free.setdefault(size, [])
            kind = self._types.setdefault(size, _block_type(size, self._give))
        return kind

    def _allocate(self, size: int) -> int:
        address = _allocate(size)
        if not address:
            self.trim()  # what other classes hold may be enough
            address = _allocate(size)
        if not address:
            raise MemoryError(f"no memory for a result of {size} bytes")
        return address

    def _give(self, size: int, address: int) -> None:
        """Take a block back, or let the system have it when enough are kept."""
        kept = self._free[size]
        if size < _HUGE:
            full = len(kept) * size >= _SMALL_KEPT
        else:
            full = self.kept_bytes() + size > settings().pool_size
        if full:
            _release(address, size)
        else:
            kept.append(address)

    def kept_bytes(self) -> int:
        """Bytes in free blocks."""
        return sum(size * len(blocks) for size, blocks in list(self._free.items()))

    def trim(self) -> None:
        """Give all free blocks back to the system."""
        for size, blocks in list(self._free.items()):
            while blocks:
                try:
                    address = blocks.pop()
                except IndexError:  # another thread was faster
                    break
                _release(address, size)

    def empty(self, shape: Sequence[int], kind: DType) -> np.ndarray[Any, Any]:
        """An uninitialised array in row-major order."""
        item = _item_type(kind)
        size = math.prod(shape) * item.itemsize
        if size < POOLED_FROM:
            return np.empty(shape, item)  # which also refuses negative extents
        return np.ndarray(shape, item, self.take(size))

    def copied(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Another array with the same elements, in row-major order."""
        if array.nbytes < POOLED_FROM:
            return array.copy()
        made = np.ndarray(array.shape, array.dtype, self.take(array.nbytes))
        made[...] = array
        return made

    def allocator(self, shape: Sequence[int], kind: DType) -> Callable[[], np.ndarray[Any, Any]]:
        """`empty` for one shape and type, with all that can be done beforehand done."""
        item, shape = _item_type(kind), tuple(shape)
        whole = math.prod(shape) * item.itemsize
        if whole < POOLED_FROM:
            return lambda: np.empty(shape, item)
        size = size_class(whole)
        block_at = self._type(size).from_address
        free, fresh, array = self._free[size], self._allocate, np.ndarray

        def allocate() -> np.ndarray[Any, Any]:
            try:
                address = free.pop()
            except IndexError:
                address = fresh(size)
            return array(shape, item, block_at(address))

        return allocate


_item_types: dict[Any, np.dtype[Any]] = {}


def _item_type(kind: DType) -> np.dtype[Any]:
    found = _item_types.get(kind)
    if found is None:
        found = _item_types[kind] = dtype(kind).numpy
    return found


def _block_type(size: int, give: Callable[[int, int], None]) -> Any:
    """A ctypes array type that gives its memory back; one for each size class."""

    # Defaults, not globals: at exit the module's names may be gone before the last array.
    def finalise(
        self: Any,
        give: Callable[[int, int], None] = give,
        size: int = size,
        address: Callable[[Any], int] = ctypes.addressof,
    ) -> None:
        give(size, address(self))

    return type(f"Block{size}", (ctypes.c_char * size,), {"__del__": finalise})


def _allocate(size: int) -> int:
    if size < _HUGE:
        return _libc.aligned_alloc(ALIGNMENT, size) or 0
    # Huge pages want 2 MiB boundaries, which mmap does not promise: map more, cut off the rest.
    whole = size + _HUGE
    base = _libc.mmap(None, whole, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value):
        return 0
    address = -(-base // _HUGE) * _HUGE
    if address > base:
        _libc.munmap(base, address - base)
    tail = base + whole - (address + size)
    if tail:
        _libc.munmap(address + size, tail)
    _libc.madvise(address, size, _MADV_HUGEPAGE)
    return int(address)


def _release(
    address: int,
    size: int,
    free: Callable[..., Any] = _libc.free,
    munmap: Callable[..., Any] = _libc.munmap,
) -> None:
    if size < _HUGE:
        free(address)
    else:
        munmap(address, size)


pool = Pool()


def empty(shape: Sequence[int], kind: Any) -> np.ndarray[Any, Any]:
    """An uninitialised row-major array in pooled memory; 64-byte aligned from 1 KiB up.

    >>> a = empty((30, 50), "float32")
    >>> a.shape, a.dtype.name, a.ctypes.data % 64
    ((30, 50), 'float32', 0)
    """
    return pool.empty(shape, kind if isinstance(kind, DType) else dtype(kind))
