"""CrossThreadReduction: the threads of a GPU's block reduce to one result together."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import InternalError
from ...expr import SPATIAL
from ...schedule.analysis.blocks import loop_iter_type
from ...schedule.analysis.tree import loops_above, lowest_common_ancestor
from ...schedule.rv import BlockRV, ExprRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...tir import THREAD_BINDING
from ..context import TuneContext
from .analysis import needs_multi_level_tiling
from .fork import fork
from .reductions import fuse_reduced_loops, needs_partial_results

_THREADS = "threadIdx.x"


@dataclass(frozen=True, slots=True)
class CrossThreadReduction:
    """Bind a part of what a block reduces to threads, next to the consumer where that is possible.

    Attributes:
        thread_extents: one of these is drawn as the number of threads.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((4, 512), name="A"); k = te.reduce_axis((0, 512), "k")
    >>> B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> sch = Schedule(te.create_prim_func([A, B]), seed=1); block = sch.get_block("B")
    >>> context = TuneContext(sch.mod, target("cuda -arch=sm_80"))
    >>> rule = CrossThreadReduction(thread_extents=(32,))
    >>> for result in rule.apply(sch, block, context):
    ...     [result.get(loop).static_extent for loop in result.get_loops(block)]
    [4, 16, 32]
    [4, 512]
    """

    thread_extents: tuple[int, ...] = (4, 8, 16, 32, 64, 128, 256, 512)

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """With threads that reduce together, and without."""
        target = context.target
        if not target.max_threads or not target.warp_size:
            return [sch]
        if not needs_partial_results(sch.state, sch.get_sref(block), target.max_threads):
            return [sch]
        shared = fork(sch)
        place = _place_at_consumer(shared, block)
        options = list(self.thread_extents)
        threads: ExprRV = shared.sample_categorical(options, [1 / len(options)] * len(options))
        if place is not None:
            threads = _move(shared, block, place, threads)
        loop, _ = fuse_reduced_loops(shared, block)
        _, inner = shared.split(loop, [None, threads])
        shared.bind(inner, _THREADS)
        return [shared, sch]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a consumer wants a block: under a loop of its own, whose innermost may be the same."""

    consumer: BlockRV
    loop: LoopRV
    innermost: LoopRV


def _place_at_consumer(sch: Schedule, block: BlockRV) -> _Place | None:
    """The deepest loop of the first consumer where the block computes what one iteration needs."""
    readers = sch.get_consumers(block)
    if not readers or needs_multi_level_tiling(sch.state, sch.get_sref(readers[0])):
        return None
    common = lowest_common_ancestor([sch.get_sref(reader) for reader in readers])
    if len(readers) > 1 and common.is_block:
        return None
    loops = sch.get_loops(readers[0])
    depth = _depth(sch.state, sch.get_sref(block), sch.get_sref(readers[0]), common)
    return _Place(readers[0], loops[depth - 1], loops[-1]) if depth else None


def _depth(state: ScheduleState, block: StmtSRef, reader: StmtSRef, common: StmtSRef) -> int:
    """How many loops of a consumer the block can share: not beyond its first that reduces."""
    depth = 0
    for own, other in zip(loops_above(block), loops_above(reader)):
        if loop_iter_type(state, own) != SPATIAL:
            break
        depth += 1
        if other is common:
            break
    return depth


def _move(sch: Schedule, block: BlockRV, place: _Place, threads: ExprRV) -> ExprRV:
    """Compute the block at its consumer, whose innermost loop gets threads if it has none.

    Returns:
        How many threads there are.
    """
    loop = place.loop
    if _has_threads(sch.get_sref(place.consumer)):
        threads = _extent_of_threads(sch)
    else:
        outer, inner = sch.split(place.innermost, [None, threads])
        sch.bind(inner, _THREADS)
        loop = outer if loop is place.innermost else loop
    sch.compute_at(block, loop, preserve_unit_loops=True)
    sch.set_scope(block, 0, "shared")
    return threads


def _has_threads(block: StmtSRef) -> bool:
    bindings = (
        outer.loop.thread_binding
        for outer in loops_above(block)
        if outer.loop.kind == THREAD_BINDING
    )
    return any(axis is not None and axis.thread_tag.startswith("threadIdx") for axis in bindings)


def _extent_of_threads(sch: Schedule) -> ExprRV:
    """The factor of the first split whose loop is bound to threads, as the trace has it."""
    steps = [] if sch.trace is None else sch.trace.insts
    bound = [s.inputs[0] for s in steps if s.kind.name == "Bind" and s.attrs[0] == _THREADS]
    for loop in bound:
        for step in steps:
            if step.kind.name == "Split" and loop in step.outputs:
                factor: ExprRV = step.inputs[1 + step.outputs.index(loop)]
                return factor
    raise InternalError("the loop of a bound consumer comes from no split")
