"""ParallelizeVectorizeUnroll: how much of each a program gets, for a postprocessor to do."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ..annotations import PARALLEL, UNROLL_EXPLICIT, UNROLL_IMPLICIT, VECTORIZE
from ..context import TuneContext
from .auto_inline import is_spatial_function


@dataclass(frozen=True, slots=True)
class ParallelizeVectorizeUnroll:
    """Annotate the root block with limits, which `RewriteParallelVectorizeUnroll` reads.

    Attributes:
        max_jobs_per_core: parallel iterations for each core; -1 leaves loops serial.
        max_vectorize_extent: elements of vectorized loops; -1 vectorizes nothing.
        unroll_max_steps: one of these is drawn; programs without reductions unroll nothing.
        unroll_explicit: unroll in the program; else it is left to the compiler below.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]))
    >>> context = TuneContext(sch.mod, target("cpu -mcpu=x86-64-v3 -num-cores=4"))
    >>> root = sch.get_block("root")
    >>> [sch] = ParallelizeVectorizeUnroll().apply(sch, root, context)
    >>> sch.get(root).annotations
    {'meta_schedule.parallel': 64, 'meta_schedule.vectorize': 64}
    """

    max_jobs_per_core: int = 16
    max_vectorize_extent: int = 64
    unroll_max_steps: tuple[int, ...] = (0, 16, 64, 512)
    unroll_explicit: bool = True

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The schedule, annotated if the block is the root of its function."""
        sref = sch.get_sref(block)
        if sref.parent is not None:
            return [sch]
        if self.max_jobs_per_core != -1:
            sch.annotate(block, PARALLEL, context.target.cores * self.max_jobs_per_core)
        if self.max_vectorize_extent != -1:
            sch.annotate(block, VECTORIZE, self.max_vectorize_extent)
        func = sch.mod[sch.state.function_of(sref)]
        if self.unroll_max_steps and not is_spatial_function(func):
            steps = list(self.unroll_max_steps)
            chosen = sch.sample_categorical(steps, [1 / len(steps)] * len(steps))
            key = UNROLL_EXPLICIT if self.unroll_explicit else UNROLL_IMPLICIT
            sch.annotate(block, key, chosen)
        return [sch]
