"""AutoBind: blocks that no other rule has bound to a GPU's threads."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.rv import BlockRV
from ...schedule.schedule import Schedule
from ..context import TuneContext
from .binding import bind_block, sampled_extent


@dataclass(frozen=True, slots=True)
class AutoBind:
    """Bind the loops of a block that place results, if they are not bound: see `bind_block`.

    Attributes:
        max_threadblocks: more than so many full blocks of threads take their work in strides.
        thread_extents: one of these is drawn as the threads of a block.
        max_threads_per_block: limit of the machine; -1 is the one that the target says.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((512,), name="A"); B = te.compute((512,), lambda i: A[i] * 2.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]), seed=1); block = sch.get_block("B")
    >>> context = TuneContext(sch.mod, target("cuda -arch=sm_80"))
    >>> [sch] = AutoBind(thread_extents=(64,)).apply(sch, block, context)
    >>> [sch.get(loop).static_extent for loop in sch.get_loops(block)]
    [8, 64]
    """

    max_threadblocks: int = 256
    thread_extents: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    max_threads_per_block: int = -1

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The schedule, with the block bound."""
        limit = self.max_threads_per_block
        most = context.target.max_threads if limit == -1 else limit
        extent = sampled_extent(sch, self.thread_extents)
        bind_block(sch, block, self.max_threadblocks, most, extent)
        return [sch]
