"""RewriteUnboundBlock: blocks that no rule has put on a GPU's threads go there."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.analysis.tree import child_blocks, loops_above
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...target.limits import GPULimits
from ..context import TuneContext
from ..rules.binding import bind_block, thread_tag
from ._common import accepted


@dataclass(frozen=True, slots=True)
class RewriteUnboundBlock:
    """Bind what is left to `blockIdx.x` and `threadIdx.x`: as many threads as a block may have.

    Attributes:
        max_threadblocks: the most blocks of threads; with more to do, threads run several
            iterations.

    >>> import tileloom
    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((100, 30), name="A")
    >>> B = te.compute((100, 30), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> RewriteUnboundBlock().apply(sch, TuneContext(sch.mod, target("cuda -arch=sm_70")))
    True
    >>> [sch.get(loop).extent for loop in sch.get_loops("B")]
    [3, 1024]
    """

    max_threadblocks: int = 256

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take the steps; False if one is refused."""
        most = GPULimits.of(context.target).max_threads_per_block
        return accepted(_rewrite, sch, self.max_threadblocks, most)


def _rewrite(sch: Schedule, max_threadblocks: int, max_threads: int) -> None:
    state = sch.state
    left = [
        (name, block)
        for name in state.mod.functions
        for block in child_blocks(state, state.root(name))
        if not _is_bound(block)
    ]
    for name, sref in left:
        block = sch.get_block(sref.block.name_hint, name)
        bind_block(sch, block, max_threadblocks, max_threads, lambda most: min(most, max_threads))


def _is_bound(block: StmtSRef) -> bool:
    heads = {thread_tag(outer.loop).partition(".")[0] for outer in loops_above(block)}
    return {"blockIdx", "threadIdx"} <= heads
