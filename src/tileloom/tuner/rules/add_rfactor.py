"""AddRFactor: parts of a long sum are computed side by side."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.errors import ScheduleError
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ..context import TuneContext
from .fork import fork
from .reductions import fuse_reduced_loops, needs_partial_results

#: Annotation of a block whose producer is placed at random with it.
RANDOM_COMPUTE_PRODUCER = "meta_schedule.random_compute_producer"


@dataclass(frozen=True, slots=True)
class AddRFactor:
    """Split a reduction, and reduce the outer loop or the inner one into partial results first.

    Attributes:
        max_jobs_per_core: so many results for each core are enough to do without.
        max_innermost_factor: limit for the inner loop's extent; -1 is none.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((4, 512), name="A"); k = te.reduce_axis((0, 512), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]), seed=1)
    >>> context = TuneContext(sch.mod, target("cpu"))
    >>> for result in AddRFactor().apply(sch, sch.get_block("B"), context):
    ...     [result.get(b).name_hint for b in result.get_child_blocks(result.get_block("root"))]
    ['B_rf', 'B']
    ['B_rf', 'B']
    ['B']
    """

    max_jobs_per_core: int = 16
    max_innermost_factor: int = 64

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """With partial results of the outer loop, with those of the inner loop, and without."""
        enough = context.target.cores * self.max_jobs_per_core
        if not needs_partial_results(sch.state, sch.get_sref(block), enough):
            return [sch]
        plain = fork(sch)
        loop, axis = fuse_reduced_loops(sch, block)
        factors = sch.sample_perfect_tile(loop, 2, self.max_innermost_factor)
        loops = sch.split(loop, factors)
        return [*_in_parts(sch, block, loops, axis), plain]


def _in_parts(sch: Schedule, block: BlockRV, loops: list[LoopRV], axis: int) -> list[Schedule]:
    """A schedule for each loop that `rfactor` takes."""
    results = []
    for loop in loops:
        other = fork(sch)
        try:
            other.rfactor(loop, axis)
        except ScheduleError:
            continue
        other.annotate(block, RANDOM_COMPUTE_PRODUCER, 1)
        results.append(other)
    return results
