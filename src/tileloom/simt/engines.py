"""What works beside the threads of a block: barriers in memory, and engines that copy and multiply.

A copy lands as late as can be: when no warp can go on without it. Who touches what it brings must
have waited at its barrier; who overwrites what it reads, for its group. As the warps themselves,
engines are actors with clocks (see `independent_warps`): the engine that copies is one, and each
warp has one that multiplies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..expr import Expr, Var
from ..target.instructions import PATTERN_BYTES
from .defects import KernelDefect
from .pointers import PointedPlace, place
from .thread_batch import Array

if TYPE_CHECKING:
    from .machine import Machine

UNDER_WAY = np.iinfo(np.int32).max  # the group of copies that no group is waited for


@dataclass(eq=False)
class Barrier:
    """A barrier in memory.

    Attributes:
        expected: arrivals of a phase; `pending` those still to come.
        bytes: that copies of this phase have still to bring.
        phase: how many are complete.
        seen: what those who arrived had seen; `done` the same of complete phases.
    """

    name: str
    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0
    seen: Array | None = None
    done: Array | None = None

    def know(self, known: Array) -> None:
        """Hand on what someone has seen to those who will wait."""
        self.seen = known if self.seen is None else np.maximum(self.seen, known)

    def settle(self) -> None:
        """Go on to the next phase if this one is complete."""
        if self.pending or self.bytes:
            return
        self.phase += 1
        self.pending = self.expected
        if self.seen is not None:
            self.done = self.seen if self.done is None else np.maximum(self.done, self.seen)


@dataclass(eq=False)
class _Copy:
    barrier: Barrier
    bytes: int
    target: PointedPlace
    offsets: Array  # of elements
    thread: int


@dataclass(eq=False)
class Waiting:
    """Whether a warp may go on; and what it waits for."""

    barrier: Barrier
    parity: int

    def __call__(self) -> bool:
        return self.barrier.phase % 2 != self.parity

    def reason(self) -> str:
        """What would let it go on."""
        b = self.barrier
        return (
            f"phase {b.phase} of barrier {b.name} lacks {b.pending} of {b.expected} arrivals and "
            f"{b.bytes} bytes"
        )


@dataclass(eq=False)
class _Groups:
    """Groups of what a thread or a warp has begun.

    Attributes:
        open: whether something has begun since the last one.
        known: what the engine had seen, of each group that nobody has waited for.
        begun: how many there were.
    """

    open: bool = False
    begun: int = 0
    known: deque[Array] = field(default_factory=deque)


class Engines:
    """The barriers and engines of one block."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.barriers: dict[tuple[Var, int], Barrier] = {}
        self.copies: deque[_Copy] = deque()
        self.stores: dict[int, _Groups] = {}  # by thread
        self.products: dict[int, _Groups] = {}  # by warp
        self.bases: dict[Var, int] = {}
        self.limit = 0

    # ------------------------------------------------------------------ addresses

    def address(self, data: Var) -> int:
        """Where an array begins in shared memory; each does where patterns do."""
        if data not in self.bases:
            self.bases[data] = self.limit
            size = self.machine.memory[data].data.shape[1]
            self.limit += -(-size // PATTERN_BYTES) * PATTERN_BYTES
        return self.bases[data]

    def array_at(self, address: int) -> tuple[Var, int] | None:
        """The array that has an address, and the byte in it."""
        for data, base in self.bases.items():
            if base <= address < base + self.machine.memory[data].data.shape[1]:
                return data, address - base
        return None

    # ------------------------------------------------------------------ barriers

    def start(self, pointer: Expr, count: int, lanes: Array) -> None:
        """Make barriers."""
        found = place(self.machine, pointer, None, lanes)
        if len(lanes) > 1 or count < 1:
            raise found.defect(
                "barrier", f"{len(lanes)} threads make a barrier of {count} arrivals", lanes[:0]
            )
        found.store(np.zeros((1, 8), np.uint8))
        offset = int(found.index[0])
        name = f"{found.data.name}[{offset}]"
        self.barriers[found.data, offset] = Barrier(name, count, count)

    def find(self, pointer: Expr, lanes: Array) -> Iterator[tuple[Barrier, Array]]:
        """The barriers that threads mean, each with those that mean it."""
        found = place(self.machine, pointer, None, lanes)
        found.load(8)
        for offset in np.unique(found.index):
            rows = np.flatnonzero(found.index == offset)
            barrier = self.barriers.get((found.data, int(offset)))
            if barrier is None:
                what = f"{found.data.name}[{offset}] is no barrier: nobody has made it one"
                raise found.defect("barrier", what, rows, "call ptx_mbarrier_init")
            yield barrier, lanes[rows]

    def arrive(self, barrier: Barrier, lanes: Array, bytes_: int = 0) -> None:
        """Some threads of a warp arrive, and expect so many bytes each."""
        batch = self.machine.batch
        barrier.bytes += bytes_ * len(lanes)
        barrier.know(batch.release(int(batch.warp[lanes[0]])))
        if len(lanes) > barrier.pending:
            raise self.defect(
                "barrier",
                f"{len(lanes)} threads arrive at {barrier.name}, which waits for {barrier.pending} "
                f"of {barrier.expected}",
                lanes,
            )
        barrier.pending -= len(lanes)
        barrier.settle()

    def wait(self, pointer: Expr, parity: Expr, lanes: Array) -> Iterator[Callable[[], bool]]:
        """Go on when the phase of a parity is complete."""
        batch = self.machine.batch
        parities = np.unique(np.asarray(self.machine.value(parity, lanes)))
        if len(parities) > 1 or int(parities[0]) not in (0, 1):
            raise self.defect("barrier", f"{parities.tolist()} is no parity", lanes)
        for barrier, _ in self.find(pointer, lanes):
            waiting = Waiting(barrier, int(parities[0]))
            while not waiting():
                yield waiting
            if barrier.done is not None:
                batch.learn(int(batch.warp[lanes[0]]), barrier.done)

    # ------------------------------------------------------------------ the engine that copies

    def begin(self, lane: int) -> int:
        """The engine goes on from what a thread has seen; its number as an actor."""
        batch = self.machine.batch
        batch.learn(batch.copier, batch.release(int(batch.warp[lane])))
        return batch.copier

    def bring(self, target: PointedPlace, offsets: Array, given: Array, barrier: Barrier) -> None:
        """One thread has elements copied to some places after one in shared memory."""
        (lane,) = target.lanes
        actor = self.begin(int(lane))
        with self.machine.batch.acting(target.lanes, actor):
            target.at(offsets).expect_each(given, UNDER_WAY)
        self.copies.append(_Copy(barrier, given.nbytes, target, offsets, int(lane)))

    def advance(self) -> bool:
        """Let the oldest copy land; False if there is none."""
        if not self.copies:
            return False
        copy = self.copies.popleft()
        copy.target.at(copy.offsets).land()
        copy.barrier.know(self.machine.batch.release(self.machine.batch.copier))
        copy.barrier.bytes -= copy.bytes
        if copy.barrier.bytes < 0:
            raise self.defect(
                "missing expect",
                f"a copy brings {copy.bytes} bytes, {-copy.barrier.bytes} more than barrier "
                f"{copy.barrier.name} expects",
                np.array([copy.thread]),
                "arrive with ptx_mbarrier_arrive_expect_tx, and with all bytes of the phase",
            )
        copy.barrier.settle()
        return True

    def finish(self) -> None:
        """The block ends: nothing may be under way."""
        if self.copies:
            thread = np.array([self.copies[0].thread])
            what = "a copy into shared memory is under way where the block ends"
            raise self.defect("missing wait", what, thread, "wait at its barrier")
        for lane, groups in self.stores.items():
            if groups.open or groups.known:
                what = "a copy out of shared memory is under way where the block ends"
                hint = "commit its group and wait for it"
                raise self.defect("missing wait", what, np.array([lane]), hint)

    # ------------------------------------------------------------------ groups

    def commit(self, table: dict[int, _Groups], key: int, actor: int) -> None:
        """What was begun since the last time is a group."""
        groups = table.setdefault(key, _Groups())
        groups.known.append(self.machine.batch.release(actor))
        groups.open, groups.begun = False, groups.begun + 1

    def wait_group(self, table: dict[int, _Groups], key: int, left: int, warp: int) -> int:
        """Wait until so many groups are left; how many are through, counted from the first."""
        groups = table.setdefault(key, _Groups())
        while len(groups.known) > left:
            self.machine.batch.learn(warp, groups.known.popleft())
        return groups.begun - len(groups.known)

    def note_begun(self, table: dict[int, _Groups], key: int) -> int:
        """Something begins that belongs to the next group; the group's number."""
        groups = table.setdefault(key, _Groups())
        groups.open = True
        return groups.begun

    def defect(self, kind: str, what: str, lanes: Array, hint: str | None = None) -> KernelDefect:
        """A defect of some threads in the statement that is run."""
        stmt = self.machine.stmt
        places = self.machine.batch.places(lanes)
        return KernelDefect(kind, what, stmt, places, stmt.span if stmt else None, hint)
