"""Caches with a layout of the user's: what reindex_cache_read and reindex_cache_write share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.errors import UserError
from ...expr import (
    SPATIAL,
    Analyzer,
    And,
    Expr,
    IndexMap,
    IterVar,
    Var,
    binary,
    const,
    free_vars,
    free_vars_of,
    post_order,
    substitute,
)
from ...tir import Block, BlockRealize, Buffer, BufferLoad, BufferRegion, For, Stmt, make_buffer
from ..analysis.additions import addition_of
from ..analysis.cover import check_stage_pipeline
from ..analysis.order import repetition_fault
from ..analysis.regions import conjuncts
from ..analysis.scope import block_scope, consumers
from ..analysis.starts import check_starts
from ..analysis.tree import is_one, loops_above, scope_root
from ..errors import name_of, refuse
from ..rewrite import under_copies
from ..sref import StmtSRef
from ..state import ScheduleState
from ._cache import (
    Location,
    UseInstead,
    before_first,
    copy_block,
    insert_cache,
    only_writer,
    region_of,
)
from ._inline import same_under, solved_for
from ._rebuild import index_in
from ._storage import check_scope
from ._write_back import IntoCache, WriteBack, location_after
from .reindex import check_inside


def reindex_cache(
    state: ScheduleState,
    block: StmtSRef,
    region: BufferRegion,
    storage_scope: str,
    index_map: IndexMap,
    *,
    is_read: bool,
    back: WriteBack | None = None,
) -> StmtSRef:
    """Let a block access a cache at indices of the user's; answer the block that copies.

    Args:
        back: how the cache gets to where it belongs, if that is more than a copy.
    """
    check_scope(storage_scope, block)
    scope, stmt, buffer = scope_root(block), block.block, region.buffer
    check_stage_pipeline(state, scope)
    old = _single_point(block, region)
    location = _location(state, block, scope, buffer, old, is_read, back)
    added = None if back is None else back.added
    other = stmt.writes if is_read else stmt.reads if stmt.init is None else ()
    if region_of(other, buffer) is not None and added is None:
        raise refuse(f"{name_of(block)} both reads and writes {buffer.name!r}", at=[block])
    if not is_read and added is None:
        check_starts(state, block, buffer, "a cache")
    new, shape = _mapped(block, index_map)
    kept = _kept_axes(block, old, new)
    _check_distinct(block, kept, old, new)
    if added is None:  # which every instance does
        check_inside(block, buffer, old, instances=True)
    name = f"{buffer.name}_{storage_scope}"
    cache = make_buffer(
        shape, str(buffer.dtype), name, scope=storage_scope, data_alignment=buffer.data_alignment
    )
    finish = None if back is None else back.finished
    stage, copy = _stage(
        state, block, location.place, kept, buffer, cache, old, new, name, is_read, finish
    )
    if back is None or is_read:
        rewriter = UseInstead.at(buffer, cache, new, writes=not is_read)
    else:
        rewriter = IntoCache(stmt, buffer, cache, new, back)
    insert_cache(state, scope, location, [(0, stage)], [block], rewriter, cache)
    return state.sref(copy)


def _location(
    state: ScheduleState,
    block: StmtSRef,
    scope: StmtSRef,
    buffer: Buffer,
    old: Sequence[Expr],
    is_read: bool,
    back: WriteBack | None,
) -> Location:
    if not is_read and back is not None:
        return location_after(state, block, scope, buffer)
    writer = only_writer(state, scope, buffer)
    first = _when_known(state, block, scope, buffer, old, writer) if is_read else 0
    if writer is None:
        return Location(scope, first)
    order = block_scope(state, scope.block).blocks
    readers = [block] if is_read else consumers(state, block)
    return before_first(writer, readers, scope, order)


def _when_known(
    state: ScheduleState,
    block: StmtSRef,
    scope: StmtSRef,
    buffer: Buffer,
    old: Sequence[Expr],
    writer: StmtSRef | None,
) -> int:
    """Before which statement of a scope it is known what is read, as indices are made by then.

    Refuses indices that are made too late for a copy.
    """
    made, first = block_scope(state, scope.block).writers, 0
    for load in (n for index in old for n in post_order(index) if isinstance(n, BufferLoad)):
        for maker in made.get(load.buffer, ()):
            after = index_in(scope, state.sref(maker)) + 1
            if writer is not None or after > index_in(scope, block):
                raise refuse(
                    f"which elements of {buffer.name!r} {name_of(block)} reads is in "
                    f"{load.buffer.name!r}, which {maker.name_hint!r} writes",
                    at=[block, state.sref(maker)],
                    hint="use reindex",
                )
            first = max(first, after)
    return first


def _single_point(block: StmtSRef, region: BufferRegion) -> list[Expr]:
    wide = next((part for part in region.region if not is_one(part.extent)), None)
    if wide is not None:
        raise refuse(
            f"{name_of(block)} accesses {wide.extent} elements of {region.buffer.name!r} along an "
            "axis, not one",
            at=[block],
            fast="The buffer region accessed inside the block is not a single point.",
        )
    return [part.min for part in region.region]


def _mapped(block: StmtSRef, index_map: IndexMap) -> tuple[list[Expr], list[Expr]]:
    """The indices into the cache, and its shape."""
    axes = block.block.iter_vars
    analyzer = Analyzer()
    extents = [analyzer.simplify(axis.domain.min + axis.domain.extent) for axis in axes]
    try:
        index_map = index_map.fitting(extents)
        new = index_map.map_indices([axis.var for axis in axes], analyzer)
        return new, index_map.map_shape(extents, analyzer)
    except UserError as error:
        raise refuse(f"the index map does not fit {name_of(block)}: {error}", at=[block]) from None


def _kept_axes(block: StmtSRef, old: Sequence[Expr], new: Sequence[Expr]) -> list[IterVar]:
    """The iteration variables of the access, which must be those of the new indices."""
    before, after = free_vars_of(old), free_vars_of(new)
    for axis in block.block.iter_vars:
        if (axis.var in before) != (axis.var in after):
            here, there = ("buffer", "cache") if axis.var in before else ("cache", "buffer")
            raise refuse(
                f"the iteration variable {axis.var.name!r} is in the indices into the {here}, but "
                f"not in those into the {there}",
                at=[block],
                fast="the block itervars appeared in lhs and rhs of reindex cache stage do not "
                "match.",
            )
    return [axis for axis in block.block.iter_vars if axis.var in after]


def _check_distinct(
    block: StmtSRef, kept: Sequence[IterVar], old: Sequence[Expr], new: Sequence[Expr]
) -> None:
    """Refuse a map that puts different elements into one place."""
    analyzer = Analyzer({axis.var: axis.domain for axis in kept})
    there = {analyzer.simplify(index) for index in new}
    plain = frozenset(index for index in new if isinstance(index, Var))
    if all(free_vars(index) <= plain or analyzer.simplify(index) in there for index in old):
        return  # the place tells the element
    back = solved_for(kept, new, new, "none")
    if back is not None and same_under(analyzer, list(back.items())):
        return
    raise refuse(
        f"the index map may put several elements that {name_of(block)} accesses into one place",
        at=[block],
        hint="use a map that tells all iteration variables apart",
    )


def _stage(
    state: ScheduleState,
    block: StmtSRef,
    place: StmtSRef,
    kept: Sequence[IterVar],
    buffer: Buffer,
    cache: Buffer,
    old: Sequence[Expr],
    new: Sequence[Expr],
    name: str,
    is_read: bool,
    finish: Callable[[Block], Block] | None,
) -> tuple[Stmt, Block]:
    """The copy, in loops of its own like those around the block, and its block."""
    realize = state.realize(block)
    value_of = realize.bindings
    used = free_vars_of(value_of[axis.var] for axis in kept)
    inside = _loops_inside(block, place)
    loops = [loop for loop in inside if loop.loop_var in used]
    gone = frozenset(loop.loop_var for loop in inside) - used
    predicate = _without(block, realize.predicate, gone)
    axes = [IterVar(a.domain, Var(a.var.name, a.var.dtype), SPATIAL) for a in kept]
    inner: dict[Var, Expr] = {a.var: b.var for a, b in zip(kept, axes, strict=True)}
    there = [substitute(index, inner) for index in old]
    here = [substitute(index, inner) for index in new]
    if is_read:
        copy = copy_block(axes, buffer, there, cache, here, name)
    else:
        copy = copy_block(axes, cache, here, buffer, there, name)
    copy = copy if finish is None else finish(copy)
    values = tuple(value_of[axis.var] for axis in kept)
    if addition_of(state, copy) is not None:
        _check_once(block, BlockRealize(values, predicate, copy), inside, loops)
    return under_copies(loops, BlockRealize(values, predicate, copy), plain=True), copy


def _check_once(
    block: StmtSRef, realize: BlockRealize, inside: Sequence[For], loops: Sequence[For]
) -> None:
    """Refuse to add a result several times, as loops do that place and reduce."""
    outside = [sref.loop for sref in loops_above(block) if sref.loop not in inside]
    fault = repetition_fault(realize, outside, loops)
    if fault is not None:
        raise refuse(
            f"{fault}, so results of {name_of(block)} would be added more than once",
            at=[block],
            hint="take this step before loops that place are fused with loops that reduce",
        )


def _without(block: StmtSRef, predicate: Expr, gone: frozenset[Var]) -> Expr:
    """The parts of a condition that are not on the loops that the copy does not have."""
    result: Expr = const(True)
    loops = {sref.loop.loop_var for sref in loops_above(block)}
    for part in conjuncts(predicate):
        used = free_vars(part) & loops
        if used.isdisjoint(gone):
            result = binary(And, result, part)
        elif not used <= gone:
            raise refuse(
                f"the condition {part} of {name_of(block)} is on loops that the copy does not have",
                at=[block],
            )
    return result


def _loops_inside(block: StmtSRef, place: StmtSRef) -> list[For]:
    """The loops around a block that are inside of a place."""
    loops = loops_above(block)
    first = loops.index(place) + 1 if place in loops else 0
    return [sref.loop for sref in loops[first:]]
