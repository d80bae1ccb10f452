"""cache_read: copy a buffer into other memory before blocks read it."""

from __future__ import annotations

from collections.abc import Sequence

from ...tir import Block, Buffer, BufferRegion
from ..analysis.cover import check_region_cover
from ..analysis.regions import sure_writes
from ..analysis.scope import block_scope, consumers
from ..analysis.tree import (
    child_blocks,
    is_one,
    loops_above,
    lowest_common_ancestor,
    scope_root,
)
from ..errors import name_of, refuse
from ..instruction import BlockRef, ReadIndex, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._cache import (
    Location,
    UseInstead,
    before_first,
    cache_buffer,
    check_made_whole,
    check_parts_whole,
    clipped,
    consumers_in,
    copy_stage,
    domains_around,
    insert_cache,
    offset_rules,
    only_writer,
    own_shape,
    region_of,
    written_region,
)
from ._storage import check_scope


@primitive("CacheRead", skip_empty=["consumer_blocks"])
def cache_read(
    state: ScheduleState,
    block: BlockRef,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    consumer_blocks: list[BlockRef] | None = None,
) -> BlockRef:
    """Copy a buffer that a block reads into a buffer of another storage scope; answer the copy.

    The copy comes after the block that writes the buffer, or at the start of the scope.

    Args:
        read_buffer_index: which of the buffers that the block reads.
        storage_scope: of the new buffer.
        consumer_blocks: the blocks that read the copy; all that read the buffer if none is given.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.cache_read("B", "A", "shared")
    >>> print(sch.get(copy).body)
    A_shared[v0] = A[v0]
    """
    check_scope(storage_scope, block)
    buffer = block.block.reads[read_buffer_index].buffer
    scope = scope_root(block)
    readers = [s for s in child_blocks(state, scope) if region_of(s.block.reads, buffer)]
    for reader in readers:
        check_region_cover(state, reader)
    listed = consumers_in(block, consumer_blocks)
    users = [s for s in listed or readers if region_of(s.block.writes, buffer) is None]
    writer = only_writer(state, scope, buffer)
    if writer is not None and not listed:
        users = _alike(state, scope, block, writer, users)
    location, region = _source(state, scope, buffer, writer, users)
    whole = own_shape(region.region, scope, location)
    own, box = whole is not None, whole or region.region
    cache = cache_buffer(buffer, storage_scope, [p.extent for p in box] if own else None)
    stage, copy = copy_stage(
        box,
        buffer,
        cache,
        f"{buffer.name}_{storage_scope}",
        buffer if own else None,
        domains_around(location.place),
    )
    indices, regions = offset_rules(box) if own else (None, None)
    rewriter = UseInstead(buffer, cache, indices, regions)
    insert_cache(state, scope, location, [(0, stage)], users, rewriter, cache)
    return state.sref(copy)


def _alike(
    state: ScheduleState,
    scope: StmtSRef,
    block: StmtSRef,
    writer: StmtSRef,
    users: list[StmtSRef],
) -> list[StmtSRef]:
    """The blocks that read what `block` does: what was there before the writer, or what it made."""
    order = block_scope(state, scope.block).blocks
    place = {known: i for i, known in enumerate(order)}
    early = place[block.block] < place[writer.block]
    return [s for s in users if (place[s.block] < place[writer.block]) == early]


def _source(
    state: ScheduleState,
    scope: StmtSRef,
    buffer: Buffer,
    writer: StmtSRef | None,
    users: list[StmtSRef],
) -> tuple[Location, BufferRegion]:
    """Where the copy is made, and of what."""
    root: Block = scope.block
    order = block_scope(state, root).blocks
    early = [] if writer is None else [s for s in users if _is_before(order, s, writer)]
    for reader in early:
        _check_early(buffer, reader, writer, users, early)
    if writer is None or early:
        whole = region_of(root.reads, buffer)
        if whole is None:
            _check_made_outside(state, scope, buffer)
            whole = BufferRegion.full(buffer)
        check_parts_whole(state, scope, buffer)
        parts = zip(whole.region, buffer.shape, strict=True)
        inside = tuple(clipped(part, size) for part, size in parts)
        return Location(scope, 0), BufferRegion(buffer, inside)
    location = before_first(writer, users or consumers(state, writer), scope, order)
    sure = sure_writes(state, writer.block)
    written = region_of(sure, buffer)
    if written is None and location.place.is_loop:
        raise refuse(
            f"{name_of(writer)} does not declare what it writes to {buffer.name!r}, so it is not "
            f"known what an iteration of {name_of(location.place)} makes of it",
            at=[writer, location.place],
            hint="take this step before loop_partition",
        )
    written = written or BufferRegion.full(buffer)
    check_made_whole(state, writer, written, location.place)
    box = written_region(state, writer, written, location.place)
    return location, BufferRegion(buffer, box)


def _check_made_outside(state: ScheduleState, scope: StmtSRef, buffer: Buffer) -> None:
    """Refuse to copy all of what others may have made in part by now."""
    for outer in scope.ancestors():
        writers = block_scope(state, outer.block).writers if outer.is_block else {}
        if buffer in writers:
            raise refuse(
                f"{name_of(scope)} does not declare what it reads of {buffer.name!r}, which "
                f"{writers[buffer][0].name_hint!r} writes, so it is not known what is there",
                at=[scope],
                hint="take this step before loop_partition",
            )


def _is_before(order: Sequence[Block], a: StmtSRef, b: StmtSRef) -> bool:
    return order.index(a.block) < order.index(b.block)


def _check_early(
    buffer: Buffer,
    reader: StmtSRef,
    writer: StmtSRef | None,
    users: list[StmtSRef],
    early: list[StmtSRef],
) -> None:
    """Refuse one copy for what a buffer holds before and after it is written."""
    if writer is None:
        return
    if len(early) < len(users):
        raise refuse(
            f"some of the blocks read {buffer.name!r} before {name_of(writer)} writes it, and some "
            "after that",
            at=[writer, *users],
            hint="make two copies",
        )
    place = lowest_common_ancestor([reader, writer])
    shared = [place, *loops_above(place)] if place.is_loop else []
    if not all(is_one(sref.loop.extent) for sref in shared):
        raise refuse(
            f"{name_of(reader)} reads what {name_of(writer)} writes in an iteration before",
            at=[reader, writer],
        )
