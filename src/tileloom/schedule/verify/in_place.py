"""Reductions that work on a copy in place: copied in before each step, and back after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .flow import Flow, Update
from .model import Access, Memory


def started(flow: Flow, update: Update) -> Update:
    """The update with what its reduction starts from, looked up where copies in place came from.

    What a step gets from the copy is what the step before has left: the start is what was in the
    copied buffer before anything came back from the copy.
    """
    integers = flow.model.integers
    base, fresh = update.base, update.fresh
    for copy, source, back in _round_trips(flow, update):
        reached = base.intersect_range(copy.domain.to_union_set())
        if reached.is_empty():
            continue
        others = [w for w in source.memory.writes if w not in back]
        start = flow.last_before([(source.cell, source.time)], others)
        same = source.domain.identity().set_tuple_name(integers.in_dim, copy.name)
        loads = reached.apply_range(same.to_union_map())
        base = base.subtract(reached).union(loads.apply_range(start.last))
        fresh = fresh.union(loads.intersect_range(start.unwritten).domain())
    return replace(update, base=base, fresh=fresh)


def goes_round(flow: Flow, write: Access) -> bool:
    """Whether a store copies unfinished sums to or from where a reduction goes on with them."""
    return any(
        write is copy or write in back
        for update in flow.updates.values()
        for copy, _, back in _round_trips(flow, update)
    )


def copies_steps(flow: Flow, memory: Memory) -> bool:
    """Whether a reduction that works on a memory copies its sums there and back in its steps."""
    updates = (update for update in flow.updates.values() if update.write.memory is memory)
    return any(True for update in updates for _ in _round_trips(flow, update))


def _round_trips(flow: Flow, update: Update) -> Iterator[tuple[Access, Access, list[Access]]]:
    """Stores that copy into what a reduction works on, their loads, and the stores back.

    Copies may have copies: those into the buffer that the reduction works on come first.
    """
    memories = [update.write.memory] if update.is_reduction else []
    for memory in memories:
        for copy in memory.accesses:
            source = _copied(flow, copy)
            if source is None or source.memory in memories:
                continue
            back = [
                write
                for write in source.memory.accesses
                if (load := _copied(flow, write)) is not None and load.memory is memory
            ]
            if back:
                memories.append(source.memory)
                yield copy, source, back


def _copied(flow: Flow, write: Access) -> Access | None:
    """What a store copies, if it is known exactly."""
    if not (write.is_write and write.is_copy and write.exact):
        return None
    loads = [a for a in flow.model.reads() if a.statement == write.statement]
    alone = len(loads) == 1 and loads[0].exact and loads[0].dims == write.dims
    return loads[0] if alone else None
