"""Binding the loops of a block to the blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...expr import SPATIAL
from ...schedule.analysis.blocks import loop_iter_type
from ...schedule.analysis.tree import loops_above
from ...schedule.rv import BlockRV, ExprRV, LoopRV
from ...schedule.schedule import Schedule
from ...schedule.sref import StmtSRef
from ...schedule.state import ScheduleState
from ...tir import SERIAL, THREAD_BINDING, BlockRealize, For
from .analysis import is_tiled

#: From the most threads that make sense, how many there are to be.
ThreadExtent = Callable[[int], "int | ExprRV"]


def sampled_extent(sch: Schedule, candidates: Sequence[int]) -> ThreadExtent:
    """Draws one of the candidates that are not too many; where all are, it is the most."""

    def extent(most: int) -> int | ExprRV:
        fitting = [candidate for candidate in candidates if candidate <= most]
        if len(fitting) < 2:
            return fitting[0] if fitting else most
        drawn: ExprRV = sch.sample_categorical(fitting, [1 / len(fitting)] * len(fitting))
        return drawn

    return extent


def bind_block(
    sch: Schedule,
    block: BlockRV,
    max_threadblocks: int,
    max_threads_per_block: int,
    thread_extent: ThreadExtent,
) -> None:
    """Bind what places results in a block, as far as it is not bound: its outermost loops as one.

    Loops that have some threads already get blocks of threads around them. A block that multi-level
    tiling has bound, or that is bound to both, is left alone.

    Args:
        max_threadblocks: where there is more work than this many full blocks of threads, so many
            go over it in strides.
        max_threads_per_block: limit for `thread_extent`.
        thread_extent: says how many threads to take.

    >>> from tileloom import te
    >>> A = te.placeholder((512,), name="A"); B = te.compute((512,), lambda i: A[i] * 2.0, name="B")
    >>> sch = Schedule(te.create_prim_func([A, B])); block = sch.get_block("B")
    >>> bind_block(sch, block, 256, 1024, lambda most: 128)
    >>> [(loop.thread_binding.thread_tag, loop.static_extent)
    ...  for loop in map(sch.get, sch.get_loops(block))]
    [('blockIdx.x', 4), ('threadIdx.x', 128)]
    """
    sref = sch.get_sref(block)
    if sref.parent is None or is_tiled(sref.block):
        return
    found = _Loops.around(sch.state, sref)
    if found.has_blocks:
        return
    loops = sch.get_loops(block)
    if found.spatial:
        fused = sch.fuse(*loops[: found.spatial])
    else:
        fused = sch.fuse(sch.add_unit_loop(loops[0] if loops else block))
    if found.has_threads:
        sch.bind(fused, "blockIdx.x")
    else:
        _bind_loop(sch, fused, max_threadblocks, max_threads_per_block, thread_extent)


@dataclass(frozen=True, slots=True)
class _Loops:
    """The loops around a block.

    Attributes:
        spatial: so many from the outermost place results and nothing else, hold nothing but the
            next one, and are bound to nothing.
        has_blocks: whether one is bound to blocks of threads.
        has_threads: whether one is bound to threads.
    """

    spatial: int
    has_blocks: bool
    has_threads: bool

    @staticmethod
    def around(state: ScheduleState, block: StmtSRef) -> _Loops:
        loops = loops_above(block)
        tags = [thread_tag(loop.loop) for loop in loops]
        spatial = 0
        for loop in loops:
            node = loop.loop
            if node.kind != SERIAL or loop_iter_type(state, loop) != SPATIAL:
                break
            spatial += 1
            if not isinstance(node.body, (For, BlockRealize)):
                break
        return _Loops(
            spatial,
            any(tag.startswith("blockIdx") for tag in tags),
            any(tag.startswith("threadIdx") for tag in tags),
        )


def thread_tag(loop: For) -> str:
    """The axis of blocks or threads that a loop is bound to; "" if it is not."""
    bound = loop.kind == THREAD_BINDING and loop.thread_binding is not None
    return loop.thread_binding.thread_tag if bound and loop.thread_binding is not None else ""


def _bind_loop(
    sch: Schedule, loop: LoopRV, max_blocks: int, max_threads: int, thread_extent: ThreadExtent
) -> None:
    extent = sch.get(loop).static_extent
    if extent is None or extent <= max_blocks * max_threads:
        most = max_threads if extent is None else min(extent, max_threads)
        outer, inner = sch.split(loop, [None, thread_extent(most)])
    else:
        strides, outer, inner = sch.split(loop, [None, max_blocks, max_threads])
        sch.reorder(outer, inner, strides)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
