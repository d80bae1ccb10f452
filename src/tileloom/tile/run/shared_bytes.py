"""Shared memory as threads have it: bytes, at the places that layouts and allocations say.

Every byte has an owner, the buffer that wrote it last, and a state. What is seen:

    a read of bytes that a copy is still to fill       the wait before it is too weak
    a read of bytes that another buffer has written    buffers overlap, or it was freed
    a write to bytes that a copy is still to fill      two of them at a time
    a write to bytes that a product may still read     the wait for the product is missing

An asynchronous copy lands with the wait that covers its group, or its barrier.

With `barriers`, threads run on their own between barriers, and this is seen as well:

    a read of bytes written since the last barrier, a write to bytes read or written since
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.types import MemDescType
from .placement import offsets_of
from .shared_arrays import SharedArrays, part_of
from .values import POISON_BYTE, Array, ExecutionError, dtype_of

ALIGNMENT = 1024
UNDEFINED, DEFINED, IN_FLIGHT = range(3)
READ, WRITTEN = 1, 2
OFFSET, SIZE = "allocation.offset", "allocation.size"


@dataclass(eq=False)
class AllocatedBuffer:
    """A buffer: bytes from `start` on."""

    number: int
    op: Operation
    start: int
    size: int
    freed: bool = False


@dataclass(frozen=True, eq=False)
class SharedSlice:
    """A view of a buffer, by the address of every element."""

    allocation: AllocatedBuffer
    addresses: Array
    dtype: np.dtype[Any]

    @cached_property
    def places(self) -> Array:
        """The addresses of all bytes, element after element."""
        steps = np.arange(self.dtype.itemsize)
        return (self.addresses[..., None] + steps).reshape(-1)


@dataclass(frozen=True, eq=False)
class PendingCopy:
    """An asynchronous copy on its way."""

    op: Operation
    view: SharedSlice
    data: Array


class SharedBytes(SharedArrays):
    """Shared memory of one program at a time."""

    def __init__(self, barriers: bool = False) -> None:
        self.barriers_count = barriers
        self.start_program()

    def start_program(self) -> None:
        """Forgets all buffers."""
        self.data = np.zeros(0, np.uint8)
        self.state = np.zeros(0, np.uint8)
        self.owner = np.zeros(0, np.int32)
        self.readers = np.zeros(0, np.int32)
        self.fresh = np.zeros(0, np.uint8)  # how bytes were used since the last barrier
        self.allocations: list[AllocatedBuffer] = []
        self.copies: list[PendingCopy] = []  # since the last commit
        self.groups: list[list[PendingCopy]] = []
        self.barriers: dict[int, list[PendingCopy]] = {}
        self.products: list[list[Array]] = []

    # Buffers.

    def allocate(self, op: Operation, type: MemDescType) -> SharedSlice:
        """A buffer at the offset that the operation says, or behind all others."""
        dtype = dtype_of(type)
        size = type.size * dtype.itemsize
        if OFFSET in op.attributes:
            start = op.integer(OFFSET)
        else:
            start = -(-len(self.data) // ALIGNMENT) * ALIGNMENT
        made = AllocatedBuffer(len(self.allocations) + 1, op, start, size)
        self.allocations.append(made)
        self._grow(start + size)
        return SharedSlice(made, start + offsets_of(type) * dtype.itemsize, dtype)

    def _grow(self, size: int) -> None:
        more = size - len(self.data)
        if more > 0:
            self.data = np.concatenate([self.data, np.full(more, POISON_BYTE, np.uint8)])
            for name in ("state", "owner", "readers", "fresh"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros(more, old.dtype)]))

    def free(self, op: Operation, view: SharedSlice) -> None:
        """Ends a buffer's life; nothing may be on its way there."""
        inside = slice(view.allocation.start, view.allocation.start + view.allocation.size)
        mine = self.owner[inside] == view.allocation.number
        if (mine & (self.state[inside] == IN_FLIGHT)).any():
            raise ExecutionError("a buffer is freed that a copy is still to fill")
        if (mine & (self.readers[inside] > 0)).any():
            raise ExecutionError("a buffer is freed that a product may still read")
        view.allocation.freed = True

    def subview(
        self, op: Operation, view: SharedSlice, offsets: Sequence[int], type: MemDescType
    ) -> SharedSlice:
        """A part of a view, whose elements must be where its own type says."""
        part = view.addresses[part_of(view.addresses.shape, offsets, type.shape)]
        return _checked(SharedSlice(view.allocation, part, view.dtype), type)

    def transpose(self, op: Operation, view: SharedSlice, order: Sequence[int]) -> SharedSlice:
        """A view with its dimensions in another order."""
        made = SharedSlice(view.allocation, view.addresses.transpose(order), view.dtype)
        return _checked(made, op.results[0].type)

    def reshape(self, op: Operation, view: SharedSlice, type: MemDescType) -> SharedSlice:
        """A view with its elements, row by row, in another shape."""
        addresses = view.addresses.reshape(type.shape)
        return _checked(SharedSlice(view.allocation, addresses, view.dtype), type)

    # Barriers.

    def synchronize(self) -> None:
        """All threads wait for one another: what was done before is done for all."""
        self.fresh[:] = 0

    def _note(self, places: Any, use: int) -> None:
        """Notes an access by some threads; one before it, by others, may not conflict."""
        if not self.barriers_count:
            return
        conflicts = self.fresh[places] & (WRITTEN if use == READ else READ | WRITTEN)
        if conflicts.any():
            before = "written" if (conflicts & WRITTEN).any() else "read"
            now = "read" if use == READ else "written"
            raise ExecutionError(
                f"{_count(conflicts)} of shared memory are {now}, which other threads have "
                f"{before} since the last barrier"
            )
        self.fresh[places] |= use

    def use_scratch(self, op: Operation) -> None:
        """Bytes of an operation's own, as many as `allocation.size` says, are written by all
        threads and, after a barrier, read."""
        size = op.integer(SIZE) if SIZE in op.attributes else 0
        if not size or OFFSET not in op.attributes:
            return
        start = op.integer(OFFSET)
        made = AllocatedBuffer(len(self.allocations) + 1, op, start, size)
        self.allocations.append(made)
        self._grow(start + size)
        scratch = SharedSlice(made, np.arange(start, start + size), np.dtype(np.uint8))
        self._claim(scratch)
        self.data[scratch.places] = POISON_BYTE
        self.state[scratch.places] = DEFINED
        self.synchronize()
        self._note(scratch.places, READ)

    # Accesses that are done at once.

    def read(self, op: Operation, view: SharedSlice, type: MemDescType) -> Array:
        """The elements of a view; those that nobody wrote are poison."""
        self._check_alive(view)
        places = view.places
        self._note(places, READ)
        state, owner = self.state[places], self.owner[places]
        if (state == IN_FLIGHT).any():
            raise ExecutionError(
                f"{_count(state == IN_FLIGHT)} of {_name(view.allocation)} are read, but the copy "
                "that fills them may be on its way: no wait before covers its group"
            )
        foreign = (owner != view.allocation.number) & (owner != 0)
        if foreign.any():
            other = self.allocations[int(owner[foreign][0]) - 1]
            raise ExecutionError(
                f"{_count(foreign)} of {_name(view.allocation)} are read, but "
                f"{_name(other)} has written them: the buffers overlap"
            )
        return self.data[places].view(view.dtype).reshape(view.addresses.shape)

    def write(self, op: Operation, view: SharedSlice, tensor: Array) -> None:
        """Changes the elements of a view."""
        self._claim(view)
        self.data[view.places] = _bytes_of(tensor)
        self.state[view.places] = DEFINED

    def _claim(self, view: SharedSlice) -> None:
        """Makes the bytes of a view its buffer's, if nothing on its way needs them."""
        self._check_alive(view)
        places = view.places
        if (self.state[places] == IN_FLIGHT).any():
            raise ExecutionError(
                f"{_count(self.state[places] == IN_FLIGHT)} of {_name(view.allocation)} are "
                "written, but a copy is still to fill them"
            )
        if (self.readers[places] > 0).any():
            raise ExecutionError(
                f"{_count(self.readers[places] > 0)} of {_name(view.allocation)} are written, but "
                "a product on its way may still read them"
            )
        self._note(places, WRITTEN)
        self.owner[places] = view.allocation.number

    def _check_alive(self, view: SharedSlice) -> None:
        if view.allocation.freed:
            raise ExecutionError(f"{_name(view.allocation)} is used, but it was freed")

    # Asynchronous copies.

    def copy_asynchronously(
        self, op: Operation, view: SharedSlice, tensor: Array, barrier: Any = None
    ) -> None:
        """Starts a copy. Until it lands its bytes are those of NaN."""
        self._claim(view)
        self.data[view.places] = 0xFF
        self.state[view.places] = IN_FLIGHT
        made = PendingCopy(op, view, _bytes_of(tensor))
        if barrier is None:
            self.copies.append(made)
        else:
            self.barriers.setdefault(_barrier_key(barrier), []).append(made)

    def commit(self) -> None:
        """Makes the copies since the last commit a group, even if there are none."""
        self.groups.append(self.copies)
        self.copies = []

    def wait(self, pending: int) -> None:
        """Lands all groups but the last ones."""
        while len(self.groups) > pending:
            copies = self.groups.pop(0)
            self._land(copies)
            for copy in copies:  # what a thread has copied, others see after a barrier
                self.fresh[copy.view.places] |= WRITTEN

    def wait_for_barrier(self, op: Operation, view: SharedSlice, phase: int) -> None:
        """Lands the copies that a barrier counts."""
        self._land(self.barriers.pop(_barrier_key(view), []))

    def _land(self, copies: Sequence[PendingCopy]) -> None:
        for copy in copies:
            self.data[copy.view.places] = copy.data
            self.state[copy.view.places] = DEFINED

    # Asynchronous products.

    def read_asynchronously(self, op: Operation, operands: Sequence[Any]) -> None:
        """Notes that a product reads views until a wait for it."""
        views = [operand.places for operand in operands if isinstance(operand, SharedSlice)]
        for places in views:
            self.readers[places] += 1
        self.products.append(views)

    def wait_for_products(self, pending: int) -> None:
        """Ends all products but the last ones."""
        while len(self.products) > pending:
            for places in self.products.pop(0):
                self.readers[places] -= 1


def _checked(view: SharedSlice, type: Any) -> SharedSlice:
    """A view; if its elements are in one piece, they are in the order that its type says."""
    size = view.dtype.itemsize
    start = view.addresses.min()
    in_one_piece = view.addresses.max() - start == (view.addresses.size - 1) * size
    if in_one_piece and not np.array_equal(view.addresses - start, offsets_of(type) * size):
        raise ExecutionError(f"the elements of the view are not where its type says, {type}")
    return view


def _bytes_of(tensor: Array) -> Array:
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)


def _barrier_key(barrier: SharedSlice) -> int:
    return int(barrier.addresses.min())


def _count(where: Array) -> str:
    return f"{int(np.count_nonzero(where))} bytes"


def _name(allocation: AllocatedBuffer) -> str:
    span = allocation.op.describe_span()
    place = f" of line {span.line}" if span is not None else ""
    end = allocation.start + allocation.size
    return f"the buffer{place} at bytes {allocation.start} to {end}"
