"""Binding the loops around a block to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.errors import UserError
from ..expr import SPATIAL
from ..schedule.analysis.blocks import loop_iter_type
from ..schedule.analysis.tree import loops_above
from ..schedule.rv import BlockRV, ExprRV, LoopRV
from ..schedule.schedule import Schedule
from ..schedule.sref import StmtSRef
from ..tir import SERIAL, For, SeqStmt
from .annotations import TILING_STRUCTURE

#: The number of threads for a loop that has no more iterations than the number it is given.
ThreadExtent = Callable[[int], int | ExprRV]


def thread_tag(loop: For) -> str:
    """The thread axis that a loop is bound to; "" if it is not."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def bind_block_and_threads(
    sch: Schedule,
    block: BlockRV,
    max_threadblocks: int,
    max_threads: int,
    thread_extent: ThreadExtent,
) -> None:
    """Bind the loops around a block to `blockIdx.x` and `threadIdx.x`, as far as they are not.

    The leading data-parallel loops become one, which is split into blocks of threads. With more
    iterations than there may be threads, each thread runs several. Tiled blocks are left alone.

    Args:
        max_threadblocks: the most blocks of threads.
        max_threads: the most threads in a block.
        thread_extent: chooses how many, given the most that make sense.

    Raises:
        UserError: a loop is bound to `blockIdx`, but none to `threadIdx`.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((100, 30), name="A")
    >>> B = te.compute((100, 30), lambda i, j: A[i, j] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> bind_block_and_threads(sch, sch.get_block("B"), 256, 1024, lambda most: min(most, 64))
    >>> [(thread_tag(sch.get(l)), sch.get(l).extent) for l in sch.get_loops("B")]
    [('blockIdx.x', 47), ('threadIdx.x', 64)]
    """
    sref = sch.get_sref(block)
    if sref.parent is None or TILING_STRUCTURE in sref.block.annotations:
        return
    loops = loops_above(sref)
    tags = [thread_tag(outer.loop) for outer in loops]
    blocks = any(tag.startswith("blockIdx") for tag in tags)
    threads = [i for i, tag in enumerate(tags) if tag.startswith("threadIdx")]
    if blocks and threads:
        return
    if blocks:
        raise UserError(
            f"the loops around block {sref.block.name_hint!r} are bound to blockIdx, but none to "
            "threadIdx"
        )
    spatial, alone = _leading_spatial(sch, loops), _leading_alone(loops)
    loop_rvs = sch.get_loops(block)
    if not spatial:
        loop_rvs.insert(0, sch.add_unit_loop(loop_rvs[0] if loop_rvs else block))
        spatial, alone = 1, alone + 1
        threads = [i + 1 for i in threads]
    if threads:
        outer = sch.get_loops(block)[: min(alone, threads[0], spatial)]
        sch.bind(sch.fuse(*outer), "blockIdx.x")
        return
    fused = sch.fuse(*loop_rvs[: min(alone, spatial)])
    _bind_loop(sch, fused, max_threadblocks, max_threads, thread_extent)


def _leading_spatial(sch: Schedule, loops: Sequence[StmtSRef]) -> int:
    """How many outer loops are data-parallel."""
    for i, loop in enumerate(loops):
        if loop_iter_type(sch.state, loop) != SPATIAL:
            return i
    return len(loops)


def _leading_alone(loops: Sequence[StmtSRef]) -> int:
    """How many outer loops are serial and hold nothing but the next one, the last one included."""
    for i, loop in enumerate(loops):
        if loop.loop.kind != SERIAL:
            return i
        if isinstance(loop.loop.body, SeqStmt):
            return i + 1
    return len(loops)


def _bind_loop(
    sch: Schedule,
    loop: LoopRV,
    max_threadblocks: int,
    max_threads: int,
    thread_extent: ThreadExtent,
) -> None:
    extent = sch.get(loop).static_extent
    if extent is not None and extent <= max_threadblocks * max_threads:
        outer, inner = sch.split(loop, [None, thread_extent(min(extent, max_threads))])
    else:
        rest, outer, inner = sch.split(loop, [None, max_threadblocks, max_threads])
        sch.reorder(outer, inner, rest)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
