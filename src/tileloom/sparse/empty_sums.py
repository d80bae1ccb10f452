"""Results of no elements: a reduction over a variable number of elements starts before its loop."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import REDUCE, IntImm, post_order
from ..schedule import Schedule
from ..schedule.primitives.decompose_reduction import decompose_reduction
from ..schedule.sref import StmtSRef
from ..tir import Block, BufferLoad, For, IRModule, collect


def start_empty_reductions(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Decompose the reductions of functions that have an init and a loop that may run no step.

    A block starts its results when it runs for the first time; where it does not run at all,
    nothing would.
    """
    for name in names:
        blocks = [b for b in collect(mod[name].body, Block) if b.init is not None]
        if not blocks:
            continue
        sch = Schedule(mod, trace=False)
        for block in blocks:
            sref = sch.state.sref(block)
            loop = _first_reduction(sch, sref)
            if loop is not None:
                _decompose(sch, sref, loop)
        mod = sch.mod
    return mod


def _first_reduction(sch: Schedule, block: StmtSRef) -> StmtSRef | None:
    """The outermost loop that reduces, if one of those inside may run no step."""
    reduced = sch.state.realize(block).loops_of(REDUCE)
    loops: list[StmtSRef] = []
    above = block.parent
    while above is not None and isinstance(above.stmt, For):
        loops.insert(0, above)
        above = above.parent
    while loops and loops[0].loop.loop_var not in reduced:
        del loops[0]
    may_be_empty = any(not _runs(loop.loop) for loop in loops) or any(
        isinstance(node, BufferLoad) for node in post_order(sch.state.realize(block).predicate)
    )
    return loops[0] if loops and may_be_empty else None


def _runs(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _decompose(sch: Schedule, block: StmtSRef, loop: StmtSRef) -> None:
    decompose_reduction(sch.state, block, loop)
