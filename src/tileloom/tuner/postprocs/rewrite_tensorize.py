"""RewriteTensorize: blocks that are annotated so become tensor intrinsics."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.analysis.tree import child_blocks
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ..annotations import AUTO_TENSORIZE
from ..context import TuneContext
from ._common import accepted


@dataclass(frozen=True, slots=True)
class RewriteTensorize:
    """Carry out "meta_schedule.auto_tensorize", from the inside out.

    A candidate whose block does not match its intrinsic is none; TVM measures it all the same.

    Attributes:
        vectorize_init_loop: run the start of a tensorized reduction, which has no intrinsic of its
            own, in vectors.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8, 64), name="A"); B = te.placeholder((8, 64), name="B")
    >>> k = te.reduce_axis((0, 64), "k")
    >>> C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B, C]))
    >>> outer, inner = sch.split(sch.get_loops("C")[2], [None, 4])
    >>> init = sch.decompose_reduction("C", outer)
    >>> sch.annotate(sch.blockize(inner), "meta_schedule.auto_tensorize", "dot_4_f32")
    >>> RewriteTensorize().apply(sch, TuneContext(sch.mod, target("cpu")))
    True
    >>> [match.buffer.name for match in sch.get(sch.get_block("C_update_o")).match_buffers]
    ['A', 'B', 'C']
    """

    vectorize_init_loop: bool = False

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        return accepted(_rewrite, sch, self.vectorize_init_loop)


def _rewrite(sch: Schedule, vectorize_init_loop: bool) -> None:
    state = sch.state
    asked = [
        (name, block.block.name_hint, str(block.block.annotations[AUTO_TENSORIZE]))
        for name in state.mod.functions
        for block in _inner_first(state, state.root(name))
        if AUTO_TENSORIZE in block.block.annotations
    ]
    for func_name, block_name, intrinsic in asked:
        if not intrinsic and not vectorize_init_loop:
            continue
        block = sch.get_block(block_name, func_name)
        sch.unannotate(block, AUTO_TENSORIZE)
        if intrinsic:
            sch.tensorize(block, intrinsic)
        else:
            _vectorize(sch, block)


def _inner_first(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """A block and those in it, each after all that it holds."""
    inside = [b for child in child_blocks(state, block) for b in _inner_first(state, child)]
    return [*inside, block]


def _vectorize(sch: Schedule, block: BlockRV) -> None:
    """Run the one loop in a block in vectors; what is more than a loop stays as it is."""
    children = sch.get_child_blocks(block)
    loops = sch.get_loops(children[0]) if len(children) == 1 else []
    if len(loops) == 1:
        sch.vectorize(loops[0])
