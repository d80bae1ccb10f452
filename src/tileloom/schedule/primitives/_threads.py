"""Running the iterations of a loop at the same time: what parallel, vectorize and bind share."""

from __future__ import annotations

from ...expr import REDUCE, SPATIAL, IterVar, free_vars
from ...tir import BlockRealize, collect
from ..analysis.blocks import check_compact_dataflow
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState


def run_together(
    state: ScheduleState, loop: StmtSRef, kind: str, axis: IterVar | None = None
) -> None:
    """Change the kind of a loop after checking that its iterations may run in any order.

    1. The blocks inside are complete or reductions within the loop.
    2. The loop runs no iteration variables but data-parallel ones; indices of threads may run
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
    state.replace(loop, loop.loop.replace(kind=kind, thread_binding=axis))
