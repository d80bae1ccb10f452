"""RandomComputeLocation: a block is computed under some loop of its consumers."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.analysis.scope import consumers
from ...schedule.analysis.tree import child_blocks, loops_above, scope_root
from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ..context import TuneContext
from .add_rfactor import RANDOM_COMPUTE_PRODUCER
from .analysis import is_tiled


@dataclass(frozen=True, slots=True)
class RandomComputeLocation:
    """Draw a place for a block that is alone in its loops, not tiled, and has consumers.

    A block that `AddRFactor` has split draws one for its partial results as well.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    >>> C = te.compute((8, 8), lambda i, j: B[i, j] * 2.0, name="C")
    >>> sch = Schedule(te.create_prim_func([A, C]), seed=1)
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> [sch] = RandomComputeLocation().apply(sch, sch.get_block("B"), context)
    >>> [inst.kind.method for inst in sch.trace.insts]
    ['get_block', 'sample_compute_location', 'compute_at']
    """

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The schedule, with the place drawn if there is a choice."""
        sref = sch.get_sref(block)
        if not _may_move(sch.state, sref):
            return [sch]
        # The producers are asked for first: the block may be gone after its own move.
        parts: list[BlockRV] = []
        if RANDOM_COMPUTE_PRODUCER in sref.block.annotations:
            parts = sch.get_producers(block)
            sch.unannotate(block, RANDOM_COMPUTE_PRODUCER)
        for moved in (block, *parts):
            sch.compute_at(moved, sch.sample_compute_location(moved), preserve_unit_loops=True)
        return [sch]


def _may_move(state: ScheduleState, block: StmtSRef) -> bool:
    if block.parent is None or scope_root(block).parent is not None:
        return False
    loops = loops_above(block)
    if not loops or len(child_blocks(state, loops[0])) > 1:
        return False
    return not is_tiled(block.block) and bool(consumers(state, block))
