"""Running the iterations of a loop at the same time: what parallel, vectorize and bind share."""

from __future__ import annotations

from ...expr import REDUCE, SPATIAL, IterVar, Var, free_vars
from ...tir import BlockRealize, collect, undefined_vars
from ..analysis.blocks import check_compact_dataflow
from ..analysis.order import repetition_fault
from ..analysis.regions import shared_over
from ..analysis.scope import is_seen_outside
from ..analysis.tree import blocks_in_sight, is_one, loops_in_sight
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState


def run_together(
    state: ScheduleState, loop: StmtSRef, kind: str, axis: IterVar | None = None
) -> None:
    """Change the kind of a loop after checking that its iterations may run in any order.

    1. The blocks inside are complete or reductions within the loop.
    2. The iterations do not write the same elements of what is seen outside of the loop; threads
       may, where they write the same values.
    3. The loop runs no iteration variables but data-parallel ones; indices of threads may run
       reduction variables, which makes a cross-thread reduction.
    """
    if state.enable_check:
        check_compact_dataflow(state, loop)
    tag = "" if axis is None else axis.thread_tag
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
    state.replace(loop, loop.loop.replace(kind=kind, thread_binding=axis))


def _check_apart(state: ScheduleState, loop: StmtSRef, tag: str) -> None:
    """Refuse where iterations run the same instances of a block, if others see what it writes."""
    if is_one(loop.loop.extent):
        return
    for block in blocks_in_sight(state, loop):
        reduces = block.block.init is not None
        if tag and not reduces:
            continue
        fault = shared_instances(state, loop, block, reduces)
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


def shared_instances(
    state: ScheduleState, loop: StmtSRef, block: StmtSRef, reduces: bool
) -> str | None:
    """Why several iterations of a loop run one instance of a block; None if they do not."""
    realize = state.realize(block)
    used = frozenset[Var]().union(*map(free_vars, realize.iter_values))
    if loop.loop.loop_var not in used:
        hidden = block.block.iter_vars or loop.loop.loop_var not in undefined_vars(block.block)
        return f"{name_of(loop)} only repeats {name_of(block)}" if hidden else None
    if not reduces:
        return None
    above = [sref.loop for sref in loops_in_sight(block)]
    cut = above.index(loop.loop)
    inside = [node for node in above[cut:] if node.loop_var in used]
    return repetition_fault(realize, above[:cut], inside)
