"""cache_write: let a block write into other memory, and copy the result to where it belongs."""

from __future__ import annotations

from ...expr import Analyzer, Expr, conjunction, const
from ...tir import Buffer, BufferRegion, For
from ..analysis.cover import quickly_covered
from ..analysis.order import rows_apart
from ..analysis.regions import check_declared, conjuncts, lower_bound, path_domains, ranges_at
from ..analysis.scope import accessed_buffers, block_scope, consumers
from ..analysis.starts import check_starts
from ..analysis.tree import child_blocks, is_one, loops_above, lowest_common_ancestor, scope_root
from ..errors import name_of, refuse
from ..instruction import BlockRef, WriteIndex, primitive
from ..sref import StmtSRef
from ..state import ScheduleState
from ._boxes import accessed_box, covers, outer_condition
from ._cache import (
    Region,
    UseInstead,
    before_first,
    cache_buffer,
    check_made_whole,
    consumers_in,
    copy_stage,
    domains_around,
    insert_cache,
    offset_rules,
    only_writer,
    own_shape,
    parts_make_whole,
    region_of,
    written_region,
)
from ._storage import check_scope


@primitive("CacheWrite", skip_empty=["consumer_blocks"])
def cache_write(
    state: ScheduleState,
    block: BlockRef,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    consumer_blocks: list[BlockRef] | None = None,
) -> BlockRef:
    """Let a block write a buffer of another storage scope, and copy that back; answer the copy.

    Args:
        write_buffer_index: which of the buffers that the block writes; no other block of the scope
            may write it.
        storage_scope: of the new buffer.
        consumer_blocks: blocks that read the new buffer; the others read the copy.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.cache_write("B", 0, "local")
    >>> print(sch.get(copy).body)
    B[v0] = B_local[v0]
    """
    check_scope(storage_scope, block)
    written = block.block.writes[write_buffer_index]
    buffer, scope = written.buffer, scope_root(block)
    only_writer(state, scope, buffer)
    if state.enable_check:
        check_starts(state, block, buffer, "a cache")
        _check_read_before(state, block, buffer)
    check_declared(state, block, buffer)
    listed = consumers_in(block, consumer_blocks)
    others = [s for s in consumers(state, block) if s not in listed]
    order = block_scope(state, scope.block).blocks
    location = before_first(block, others, scope, order)
    outer = domains_around(location.place)
    given = outer_condition(state.realize(block), outer)
    region = written_region(state, block, written, location.place, given)
    if buffer in scope.block.alloc_buffers:
        check_made_whole(state, block, written, location.place, given)
    elif state.enable_check:
        _check_all_written(state, block, written, location.place, region, given)
    whole = own_shape(region, scope, location)
    own, region = whole is not None, whole or region
    cache = cache_buffer(buffer, storage_scope, [p.extent for p in region] if own else None)
    name = f"{buffer.name}_{storage_scope}"
    inside = buffer if own else None
    stage, copy = copy_stage(region, cache, buffer, name, inside, outer, given)
    indices, regions = offset_rules(region) if own else (None, None)
    rewriter = UseInstead(buffer, cache, indices, regions, writes=True)
    insert_cache(state, scope, location, [(0, stage)], [block, *listed], rewriter, cache)
    return state.sref(copy)


def _check_read_before(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> None:
    """Refuse where a block before this one reads what this one has written an iteration before."""
    for reader in child_blocks(state, scope_root(block)):
        if reader is block:
            return
        place = lowest_common_ancestor([reader, block])
        reads = buffer in accessed_buffers(state, reader.block)[0]
        if reads and place.is_loop and not _access_the_same(state, reader, block, place, buffer):
            raise refuse(
                f"{name_of(reader)} may read what {name_of(block)} writes to {buffer.name!r} in an "
                f"iteration of {name_of(place)} before, and the copy would come too late",
                at=[block, reader],
                hint="cache the buffer before blocks are moved under one loop",
            )


def _access_the_same(
    state: ScheduleState, reader: StmtSRef, writer: StmtSRef, place: StmtSRef, buffer: Buffer
) -> bool:
    """Whether two blocks touch the same box in an iteration, which no other iteration touches."""
    around = [s.loop for s in [*loops_above(place), place] if not is_one(s.loop.extent)]
    outer = {loop.loop_var: loop.domain for loop in around}
    boxes = []
    for block, regions in ((reader, reader.block.reads), (writer, writer.block.writes)):
        region = region_of(regions, buffer)
        if region is None:
            return False
        parts = ranges_at(state.realize(block), region.region)
        boxes.append(accessed_box(parts, path_domains(block, place), const(True), outer))
    known = Analyzer(outer)
    ends = [pair for a, b in zip(*boxes, strict=True) for pair in zip(a, b, strict=True)]
    return rows_apart(boxes[1], around) and all(
        x is not None and y is not None and known.can_prove_equal(x, y) for x, y in ends
    )


def _check_all_written(
    state: ScheduleState,
    block: StmtSRef,
    written: BufferRegion,
    place: StmtSRef,
    region: Region,
    given: Expr,
) -> None:
    """Refuse where the copy would put what was never written over what is seen outside."""
    realize = state.realize(block)
    parts = ranges_at(realize, written.region)
    inside = path_domains(block, place)
    whole, known = parts_make_whole(state, block, written.buffer), set(conjuncts(given))
    condition = conjunction(p for p in conjuncts(realize.predicate) if p not in known)
    if whole and quickly_covered(parts, inside, condition, region, {}, written.buffer):
        return
    analyzer = Analyzer()
    for sref in [place, *place.ancestors()]:
        if isinstance(sref.stmt, For):
            analyzer.bind(sref.loop.loop_var, sref.loop.domain)
    box = lower_bound(parts, inside, condition, analyzer)
    if whole and covers(box, region, analyzer):
        return
    buffer: Buffer = written.buffer
    raise refuse(
        f"{name_of(block)} may leave elements of {buffer.name!r} unwritten, which a copy of the "
        "whole region would overwrite",
        at=[block],
        hint="only a region that is written completely can be cached",
    )
