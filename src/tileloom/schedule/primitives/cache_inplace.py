"""cache_inplace: let a block that changes a buffer work on a copy of it."""

from __future__ import annotations

from ...tir import Stmt
from ..analysis.cover import check_region_cover
from ..analysis.regions import check_declared, ranges_at
from ..analysis.scope import accessed_buffers, producers
from ..analysis.tree import child_blocks, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, ReadIndex, primitive
from ..state import ScheduleState
from ._cache import (
    Location,
    UseInstead,
    cache_buffer,
    check_parts_whole,
    copy_stage,
    domains_around,
    insert_cache,
    region_of,
)
from ._rebuild import index_in
from ._storage import check_scope


@primitive("CacheInplace")
def cache_inplace(
    state: ScheduleState, block: BlockRef, read_buffer_index: ReadIndex, storage_scope: str
) -> list[BlockRef]:
    """Copy what a block reads and writes before it, and back after it; answer both copies.

    The copies run when the block does: elsewhere a copy back might undo what others have written.

    Args:
        read_buffer_index: which of the buffers that the block reads; it must write it too.
        storage_scope: of the buffer that the block works on then.

    >>> import tileloom
    >>> from tileloom.script import from_source
    >>> f = from_source('''
    ... from tileloom.script import tir as T
    ... @T.prim_func
    ... def main(A: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("A"):
    ...             v = T.axis.spatial(8, i)
    ...             A[v] = A[v] * 2.0
    ... ''')
    >>> sch = tileloom.Schedule(f); first, last = sch.cache_inplace("A", 0, "local")
    >>> print(sch.get(sch.get_block("A")).body)
    A_local[v] = A_local[v] * T.float32(2.0)
    """
    check_scope(storage_scope, block)
    stmt, scope = block.block, scope_root(block)
    read = stmt.reads[read_buffer_index]
    buffer = read.buffer
    for reader in child_blocks(state, scope):
        if region_of(reader.block.reads, buffer) is not None:
            check_region_cover(state, reader)
    write = region_of(stmt.writes, buffer)
    if write is None:
        raise refuse(
            f"{name_of(block)} reads {buffer.name!r} but does not write it",
            at=[block],
            hint="use cache_read",
            fast="The target block does not both read & write target buffer.",
        )
    check_declared(state, block, buffer)
    check_parts_whole(state, block, buffer)
    made = any(buffer in accessed_buffers(state, g.block)[1] for g in producers(state, block))
    if buffer in scope.block.alloc_buffers and not made:
        raise refuse(
            f"nothing writes {buffer.name!r} before {name_of(block)}, so there is nothing to copy",
            at=[block],
            hint="use cache_write",
        )
    cache = cache_buffer(buffer, storage_scope)
    name = f"{buffer.name}_{storage_scope}"
    place = block.parent or scope
    outer = domains_around(place)
    realize = state.realize(block)
    runs = realize.predicate
    inward, outward = (tuple(ranges_at(realize, part.region)) for part in (read, write))
    before, first = copy_stage(inward, buffer, cache, name, None, outer, runs)
    after, last = copy_stage(outward, cache, buffer, name, None, outer, runs)
    location = Location(place, index_in(place, block))
    stages: list[tuple[int, Stmt]] = [(0, before), (1, after)]
    rewriter = UseInstead(buffer, cache, writes=True)
    insert_cache(state, scope, location, stages, [block], rewriter, cache)
    return [state.sref(first), state.sref(last)]
