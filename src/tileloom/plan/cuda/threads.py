"""Dealing the rows of a domain out to blocks and threads, and a row's positions to threads."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import IntImm
from ...schedule.rv import BlockRV, LoopRV
from ...schedule.schedule import Schedule
from ..loops import reduces
from .tile import LONGEST, Tile

#: Loads that a thread has under way.
AT_ONCE = 4
#: Threads for rows, and for positions in a row, where neighbours in memory are in a row.
ALONG_ROWS = ("threadIdx.y", "threadIdx.x")
#: The same where neighbours in memory are of different rows.
ACROSS_ROWS = ("threadIdx.x", "threadIdx.y")


def bind_threads(
    sch: Schedule,
    rv: BlockRV,
    rows: LoopRV,
    depth: Sequence[LoopRV],
    tile: Tile,
    tags: tuple[str, str] = ALONG_ROWS,
    leaves: bool = True,
) -> LoopRV:
    """Deal rows out to blocks and their threads, and a row's positions to threads.

    Args:
        depth: the loop over positions, or over vectors and the one over a vector's elements;
            nothing for what is made once a row.
        tags: of the threads for rows, and of those for positions.
        leaves: whether what the block makes is seen outside of the kernel.

    Returns:
        The loop over blocks, which is not bound yet.
    """
    if not depth and tile.reduce_thread > 1 and leaves:
        # A result of a whole row: of the threads that have it one writes it.
        depth = [sch.add_unit_loop(rv)]
    block: LoopRV
    block, row = sch.split(rows, [None, tile.spatial_thread])
    if depth:
        part, inner, thread = _in_parts(sch, depth[0], tile)
        sch.reorder(block, *part, row, thread, inner, *depth[1:])
        if part:
            block = sch.fuse(block, *part)
        if tile.reduce_thread > 1:
            sch.bind(thread, tags[1])
        if len(depth) == 1 and reduces(sch.get(rv)):
            several_at_once(sch, rv, inner)
        if len(depth) > 1:
            (sch.unroll if reduces(sch.get(rv)) else sch.vectorize)(depth[1])
    if tile.spatial_thread > 1:
        sch.bind(row, tags[0])
    if not leaves:
        for k in range(len(sch.get(rv).writes)):
            sch.set_scope(rv, k, "local")
    return block


def several_at_once(sch: Schedule, rv: BlockRV, loop: LoopRV) -> LoopRV:
    """Let a thread have several loads under way in a long loop; the innermost loop of it.

    Under a condition loads would wait for each other, so it stays as it is where there is one.
    """
    extent = sch.get(loop).extent
    predicate = sch.state.realize(sch.get_sref(rv)).predicate
    if not (isinstance(extent, IntImm) and isinstance(predicate, IntImm)):
        return loop
    if extent.value <= LONGEST or extent.value % AT_ONCE:
        return loop
    _, inner = sch.split(loop, [None, AT_ONCE])
    sch.unroll(inner)
    return inner


def _in_parts(sch: Schedule, depth: LoopRV, tile: Tile) -> tuple[list[LoopRV], LoopRV, LoopRV]:
    """Loops over blocks that share a row (if it is shared), over steps and over threads."""
    inner: LoopRV
    if tile.parts == 1:
        # Registers have numbers, so what is kept there has a known length.
        open_ = tile.keeps_rows and not isinstance(sch.get(depth).extent, IntImm)
        steps = -(-tile.reduce_inner // tile.vector) if open_ else None
        inner, thread = sch.split(depth, [steps, tile.reduce_thread])
        return [], inner, thread
    each = tile.reduce_inner // tile.vector
    part, inner, thread = sch.split(depth, [tile.parts, each, tile.reduce_thread])
    return [part], inner, thread


def threads_of(tile: Tile, tags: tuple[str, str]) -> tuple[int, int]:
    """The threads of a block along x and y."""
    sizes = {tags[0]: tile.spatial_thread, tags[1]: tile.reduce_thread}
    return sizes["threadIdx.x"], sizes["threadIdx.y"]
