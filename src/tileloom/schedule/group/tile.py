"""The one decision about a group: how its domain is cut into blocks, threads and inner loops.

Warp, block and discrete reductions are those of CINN's second dynamic-shape group scheduler. The
number of threads follows from what a thread can keep in registers and from how many threads a GPU
needs to be busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ...base import Target

Method = Literal["none", "warp", "block", "discrete"]

#: Elements that a thread keeps in registers between two uses; beyond, they are computed again.
KEPT = 8


@dataclass(frozen=True)
class Tile:
    """How a domain of `rows x depth` positions is shared out.

    Attributes:
        spatial_thread: rows, or neighbouring columns, of one thread block.
        spatial_inner: neighbours along the innermost spatial axis that a thread computes.
        reduce_thread: threads that share one reduction.
        reduce_inner: positions that one thread of them reduces.
        method: how partial results of threads come together.
        vector: neighbours that a thread reads at once.
    """

    spatial_thread: int
    spatial_inner: int
    reduce_thread: int
    reduce_inner: int
    method: Method
    vector: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spatial_thread * self.reduce_thread

    def with_threads(self, rows: int) -> Tile:
        """The same with another number of threads for rows."""
        return replace(self, spatial_thread=rows)


def busy_threads(target: Target) -> int:
    """Threads that keep a GPU busy: about a thousand on each processor."""
    return 1024 * (target.processors or 100)


def busy_blocks(target: Target) -> int:
    """Blocks that keep a GPU busy.

    >>> from tileloom.base import target
    >>> busy_blocks(target("cuda -arch=sm_80"))
    216
    """
    return 2 * (target.processors or 100)


def trim(value: int, low: int, high: int) -> int:
    """`value` within bounds."""
    return max(low, min(high, value))


def choose_tile(
    rows: int, depth: int, *, reduces: bool, innermost: bool, bits: int, target: Target
) -> Tile:
    """The tile of a domain.

    Args:
        rows, depth: positions along the spatial and along the reduction axes.
        reduces: whether the group reduces at all.
        innermost: whether neighbours in memory are reduced together.
        bits: of the widest element.
        target: a GPU.

    >>> from tileloom.base import target
    >>> gpu = target("cuda -arch=sm_80")
    >>> tile = choose_tile(64, 128, reduces=True, innermost=True, bits=32, target=gpu)
    >>> tile.reduce_thread, tile.reduce_inner, tile.method
    (128, 1, 'block')
    >>> choose_tile(100_000, 128, reduces=True, innermost=True, bits=32, target=gpu).method
    'warp'
    >>> choose_tile(4096, 2048, reduces=True, innermost=False, bits=32, target=gpu).method
    'discrete'
    """
    warp = target.warp_size or 32
    if not reduces:
        return _without_reduction(rows, bits, target)
    if not innermost:
        return _columns(rows, depth, warp)
    wanted = max(-(-depth // KEPT), -(-busy_threads(target) // max(1, rows)))
    threads = trim(_next_power(wanted), warp, target.max_threads or 1024)
    threads = min(threads, max(warp, _next_power(depth)))
    inner = -(-depth // threads)
    if threads > warp:
        return Tile(1, 1, threads, inner, "block")
    return Tile(trim(rows // busy_blocks(target), 1, 8), 1, warp, inner, "warp")


def alternatives(tile: Tile, rows: int, depth: int) -> Iterator[Tile]:
    """A tile, and those that leave no thread without work, for domains that others cannot cut.

    >>> [t.reduce_thread for t in alternatives(Tile(12, 1, 16, 3, "discrete"), 12, 40)]
    [16, 10]
    """
    yield tile
    threads = divisor(depth, tile.reduce_thread)
    together = divisor(rows, tile.spatial_thread)
    even = replace(
        tile, spatial_thread=together, reduce_thread=threads, reduce_inner=depth // threads
    )
    if even != tile:
        yield even


def divisor(value: int, limit: int) -> int:
    """The largest divisor of `value` up to `limit`."""
    return max((k for k in range(1, min(value, limit) + 1) if value % k == 0), default=1)


def _without_reduction(rows: int, bits: int, target: Target) -> Tile:
    """Threads of 256, each with as many neighbours as fill 16 bytes while there is enough work."""
    vector = max(1, 128 // max(8, bits))
    while vector > 1 and (rows % vector or rows // vector < 256 * 64):
        vector //= 2
    return Tile(min(256, max(1, rows)), vector, 1, 1, "none", vector)


def _columns(rows: int, depth: int, warp: int) -> Tile:
    """Neighbouring columns side by side; several threads share a column when it is long."""
    if depth <= 16:
        return Tile(min(rows, warp * trim(-(-rows // warp), 1, 8)), 1, 1, depth, "none")
    threads = trim(_power_of_two(depth), 1, 16)
    return Tile(min(warp, rows), 1, threads, -(-depth // threads), "discrete")


def _next_power(value: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, value - 1).bit_length()


def _power_of_two(value: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(1, value).bit_length() - 1)
