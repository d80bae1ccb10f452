"""Running the iterations of a loop at the same time: what parallel, vectorize and bind share."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...expr import REDUCE, SPATIAL, IntImm, IterVar, free_vars, free_vars_of
from ...tir import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    BlockRealize,
    Buffer,
    collect,
    undefined_vars,
)
from ..analysis.blocks import check_compact_dataflow
from ..analysis.cover import region_cover_fault
from ..analysis.order import repetition_fault
from ..analysis.regions import shared_over
from ..analysis.scope import is_seen_outside, producers
from ..analysis.tree import blocks_in_sight, is_ancestor, is_one, loops_above, loops_in_sight
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState


def run_together(
    state: ScheduleState, loop: StmtSRef, kind: str, axis: IterVar | None = None
) -> None:
    """Change the kind of a loop after checking that its iterations may run in any order."""
    check_together(state, loop, "" if axis is None else axis.thread_tag)
    state.replace(loop, loop.loop.replace(kind=kind, thread_binding=axis))


def check_together(state: ScheduleState, loop: StmtSRef, tag: str = "") -> None:
    """Refuse a loop whose iterations may not run in any order, or at the same time.

    1. The blocks inside are complete or reductions within the loop.
    2. The iterations do not write the same elements of what is seen outside of the loop; threads
       may, where they write the same values.
    3. The loop runs no iteration variables but data-parallel ones; indices of threads may run
       reduction variables, which makes a cross-thread reduction.

    Args:
        tag: of the threads, if there are any.
    """
    if state.enable_check:
        check_compact_dataflow(state, loop)
    reduces = tag.startswith("threadIdx")
    var = loop.loop.loop_var
    for realize in collect(loop.loop.body, BlockRealize):
        if realize.block not in state.sref_of:
            continue
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            allowed = (SPATIAL, REDUCE) if reduces else (SPATIAL,)
            if iterator.iter_type not in allowed and var in free_vars(value):
                word = "reduction" if iterator.iter_type == REDUCE else "ordered or opaque"
                raise refuse(
                    f"{name_of(loop)} runs the {word} variable {iterator.var.name!r} of "
                    f"{name_of(realize.block)}, whose iterations depend on each other",
                    at=[loop, realize.block],
                    notes=["", "here"],
                    hint="use rfactor to reduce in parts, or choose a data-parallel loop",
                    fast="The loop is bound to a block iter that is not data-parallel",
                )
    if state.enable_check:
        _check_apart(state, loop, tag)
        if not tag:
            check_own_results(state, loop)


def _check_apart(state: ScheduleState, loop: StmtSRef, tag: str) -> None:
    """Refuse where iterations run the same instances of a block, if others see what it writes."""
    if is_one(loop.loop.extent):
        return
    for block in blocks_in_sight(state, loop):
        reduces = block.block.init is not None
        if tag and not reduces:
            continue
        fault = shared_instances(state, loop, block, reduces or _all_numbers(state, block))
        if fault is None:
            continue
        for region in block.block.writes:
            same = not tag or shared_over(region.buffer.scope, tag)
            if same and is_seen_outside(state, loop, region.buffer):
                raise refuse(
                    f"{fault}, so iterations of {name_of(loop)} would write the same elements of "
                    f"{region.buffer.name!r} at the same time",
                    at=[loop, block],
                    hint="choose a loop that places what the block writes",
                )


def _all_numbers(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether sizes that are not known play no part: with them, few loops are shown apart."""
    loops = [sref.loop for sref in loops_in_sight(block)]
    known = {loop.loop_var for loop in loops}
    return all(
        isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm) for loop in loops
    ) and all(free_vars(value) <= known for value in state.realize(block).iter_values)


def check_own_results(state: ScheduleState, loop: StmtSRef) -> None:
    """Refuse where a block in a loop may read what another iteration of the loop makes."""
    inside = blocks_in_sight(state, loop)
    for block in inside:
        if any(giver in inside for giver in producers(state, block)):
            fault = region_cover_fault(state, block)
            if fault is not None:
                raise refuse(
                    f"iterations of {name_of(loop)} depend on each other: {name_of(block)} may "
                    f"read what another one makes, as {fault}",
                    at=[loop, block],
                )


def check_not_own(
    state: ScheduleState,
    block: StmtSRef,
    loops: Iterable[StmtSRef],
    buffers: Collection[Buffer],
    why: str,
) -> None:
    """Refuse where iterations of parallel loops around a block have buffers of their own.

    They do where nothing outside of the loop uses a buffer; a step that uses it there as well would
    make them share it.
    """
    for sref in loops:
        if sref.loop.kind in (SERIAL, UNROLLED) or is_one(sref.loop.extent):
            continue
        for buffer in buffers:
            if not is_seen_outside(state, sref, buffer):
                raise refuse(
                    f"each iteration of {name_of(sref)}, which is {sref.loop.kind}, has a "
                    f"{buffer.name!r} of its own, and {why}",
                    at=[block, sref],
                    hint="take this step before the loop is run in parallel",
                )


def check_private(state: ScheduleState, block: StmtSRef, kept: Collection[StmtSRef]) -> None:
    """Refuse to read outside of a parallel loop what its iterations make each for itself.

    Args:
        block: a reader that leaves the loops around it.
        kept: the loops around it that it does not leave.
    """
    for sref in loops_above(block):
        if sref in kept or sref.loop.kind not in (PARALLEL, VECTORIZED) or is_one(sref.loop.extent):
            continue
        for giver in (g for g in producers(state, block) if is_ancestor(sref, g)):
            whole = giver.block.init is not None or _all_numbers(state, giver)
            fault = shared_instances(state, sref, giver, whole)
            if fault is not None:
                raise refuse(
                    f"{fault}, which each of its iterations does for itself as long as "
                    f"{name_of(block)} is inside",
                    at=[block, sref, giver],
                )


def shared_instances(
    state: ScheduleState, loop: StmtSRef, block: StmtSRef, whole: bool
) -> str | None:
    """Why several iterations of a loop run one instance of a block; None if they do not.

    If not `whole`, only that is asked whether the block uses the loop.
    """
    realize = state.realize(block)
    used = free_vars_of(realize.iter_values)
    if loop.loop.loop_var not in used:
        hidden = block.block.iter_vars or loop.loop.loop_var not in undefined_vars(block.block)
        return f"{name_of(loop)} only repeats {name_of(block)}" if hidden else None
    if not whole:
        return None
    above = [sref.loop for sref in loops_in_sight(block)]
    cut = above.index(loop.loop)
    inside = [node for node in above[cut:] if node.loop_var in used]
    return repetition_fault(realize, above[:cut], inside)
