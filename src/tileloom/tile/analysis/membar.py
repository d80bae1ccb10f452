"""Where threads of a block wait for each other, so that no access of shared memory races.

Accesses that no barrier has followed are pending. Before an operation whose access conflicts with
a pending one (a read after a write, a write after a read or a write) there is a barrier, which ends
all that is pending. What runs asynchronously is pending from the wait on that it is done with: each
thread waits for its own copies only. The state at a point is what may be pending on any path to it,
a fixed point over the function's graph. In the end each barrier is tried to be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..dialects.functions import callee_of
from ..ir.attributes import integer_value
from ..ir.core import Operation
from ..ir.definitions import definition_of
from .allocation import CALLS, FunctionAllocation, ModuleAllocation, SharedBuffer
from .shared_accesses import COMMITS, WAITS, ByteAccess, ByteAccesses

OLDEST = 9  # groups that are older count as this old
OWN_BARRIER = frozenset(
    ("tt.reduce", "tt.scan", "tt.histogram", "tt.gather", "ttg.convert_layout")
) | frozenset(("tt.atomic_rmw", "tt.atomic_cas"))  # between writing and reading their memory

Running = tuple[ByteAccess, int]  # asynchronous, and the groups that were ended since


@dataclass(frozen=True)
class SyncState:
    """What may be going on at a point.

    Fields:
        pending: accesses that no barrier has followed.
        running: asynchronous accesses that no wait has followed.
        entry: accesses that no barrier of this function has preceded on some path.
        synced: whether each path from the function's start has a barrier.
    """

    pending: frozenset[ByteAccess] = frozenset()
    running: frozenset[Running] = frozenset()
    entry: frozenset[ByteAccess] = frozenset()
    synced: bool = False

    def join(self, other: SyncState) -> SyncState:
        """What may be going on where two paths come together."""
        if self is other:
            return self
        return SyncState(
            self.pending | other.pending,
            self.running | other.running,
            self.entry | other.entry,
            self.synced and other.synced,
        )

    def after_barrier(self) -> SyncState:
        """The state after a barrier."""
        return SyncState(frozenset(), self.running, self.entry, True)

    def with_accesses(self, accesses: Iterable[ByteAccess]) -> SyncState:
        """The state after accesses."""
        made = list(accesses)
        now = frozenset(access for access in made if not access.queue)
        later = frozenset((access, 0) for access in made if access.queue)
        entry = self.entry if self.synced else self.entry.union(made)
        return SyncState(self.pending | now, self.running | later, entry, self.synced)

    def committed(self, queue: str) -> SyncState:
        """The state after the end of a group."""
        aged = frozenset(
            (access, min(age + 1, OLDEST)) if access.queue == queue else (access, age)
            for access, age in self.running
        )
        return SyncState(self.pending, aged, self.entry, self.synced)

    def waited(self, queue: str, left: int) -> SyncState:
        """The state after a wait that leaves the last groups running."""
        done = {
            (access, age)
            for access, age in self.running
            if access.queue == queue and (age > left or age == OLDEST)
        }
        finished = frozenset(
            ByteAccess(access.start, access.end, access.writes) for access, _ in done
        )
        return SyncState(self.pending | finished, self.running - done, self.entry, self.synced)


@dataclass
class SyncNode:
    """What a node of a function's graph does, read once."""

    op: Operation | None
    accesses: Sequence[ByteAccess] = ()
    scratch: SharedBuffer | None = None
    callee: SyncState | None = None
    targets: Sequence[int] = field(default_factory=list)

    @property
    def first_accesses(self) -> Iterable[ByteAccess]:
        """The accesses that what is pending may conflict with."""
        if self.callee is not None:
            return self.callee.entry
        if self.scratch is not None:
            return (ByteAccess(self.scratch.offset, self.scratch.end, True), *self.accesses)
        return self.accesses

    def races(self, state: SyncState) -> bool:
        """Whether a barrier is needed before the node."""
        return any(
            access.conflicts(earlier) for access in self.first_accesses for earlier in state.pending
        )

    def after(self, state: SyncState) -> SyncState:
        """The state after the node, of that before it."""
        op = self.op
        if op is None:
            return state
        if self.callee is not None:
            return _after_call(state, self.callee)
        if op.name in BARRIERS:
            return state.after_barrier()
        if op.name in WAITS:
            queue, attribute = WAITS[op.name]
            state = state.waited(queue, integer_value(op.attributes.get(attribute)) or 0)
        elif op.name in COMMITS:
            state = state.committed(COMMITS[op.name])
        if self.scratch is not None:
            start, end = self.scratch.offset, self.scratch.end
            state = state.with_accesses([ByteAccess(start, end, True)])
            if op.name in OWN_BARRIER:
                state = state.after_barrier()
            state = state.with_accesses([ByteAccess(start, end, False)])
        if self.accesses:
            state = state.with_accesses(self.accesses)
            for queue in {each.queue for each in self.accesses if each.queue}:
                if queue not in COMMITS.values():
                    state = state.committed(queue)
        return state


BARRIERS = frozenset({"gpu.barrier", "ttg.barrier"})


def _after_call(state: SyncState, callee: SyncState) -> SyncState:
    """After a call. A wait in the function may be for what ran before: that is pending too."""
    finished = frozenset(
        ByteAccess(access.start, access.end, access.writes) for access, _ in state.running
    )
    entry = state.entry if state.synced else state.entry | callee.entry
    pending = frozenset() if callee.synced else state.pending
    return SyncState(
        pending | finished | callee.pending,
        state.running | callee.running,
        entry,
        state.synced or callee.synced,
    )


class FunctionBarriers:
    """The barriers of a function: the nodes of its graph that one is before."""

    def __init__(self, allocation: FunctionAllocation, summaries: Mapping[str, SyncState]) -> None:
        self.graph = allocation.graph
        reader = ByteAccesses(allocation)
        self.nodes = [
            SyncNode(op, targets=[target for target, _ in tails])
            for op, tails in zip(self.graph.ops, self.graph.edges, strict=True)
        ]
        for node in self.nodes:
            if node.op is not None:
                _read_node(node, node.op, allocation, reader, summaries)
        self.sources = self.graph.predecessors()
        self.has_loops = any(t <= i for i, node in enumerate(self.nodes) for t in node.targets)
        self.barriers: set[int] = set()
        self.states: list[SyncState | None] = []
        self._place()
        self._leave_out()

    def _after(self, node: int, state: SyncState) -> SyncState:
        """The state after a node, with the barrier before it if there is one."""
        return self.nodes[node].after(state.after_barrier() if node in self.barriers else state)

    def _place(self) -> None:
        """Adds barriers in program order until nothing races. A race with what comes around a loop
        is found in the round after the barriers of the loop are known."""
        self.states = [None] * len(self.nodes)
        self._add_barriers()
        added = self.has_loops
        while added:
            self._solve()
            added = self._add_barriers()

    def _add_barriers(self) -> bool:
        """Goes through the nodes once; whether barriers were added. Around loops states of the
        last fixed point come in."""
        known, added = self.states, False
        self.states = [None] * len(self.nodes)
        for index, node in enumerate(self.nodes):
            state = self._before(index, known)
            if state is None:
                continue
            if index not in self.barriers and node.races(state):
                self.barriers.add(index)
                added = True
            self.states[index] = self._after(index, state)
        return added

    def _before(self, node: int, around: Sequence[SyncState | None]) -> SyncState | None:
        """The state before a node: of those after its sources, `around` of those behind it."""
        state = None if self.sources[node] else SyncState()
        for source in self.sources[node]:
            come = self.states[source] if source < node else around[source]
            if come is not None:
                state = come if state is None else state.join(come)
        return state

    def _solve(self) -> None:
        """Finds the states after all nodes, with the present barriers."""
        self.states = [None] * len(self.nodes)
        changed = True
        while changed:
            changed = False
            for index in range(len(self.nodes)):
                state = self._before(index, self.states)
                after = None if state is None else self._after(index, state)
                if after != self.states[index]:
                    self.states[index] = after
                    changed = self.has_loops

    def _races(self) -> bool:
        """Whether anything races with the present barriers."""
        for index, node in enumerate(self.nodes):
            if index in self.barriers or not node.first_accesses:
                continue
            state = self._before(index, self.states)
            if state is not None and node.races(state):
                return True
        return False

    def _leave_out(self) -> None:
        """Removes barriers that others make needless: along a straight line there are none."""
        if all(len(sources) < 2 for sources in self.sources):
            return
        for barrier in sorted(self.barriers):
            self.barriers.discard(barrier)
            self._solve()
            if self._races():
                self.barriers.add(barrier)
        self._solve()

    def summary(self) -> SyncState:
        """What a call of the function does."""
        made = None
        for node, state in zip(self.nodes, self.states, strict=True):
            if state is not None and node.op is not None and not node.targets:
                made = state if made is None else made.join(state)
        return made if made is not None else SyncState()

    def insert(self) -> None:
        """Puts the barriers into the function."""
        for index in sorted(self.barriers):
            op = self.nodes[index].op
            if op is not None:
                barrier = Operation(definition_of("gpu.barrier"), span=op.span)
                op.block_of().insert_before(op, barrier)


def _read_node(
    node: SyncNode,
    op: Operation,
    allocation: FunctionAllocation,
    reader: ByteAccesses,
    summaries: Mapping[str, SyncState],
) -> None:
    buffer = allocation.buffers.get(op)
    if op.name in CALLS:
        summary = summaries.get(callee_of(op))
        if summary is not None:
            node.callee = _moved(summary, buffer.offset if buffer is not None else 0)
        return
    node.accesses = reader.accesses(op)
    node.scratch = buffer if buffer is not None and buffer.is_scratch else None


def _moved(state: SyncState, offset: int) -> SyncState:
    """What a function does, at the place that its caller has for its memory."""
    return SyncState(
        frozenset(access.moved(offset) for access in state.pending),
        frozenset((access.moved(offset), age) for access, age in state.running),
        frozenset(access.moved(offset) for access in state.entry),
        state.synced,
    )


def insert_barriers(module: Operation) -> int:
    """Puts barriers into all functions of a module; gives their number."""
    allocation = ModuleAllocation(module, keep_offsets=True)
    summaries: dict[str, SyncState] = {}
    count = 0
    for name, function in allocation.functions.items():
        made = FunctionBarriers(function, summaries)
        summaries[name] = made.summary()
        made.insert()
        count += len(made.barriers)
    return count
