"""Candidates for the tile of a domain, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...target import Target
from .cost import estimate
from .tile import Tile, next_power, trim

#: Threads of a block without reductions, and rows of them that a GPU should have at least.
THREADS, ENOUGH = 256, 64


def choose_tile(
    rows: int,
    depth: int,
    *,
    reduces: bool,
    innermost: bool,
    bits: int,
    target: Target,
    length: int | None = None,
) -> Tile:
    """The tile of a domain.

    Args:
        rows, depth: positions along the spatial and along the reduction axes.
        reduces: whether the group reduces at all.
        innermost: whether neighbours in memory are reduced together.
        bits: of the widest element.
        target: a GPU.
        length: of what lies side by side in memory; by default a row.

    >>> from tileloom.target import target
    >>> gpu = target("cuda -arch=sm_80")
    >>> tile = choose_tile(64, 2048, reduces=True, innermost=True, bits=32, target=gpu)
    >>> tile.reduce_thread, tile.reduce_inner, tile.vector, tile.method
    (512, 4, 4, 'block')
    >>> choose_tile(100_000, 128, reduces=True, innermost=True, bits=32, target=gpu).method
    'warp'
    >>> choose_tile(4096, 2048, reduces=True, innermost=False, bits=32, target=gpu).method
    'discrete'
    """
    if not reduces:
        return without_reduction(rows, bits)
    if innermost:
        found = list(_along_rows(rows, depth, depth if length is None else length, bits, target))
    else:
        found = list(_across_rows(rows, depth, target))
    return min(found, key=lambda tile: estimate(tile, rows, depth, bits, target))


def _along_rows(rows: int, depth: int, length: int, bits: int, target: Target) -> Iterator[Tile]:
    """A warp for a row, several in a block; or a block for a row."""
    warp = target.warp_size or 32
    if depth <= warp // 2:  # rows share a warp
        threads = next_power(depth)
        yield Tile(trim(rows, 1, THREADS // threads), 1, threads, 1, "warp")
        return
    for together in (1, 2, 4, 8):
        if together == 1 or rows >= together:
            inner = -(-depth // warp)
            yield Tile(together, 1, warp, inner, "warp", vector_of(length, inner, bits))
    threads = 2 * warp
    while threads <= min(target.max_threads or 1024, next_power(depth)):
        inner = -(-depth // threads)
        yield Tile(1, 1, threads, inner, "block", vector_of(length, inner, bits))
        threads *= 2


def _across_rows(rows: int, depth: int, target: Target) -> Iterator[Tile]:
    """Neighbouring columns side by side; several threads share a column when it is long."""
    warp = target.warp_size or 32
    for columns in (warp, 2 * warp):
        if columns == warp or rows >= columns:
            yield Tile(min(columns, max(1, rows)), 1, 1, depth, "none")
    for threads in (2, 4, 8, 16, 32):
        if threads <= depth:
            yield Tile(min(warp, max(1, rows)), 1, threads, -(-depth // threads), "discrete")


def vector_of(length: int, inner: int, bits: int) -> int:
    """How many neighbours a thread reads at once: up to 16 bytes, of a row of this length."""
    vector = max(1, 128 // max(8, bits))
    while vector > 1 and (length % vector or inner < vector):
        vector //= 2
    return vector


def without_reduction(rows: int, bits: int) -> Tile:
    """Threads of 256, each with as many neighbours as fill 16 bytes while there is enough work."""
    vector = max(1, 128 // max(8, bits))
    while vector > 1 and (rows % vector or rows // vector < THREADS * ENOUGH):
        vector //= 2
    return Tile(min(THREADS, max(1, rows)), vector, 1, 1, "none", vector)
