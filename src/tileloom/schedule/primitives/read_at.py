"""read_at, write_at: let the blocks in a loop work on a copy that one block makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...expr import (
    SPATIAL,
    Add,
    Analyzer,
    Expr,
    IterVar,
    Max,
    Min,
    Range,
    Var,
    binary,
    const,
    free_vars,
    post_order,
)
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Stmt,
    parts_of,
    seq,
)
from ..analysis.cover import check_stage_pipeline
from ..analysis.regions import (
    check_declared,
    lower_bound,
    path_domains,
    ranges_at,
    storage_rank,
    substituted,
    sure_writes,
)
from ..analysis.scope import accessed_buffers, block_scope
from ..analysis.starts import check_starts
from ..analysis.tree import (
    child_realizes,
    is_one,
    is_zero,
    lowest_common_ancestor,
    scope_root,
)
from ..errors import name_of, refuse
from ..instruction import BlockRef, LoopRef, ReadIndex, WriteIndex, primitive
from ..rewrite import nest
from ..sref import StmtSRef
from ..state import ScheduleState, copy_loop
from ._boxes import accessed_box, covers, first_load, made_whole
from ._cache import Region, UseInstead, cache_buffer, parts_make_whole, region_of
from ._domains import Box, hull_of
from ._rebuild import paths_to, rebuilt
from ._storage import check_scope

_TRUE = const(True)


@primitive("ReadAt")
def read_at(
    state: ScheduleState,
    loop: LoopRef,
    block: BlockRef,
    read_buffer_index: ReadIndex,
    storage_scope: str,
) -> BlockRef:
    """Copy what the blocks in a loop read of a buffer, before the first that reads it.

    One block makes the copy; it is annotated `auto_copy`, for a lowering that knows how to copy
    between these kinds of memory.

    Args:
        loop: around the block, in its scope.
        read_buffer_index: which of the buffers that the block reads.
        storage_scope: of the copy.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.read_at(sch.get_loops("B")[0], "B", 0, "shared")
    >>> print(sch.get(copy).body)
    for ax0, ax1 in T.grid(1, 4):
        A_shared[v0 + ax0, ax1] = A[v0 + ax0, ax1]
    """
    return _copy_at(state, loop, block, block.block.reads[read_buffer_index], storage_scope, True)


@primitive("WriteAt")
def write_at(
    state: ScheduleState,
    loop: LoopRef,
    block: BlockRef,
    write_buffer_index: WriteIndex,
    storage_scope: str,
) -> BlockRef:
    """Let the blocks in a loop write a copy of a buffer, and copy that back after the last.

    One block makes the copy; it is annotated `auto_copy`.

    Args:
        loop: around the block, in its scope.
        write_buffer_index: which of the buffers that the block writes.
        storage_scope: of the buffer that is written then.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8, 4), name="A")
    >>> B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> copy = sch.write_at(sch.get_loops("B")[0], "B", 0, "local")
    >>> print(sch.get(copy).body)
    for ax0, ax1 in T.grid(1, 4):
        B[v0 + ax0, ax1] = B_local[v0 + ax0, ax1]
    """
    return _copy_at(
        state, loop, block, block.block.writes[write_buffer_index], storage_scope, False
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """A block in the loop, and which statement of the loop's body it is in."""

    block: StmtSRef
    index: int
    reads: bool
    writes: bool


def _copy_at(
    state: ScheduleState,
    loop: StmtSRef,
    block: StmtSRef,
    region: BufferRegion,
    storage_scope: str,
    is_read: bool,
) -> StmtSRef:
    check_scope(storage_scope, block)
    scope = scope_root(loop)
    check_stage_pipeline(state, scope)
    buffer = region.buffer
    uses = _uses(state, loop, buffer)
    start, end, position = _span(loop, block, uses, buffer, is_read)
    cache = cache_buffer(buffer, storage_scope)
    outer = {s.loop.loop_var: s.loop.domain for s in [loop, *loop.ancestors()] if s.is_loop}
    users = [use.block for use in uses if start <= use.index < end]
    chosen = [u.block for u in uses if (u.reads if is_read else u.writes)]
    domain = _domain(state, loop, chosen, buffer, storage_scope, outer, is_read)
    if is_read:
        _check_made(state, loop, chosen, buffer, domain, storage_scope, outer)
    else:
        for writer in chosen:
            if region_of(writer.block.writes, buffer) is None:
                raise refuse(
                    f"{name_of(writer)} does not declare what it writes of {buffer.name!r}",
                    at=[writer],
                    hint="take this step before loop_partition",
                )
            if writer.block.init is not None:
                check_starts(state, writer, buffer, "a copy")
        _check_written(state, loop, chosen, users, buffer, domain, storage_scope, outer)
    source, target = (buffer, cache) if is_read else (cache, buffer)
    realize = _copy_realize(source, target, domain, outer, f"{buffer.name}_{storage_scope}")
    rewriter = UseInstead(buffer, cache, writes=True)
    changes: dict[Stmt, Stmt | None] = {u.block: rewriter.visit(u.block) for u in users}
    path = paths_to([loop, *users])
    body = rebuilt(loop.loop.body, path, changes)
    parts = list(parts_of(body or realize))
    parts.insert(position, realize)
    changes[loop.loop] = copy_loop(loop.loop, seq(*parts))
    whole = rebuilt(scope.block.body, path, changes)
    old = scope.block
    new = old.replace(body=whole, alloc_buffers=(*old.alloc_buffers, cache))
    state.replace(scope, new, rewriter.block_map)
    return state.sref(realize.block)


def _uses(state: ScheduleState, loop: StmtSRef, buffer: Buffer) -> list[_Use]:
    body = loop.loop.body
    found = []
    for i, part in enumerate(parts_of(body)):
        realizes = (part,) if isinstance(part, BlockRealize) else child_realizes(state, part)
        for realize in realizes:
            read, written = accessed_buffers(state, realize.block)
            reads, writes = buffer in read, buffer in written
            if reads or writes:
                found.append(_Use(state.sref(realize.block), i, reads, writes))
    return found


def _span(
    loop: StmtSRef, block: StmtSRef, uses: Sequence[_Use], buffer: Buffer, is_read: bool
) -> tuple[int, int, int]:
    """Which statements use the copy, from one to before another, and where it is made."""
    if all(use.block is not block for use in uses):
        raise refuse(f"{name_of(block)} is not in {name_of(loop)}", at=[block, loop])
    reads = [use.index for use in uses if use.reads]
    writes = [use.index for use in uses if use.writes]
    if is_read:
        first = min(reads)
        late = next((u for u in uses if u.writes and u.index >= first), None)
        if late is not None:
            raise refuse(
                f"{name_of(late.block)} writes {buffer.name!r} after it has been read in "
                f"{name_of(loop)}",
                at=[loop, late.block],
            )
        return first, 1 << 30, first
    last = max(writes)
    late = next((u for u in uses if u.reads and u.index > last), None)
    if late is not None and reads:
        raise refuse(
            f"{name_of(late.block)} reads {buffer.name!r} after the last write in {name_of(loop)}",
            at=[loop, late.block],
        )
    return 0, last + 1, last + 1


def _box(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, reads: bool
) -> tuple[list[Range], Expr]:
    """What a block touches, in terms of the loops around it, and when."""
    realize = state.realize(block)
    region = region_of(block.block.reads if reads else block.block.writes, buffer)
    parts = BufferRegion.full(buffer).region if region is None else region.region
    return ranges_at(realize, parts), realize.predicate


def _domain(
    state: ScheduleState,
    loop: StmtSRef,
    blocks: Sequence[StmtSRef],
    buffer: Buffer,
    storage_scope: str,
    outer: dict[Var, Range],
    reads: bool,
) -> Region:
    """The region that the blocks touch in one iteration of the loop."""
    boxes: list[Box] = []
    for block in blocks:
        if not reads:
            check_declared(state, block, buffer)
        parts, _ = _box(state, block, buffer, reads)
        running = path_domains(block, loop, _shared(storage_scope))
        fixed = {var: domain for var, domain in outer.items() if var not in running}
        boxes.append(accessed_box(parts, running, _TRUE, fixed))
        _check_known(block, buffer, boxes[-1])
    # A loop with one iteration stays visible: regions should say what they follow.
    analyzer = Analyzer({var: own for var, own in outer.items() if not is_one(own.extent)})
    result = []
    for (low, high), size in zip(hull_of(analyzer, boxes), buffer.shape, strict=True):
        start = const(0, size.dtype) if low is None else analyzer.simplify(low)
        last = size - 1 if high is None else analyzer.simplify(high)
        if not analyzer.can_prove(start >= 0):
            start = analyzer.simplify(binary(Max, start, const(0, start.dtype)))
        if not analyzer.can_prove(last < size):
            last = analyzer.simplify(binary(Min, last, size - 1))
        result.append(Range(start, analyzer.simplify(last - start + 1)))
    return tuple(result)


def _check_known(block: StmtSRef, buffer: Buffer, box: Box) -> None:
    """Refuse where data says which elements are touched."""
    load = first_load(box)
    if load is not None:
        raise refuse(
            f"which part of {buffer.name!r} {name_of(block)} touches depends on data, the "
            f"elements of {load.buffer.name!r}",
            at=[block],
        )


def _shared(storage_scope: str) -> str | None:
    """The storage scope, if the threads of a block make its contents together."""
    return storage_scope if storage_rank(storage_scope) > 0 else None


def _check_made(
    state: ScheduleState,
    loop: StmtSRef,
    readers: Sequence[StmtSRef],
    buffer: Buffer,
    domain: Region,
    storage_scope: str,
    outer: dict[Var, Range],
) -> None:
    """Refuse where the copy would read between what is read now, which nobody may have written."""
    scope = scope_root(loop)
    writers = [state.sref(w) for w in block_scope(state, scope.block).writers.get(buffer, ())]
    if not writers:
        return
    shared = _shared(storage_scope)
    for reader in readers:
        region = region_of(reader.block.reads, buffer) or BufferRegion.full(buffer)
        if _holds(state, reader, region, path_domains(reader, loop, shared), outer, domain):
            return
    full = BufferRegion.full(buffer)
    for writer in writers:
        made = region_of(sure_writes(state, writer.block), buffer)
        apart = lowest_common_ancestor([writer, loop]) is scope
        apart = apart and parts_make_whole(state, writer, buffer)
        running = path_domains(writer, scope)
        if apart and made and _holds(state, writer, made, running, {}, full.region):
            return
    raise refuse(
        f"the blocks in {name_of(loop)} may read only some of the elements of {buffer.name!r} in "
        "a box around them, so a copy of the box would read what may not be written",
        at=[loop, *readers],
        hint="let loops read whole boxes, by factors that divide",
    )


def _holds(
    state: ScheduleState,
    block: StmtSRef,
    region: BufferRegion,
    running: dict[Var, Range],
    outer: dict[Var, Range],
    domain: Region,
) -> bool:
    """Whether a block touches all of a domain while loops run."""
    box = made_whole(state, block, region, running, outer)
    return covers(box, domain, Analyzer(outer))


def _check_written(
    state: ScheduleState,
    loop: StmtSRef,
    writers: Sequence[StmtSRef],
    users: Sequence[StmtSRef],
    buffer: Buffer,
    domain: Region,
    storage_scope: str,
    outer: dict[Var, Range],
) -> None:
    """Refuse where the copy would hold what was never written to it."""
    analyzer = Analyzer(outer)
    for user in users:
        reads = user.block.init is None and region_of(user.block.reads, buffer) is not None
        if not reads and user in writers and parts_make_whole(state, user, buffer):
            parts, predicate = _box(state, user, buffer, reads=False)
            running = path_domains(user, loop, _shared(storage_scope))
            if covers(lower_bound(parts, running, predicate, analyzer), domain, analyzer):
                return
            region = region_of(user.block.writes, buffer) or BufferRegion.full(buffer)
            if _holds(state, user, region, running, outer, domain):
                return
        if reads:
            raise refuse(
                f"{name_of(user)} reads {buffer.name!r} before {name_of(loop)} has written all of "
                "it, so the copy would not hold it",
                at=[loop, user],
            )
    raise refuse(
        f"{name_of(loop)} may leave elements of {buffer.name!r} unwritten, which a copy of the "
        "whole region would overwrite",
        at=[loop, *writers],
    )


def _copy_realize(
    source: Buffer, target: Buffer, domain: Region, outer: dict[Var, Range], name: str
) -> BlockRealize:
    """A block that copies a region; the loops outside are its iteration variables."""
    axes: dict[Var, IterVar] = {}
    for part in domain:
        for expr in (part.min, part.extent):
            for var in _in_order(expr):
                if var in outer and var not in axes:
                    own = Var(f"v{len(axes)}", var.dtype)
                    axes[var] = IterVar(outer[var], own, SPATIAL)
    inside: dict[Var, Expr] = {var: axis.var for var, axis in axes.items()}
    region = tuple(substituted(domain, inside))
    loops = [(Var(f"ax{i}"), part.extent) for i, part in enumerate(region)]
    indices = [
        var if is_zero(part.min) else binary(Add, part.min, var)
        for part, (var, _) in zip(region, loops, strict=True)
    ]
    store = BufferStore(target, BufferLoad(source, indices), tuple(indices))
    block = Block(
        tuple(axes.values()),
        (BufferRegion(source, region),),
        (BufferRegion(target, region),),
        name,
        nest(loops, store),
        annotations={"auto_copy": True},
    )
    return BlockRealize(tuple(axes), _TRUE, block)


def _in_order(expr: Expr) -> list[Var]:
    """The variables of an expression in order of appearance."""
    if isinstance(expr, Var):
        return [expr]
    used = free_vars(expr)
    return [node for node in post_order(expr) if isinstance(node, Var) and node in used]
