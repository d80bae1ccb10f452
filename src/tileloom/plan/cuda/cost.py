"""How long a tile takes, by a cost model: what candidates are compared by.

A kernel of a group mostly waits for memory. It moves no faster than the bandwidth allows, nor than
what its threads have under way at a time arrives; and each time that blocks come together, a
processor waits for them. The constants, in cycles, are those of recent GPUs; only ratios count.
"""

from __future__ import annotations

from math import ceil, log2

from ...target import Target
from ...target.cost import bytes_per_cycle
from .tile import LONGEST, Tile

#: Until a load arrives; loads that a thread has under way at once; what a thread does with an
#: element; a step of a warp's shuffles, and of a tree in shared memory; a barrier.
LATENCY, UNDER_WAY, ELEMENT, SHUFFLE, TREE, BARRIER = 800, 4, 12, 25, 60, 60
#: Threads and blocks that a processor holds at a time.
THREADS, BLOCKS = 2048, 32


def estimate(tile: Tile, rows: int, depth: int, bits: int, target: Target) -> float:
    """Cycles until all processors are done.

    A short loop over few rows waits least with a block for each row; many rows are best left to
    single warps, which need no barrier.

    >>> from tileloom.target import target
    >>> gpu = target("cuda -arch=sm_80")
    >>> warps, block = Tile(4, 1, 32, 8, "warp"), Tile(1, 1, 256, 1, "block")
    >>> [estimate(warps, rows, 256, 32, gpu) < estimate(block, rows, 256, 32, gpu)
    ...  for rows in (802, 7096)]
    [False, True]
    """
    blocks = ceil(max(1, rows) / tile.spatial_thread) * tile.parts
    on_one = ceil(blocks / target.processors)
    resident = max(1, min(BLOCKS, THREADS // (32 * ceil(tile.threads / 32))))
    rounds = ceil(on_one / resident)
    passes = 1 if tile.keeps_rows else 2
    size = on_one * tile.spatial_thread * depth / tile.parts * bits / 8
    at_once = tile.vector * (UNDER_WAY if tile.reduce_inner <= LONGEST else 1)  # loops wait
    waits = ceil(tile.reduce_inner / at_once) * LATENCY
    loading = passes * max(size / bytes_per_cycle(target), rounds * waits)
    return loading + rounds * (tile.reduce_inner * ELEMENT + _combining(tile))


def _combining(tile: Tile) -> float:
    """Until the threads of a reduction have its result."""
    if tile.reduce_thread == 1:
        return 0
    if tile.method == "discrete":
        return BARRIER + log2(tile.reduce_thread) * TREE
    warp = log2(min(32, tile.reduce_thread)) * SHUFFLE
    if tile.reduce_thread <= 32:
        return warp
    return warp + BARRIER + SHUFFLE + log2(tile.reduce_thread / 32) * SHUFFLE
