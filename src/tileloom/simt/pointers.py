"""Memory as instructions name it: by a pointer, or an access pointer, and an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..base import DType, dtype
from ..base.errors import UnsupportedError
from ..expr import Call, Expr, Var
from ..tir import Buffer, BufferLoad, make_buffer
from .defects import KernelDefect
from .memory import Allocation, ThreadAccess
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine


_PIECE = 16  # bytes


@dataclass(frozen=True, eq=False)
class PointedPlace:
    """A place in memory for each of some threads.

    Attributes:
        kind: of the elements that the pointer points to.
        index: of an element, for each thread.
    """

    machine: Machine
    lanes: Array
    data: Var
    kind: DType
    index: Array

    @property
    def memory(self) -> Allocation:
        """What the pointer points into."""
        return self.machine.memory[self.data]

    @property
    def buffer(self) -> Buffer:
        """The memory as elements."""
        return make_buffer((1,), self.kind, self.data.name)

    def elements(self, count: int) -> int:
        """How many elements lie in some bytes."""
        size = self.kind.numpy.itemsize
        if count % size:
            raise UnsupportedError(f"{count} bytes are no whole number of {self.kind}")
        return count // size

    def some(self, rows: Array) -> PointedPlace:
        """The places of some of the threads."""
        return PointedPlace(self.machine, self.lanes[rows], self.data, self.kind, self.index[rows])

    def expect(self, given: Array) -> None:
        """Bytes are under way to here, [threads, bytes], in these threads' open groups."""
        access = self._access(self.elements(given.shape[1]))
        self.memory.expect(access, np.ascontiguousarray(given).view(self.kind.numpy))

    def at(self, offsets: Array) -> Elements:
        """Elements so far after each thread's place, by whole pieces of neighbours if they are."""
        index = self.index[:, None] + offsets
        wide = _PIECE // self.kind.numpy.itemsize
        if self.memory.watched and wide > 1 and len(offsets) % wide == 0:
            pieces = index.reshape(-1, wide)
            if (pieces[:, 0] % wide == 0).all() and (np.diff(pieces, axis=1) == 1).all():
                lanes = np.repeat(self.lanes, len(offsets) // wide)
                return Elements(self.machine, lanes, self.data, self.kind, pieces)
        index = index.reshape(-1)
        return Elements(
            self.machine, np.repeat(self.lanes, len(offsets)), self.data, self.kind, index
        )

    def each(self, count: int) -> Elements:
        """The elements of some bytes from here on, one by one: they lie at no multiple of that."""
        return self.at(np.arange(self.elements(count)))

    def held(self, count: int) -> Array:
        """Bytes that each thread holds from here on, [threads, bytes]: of no alignment."""
        first = self._same_for_all(count)
        if first is not None:
            whole = len(self.lanes) == self.machine.batch.size
            found = self.memory.own(slice(None) if whole else self.lanes, first, count)
            if found is not None:
                return found
        return self.each(count).take().reshape(len(self.lanes), count)

    def hold(self, given: Array) -> None:
        """Give each thread bytes to hold from here on, [threads, bytes]."""
        count = given.shape[1]
        first = self._same_for_all(count)
        if first is None:
            self.each(count).put(given)
            return
        whole = len(self.lanes) == self.machine.batch.size
        self.memory.keep(slice(None) if whole else self.lanes, first, given)

    def _same_for_all(self, count: int) -> int | None:
        """The byte at which all threads begin, in arrays of their own; None if there is none."""
        start = int(self.index[0]) * self.kind.numpy.itemsize
        memory = self.memory
        if not memory.is_private or start < 0 or start + count > memory.data.shape[1]:
            return None
        return start if (self.index == self.index[0]).all() else None

    def load(self, count: int) -> Array:
        """Bytes from here on, [threads, bytes]; as one vector, which lies at a multiple of it."""
        found = self.memory.load(self._access(self.elements(count)))
        return np.ascontiguousarray(found).view(np.uint8).reshape(len(self.lanes), count)

    def lend(self, count: int) -> None:
        """These threads' open groups of copies read bytes from here on."""
        self.memory.lend(self._access(self.elements(count)))

    def store(self, given: Array) -> None:
        """Write bytes from here on, [threads, bytes]."""
        access = self._access(self.elements(given.shape[1]))
        self.memory.store(access, np.ascontiguousarray(given).view(self.kind.numpy))

    def defect(self, kind: str, what: str, rows: Array, hint: str | None = None) -> KernelDefect:
        """A defect of the threads in these rows."""
        stmt = self.machine.stmt
        places = self.machine.batch.places(self.lanes[rows])
        return KernelDefect(kind, what, stmt, places, stmt.span if stmt else None, hint)

    def _access(self, count: int) -> ThreadAccess:
        stmt = self.machine.stmt
        if stmt is None:
            raise UnsupportedError("an instruction outside of statements")
        index = self.index[:, None] + np.arange(count)
        return ThreadAccess(self.machine.batch, self.lanes, index, self.buffer, stmt)


class Elements(PointedPlace):
    """Elements or pieces of neighbours, each touched by a thread."""

    @property
    def access(self) -> ThreadAccess:
        """What the threads do."""
        stmt = self.machine.stmt
        if stmt is None:
            raise UnsupportedError("an instruction outside of statements")
        return ThreadAccess(self.machine.batch, self.lanes, self.index, self.buffer, stmt)

    def take(self) -> Array:
        """Their bytes."""
        return np.ascontiguousarray(self.memory.load(self.access)).reshape(-1).view(np.uint8)

    def look(self) -> Array:
        """Their bytes, which may be under way: for engines that take them as they come."""
        return np.ascontiguousarray(self.memory.look(self.access)).reshape(-1).view(np.uint8)

    def take_as_engine(self) -> Array:
        """Their bytes, which threads have fenced."""
        self.check_fenced("an engine reads", "ptx_fence_proxy_async")
        return self.take()

    def put(self, given: Array) -> None:
        """Write bytes."""
        self.memory.store(self.access, self._values(given))

    def expect_each(self, given: Array, group: int, again: bool = False) -> None:
        """Bytes are under way, in a group."""
        self.memory.expect(self.access, self._values(given), group, again)

    def land(self) -> None:
        """What was under way is there."""
        self.memory.land(self.access)

    def check_fenced(self, what: str, fence: str) -> None:
        """Refuse what threads wrote with no fence since."""
        self.memory.check_fenced(self.access, what, fence)

    def _values(self, given: Array) -> Array:
        values = np.ascontiguousarray(given).reshape(-1).view(np.uint8).view(self.kind.numpy)
        return values.reshape(self.index.shape)


def place(machine: Machine, pointer: Expr, index: Expr | None, lanes: Array) -> PointedPlace:
    """Where a pointer points to, `index` elements on.

    Raises:
        UnsupportedError: it is not known what memory it points into.
    """
    start = np.zeros(len(lanes), np.int64)
    data, kind = pointer, None
    if isinstance(pointer, Call) and pointer.op == "tir.tvm_access_ptr":
        kind, data = dtype(pointer.args[0].dtype), pointer.args[1]
        start = start + np.asarray(machine.value(pointer.args[2], lanes), np.int64)
    elif isinstance(pointer, Call) and pointer.op == "tir.address_of":
        load = pointer.args[0]
        if isinstance(load, BufferLoad) and len(load.indices) == 1:
            kind, data = load.buffer.dtype, load.buffer.data
            start = start + np.asarray(machine.value(load.indices[0], lanes), np.int64)
    elif isinstance(pointer, Var) and pointer.pointee is not None:
        kind = dtype(pointer.pointee[0])
    if not isinstance(data, Var) or kind is None or data not in machine.memory:
        raise UnsupportedError(f"no memory is known for {pointer}")
    if index is not None:
        start = start + np.asarray(machine.value(index, lanes), np.int64)
    start = np.broadcast_to(start, lanes.shape)
    return PointedPlace(machine, lanes, data, kind.element, start)


def scope_of(data: Var) -> str:
    """The scope of the memory that a pointer points into."""
    return "global" if data.pointee is None else data.pointee[1]
