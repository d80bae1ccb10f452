"""Groups on a GPU: every block tiled alike, in one kernel.

Each block gets the loops [block, row thread, reduction thread, inner]; the outermost loops of all
blocks become one, so that a thread block makes a row, or a few, from beginning to end. All blocks
deal positions out to threads in the same way. So what a thread reads it has stored itself, and
intermediates stay in its registers; results of reductions reach every thread that shared in them.
"""

from __future__ import annotations

from ...base import Target
from ...tir import Block, IRModule, PrimFunc
from ..errors import ScheduleError
from ..library import auto_inline
from ..rv import LoopRV
from ..schedule import Schedule
from .domain import Domain, GroupRefused, find_domain
from .grid import parts_for, schedule_parts
from .loops import blocks_by_name, reduces, rows_and_depth, share_out
from .registers import flatten, inline_the_rest, keep_outputs_that_are_read
from .tile import Tile, alternatives, choose_tile
from .transposed import tile_transposed, transposed_reads


def schedule_gpu(mod: IRModule | PrimFunc, target: Target) -> Schedule:
    """A group as one kernel for a GPU.

    Args:
        mod: a function of blocks that are bound to nothing yet.
        target: a GPU.

    Returns:
        The schedule, whose trace holds the steps that were taken.

    Raises:
        GroupRefused: the blocks share no iteration domain.

    >>> from tileloom import te
    >>> from tileloom.base import target
    >>> A, k = te.placeholder((64, 100), name="A"), te.reduce_axis((0, 100), name="k")
    >>> B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    >>> C = te.compute((64, 100), lambda i, j: A[i, j] / B[i], name="C")
    >>> sch = schedule_gpu(te.create_prim_func([A, C]), target("cuda -arch=sm_80"))
    >>> block, row, thread, inner = map(sch.get, sch.get_loops("C"))
    >>> block.thread_binding.thread_tag, thread.thread_binding.thread_tag
    ('blockIdx.x', 'threadIdx.x')
    """
    sch = Schedule(mod)
    auto_inline(sch, into_producers=False)
    domain = find_domain(sch)
    parts = parts_for(domain, sch)
    if parts > 1:
        schedule_parts(sch, domain, parts)
        return sch
    blocks = blocks_by_name(sch).values()
    first = choose_tile(
        domain.rows,
        domain.depth,
        reduces=any(map(reduces, blocks)),
        innermost=domain.reduces_innermost,
        bits=max((_bits(block) for block in blocks), default=32),
        target=target,
    )
    for tile in alternatives(first, domain.rows, domain.depth):
        trial = sch.copy()
        try:
            _apply(trial, domain.copy(), tile)
        except ScheduleError as error:
            reason = error
        else:
            return trial
    raise GroupRefused(f"no tile fits the group: {reason.message}")


def _apply(sch: Schedule, domain: Domain, tile: Tile) -> None:
    inline_the_rest(sch, domain, tile)
    keep_outputs_that_are_read(sch, domain)
    for name in blocks_by_name(sch):
        flatten(sch, name, domain)
    outermost = [_tile_block(sch, name, domain, tile) for name in blocks_by_name(sch)]
    block = sch.merge(*outermost) if len(outermost) > 1 else outermost[0]
    sch.bind(block, "blockIdx.x")


def _bits(block: Block) -> int:
    return max(region.buffer.dtype.bits for region in (*block.reads, *block.writes))


def _tile_block(sch: Schedule, name: str, domain: Domain, tile: Tile) -> LoopRV:
    """Tile a block and bind its threads; its outermost loop, which is not bound yet."""
    rv = sch.get_block(name)
    if not domain.reduced:
        across = transposed_reads(sch.get(rv), domain)
        if across:
            return tile_transposed(sch, rv, domain, across)
    rows, depth = rows_and_depth(sch, rv, name, domain)
    if domain.reduced:
        along_rows = ("threadIdx.y", "threadIdx.x")
        tags = along_rows if domain.reduces_innermost else along_rows[::-1]
        return share_out(sch, rv, rows, depth, tile, (tags[0], tags[1]))
    block: LoopRV
    block, thread, inner = sch.split(rows, [None, tile.spatial_thread, tile.spatial_inner])
    sch.bind(thread, "threadIdx.x")
    if tile.vector > 1:
        sch.vectorize(inner)
    return block
