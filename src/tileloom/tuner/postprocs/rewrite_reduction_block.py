"""RewriteReductionBlock: reductions start before the loops that reduce."""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import REDUCE, SPATIAL, Var
from ...schedule.analysis.blocks import loop_iter_type
from ...schedule.analysis.tree import loops_above
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...tir import For
from ..annotations import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from ..context import TuneContext
from ..rules.binding import thread_tag
from ._common import accepted, all_blocks


@dataclass(frozen=True, slots=True)
class RewriteReductionBlock:
    """Decompose every reduction at its outermost loop that reduces.

    Reductions across threads stay whole: the lowering of them starts the parts of each thread. What
    is annotated for tensor intrinsics goes to the block that it is about.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((4, 8), name="A"); k = te.reduce_axis((0, 8), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> RewriteReductionBlock().apply(sch, TuneContext(sch.mod, target("cpu")))
    True
    >>> [sch.get(block).name_hint for block in sch.get_child_blocks("root")]
    ['B_init', 'B_update']
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        return accepted(_rewrite, sch)


def _rewrite(sch: Schedule) -> None:
    while found := _whole_reductions(sch):
        for name, sref in found:
            if sref.stmt is not None:  # what is inside of another one may be gone with it
                _decompose(sch, name, sref)


def _whole_reductions(sch: Schedule) -> list[tuple[str, StmtSRef]]:
    """The blocks to decompose, in program order."""
    bound = _thread_variables(sch)
    return [
        (name, block)
        for name, block in all_blocks(sch)
        if block.block.init is not None
        and bound.isdisjoint(sch.state.realize(block).loops_of(REDUCE))
        and _outermost_reducing(sch, block) is not None
    ]


def _thread_variables(sch: Schedule) -> set[Var]:
    """The variables of loops over threads and blocks of threads; virtual threads are loops."""
    loops = [node for node in sch.state.sref_of if isinstance(node, For)]
    heads = ("threadIdx", "blockIdx")
    return {loop.loop_var for loop in loops if thread_tag(loop).startswith(heads)}


def _outermost_reducing(sch: Schedule, block: StmtSRef) -> int | None:
    """The number of the first loop around a block that is not data-parallel."""
    for i, loop in enumerate(loops_above(block)):
        if loop_iter_type(sch.state, loop) != SPATIAL:
            return i
    return None


def _decompose(sch: Schedule, func_name: str, sref: StmtSRef) -> None:
    point = _outermost_reducing(sch, sref)
    if point is None:
        return
    block = sch.get_block(sref.block.name_hint, func_name)
    init = sch.decompose_reduction(block, sch.get_loops(block)[point])
    annotations = sref.block.annotations
    if AUTO_TENSORIZE in annotations:
        _hand_over(sch, block, init, annotations.get(AUTO_TENSORIZE_INIT))


def _hand_over(sch: Schedule, block: BlockRV, init: BlockRV, intrinsic: str | None) -> None:
    """Give the block that starts a reduction the intrinsic for that; "" where there is none."""
    sch.unannotate(init, AUTO_TENSORIZE)
    sch.annotate(init, AUTO_TENSORIZE, intrinsic or "")
    if intrinsic is not None:
        sch.unannotate(block, AUTO_TENSORIZE_INIT)
        sch.unannotate(init, AUTO_TENSORIZE_INIT)
