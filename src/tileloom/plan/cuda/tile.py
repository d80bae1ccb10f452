"""The one decision about a group: how its domain is cut into blocks, threads and inner loops.

Warp, block and discrete reductions are those of CINN's second dynamic-shape group scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ...expr.extents import is_number
from ...target import Target

Method = Literal["none", "warp", "block", "discrete"]

#: Elements of a row that a thread keeps in registers between two uses, one by one or in vectors.
KEPT, LONGEST = 8, 16
#: Stands for the elements that a thread passes over in a loop, where the number depends.
MANY = 1024


@dataclass(frozen=True)
class Tile:
    """How a domain of `rows x depth` positions is divided among threads.

    Attributes:
        spatial_thread: rows, or neighbouring columns, of one thread block.
        spatial_inner: neighbours along the innermost spatial axis that a thread computes.
        reduce_thread: threads that share one reduction.
        reduce_inner: positions that one thread of them reduces.
        method: how partial results of threads come together.
        vector: neighbours that a thread reads at once.
        parts: blocks that share a row.
    """

    spatial_thread: int
    spatial_inner: int
    reduce_thread: int
    reduce_inner: int
    method: Method
    vector: int = 1
    parts: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.spatial_thread * self.reduce_thread

    @property
    def keeps_rows(self) -> bool:
        """Whether threads keep what they have of a row; else they read and compute it again."""
        return self.reduce_inner <= (LONGEST if self.vector > 1 else KEPT)

    def with_threads(self, rows: int) -> Tile:
        """The same with another number of threads for rows."""
        return replace(self, spatial_thread=rows)


def busy_blocks(target: Target) -> int:
    """Blocks that keep a GPU busy.

    >>> from tileloom.target import target
    >>> busy_blocks(target("cuda -arch=sm_80"))
    216
    """
    return 2 * target.processors


def trim(value: int, low: int, high: int) -> int:
    """`value` within bounds."""
    return max(low, min(high, value))


def alternatives(tile: Tile, rows: int, depth: int) -> Iterator[Tile]:
    """A tile, and those that leave no thread without work, for domains that others cannot cut.

    >>> [t.reduce_thread for t in alternatives(Tile(12, 1, 16, 3, "discrete"), 12, 40)]
    [16, 10]
    """
    yield tile
    if tile.vector > 1 and tile.reduce_inner > 1:
        yield replace(tile, vector=1)
    if not (is_number(rows) and is_number(depth)):
        if tile.keeps_rows and tile.reduce_thread > 1:
            yield replace(tile, vector=1, reduce_inner=MANY)
        return
    threads = divisor(depth, tile.reduce_thread)
    together = divisor(rows, tile.spatial_thread)
    even = replace(
        tile,
        spatial_thread=together,
        reduce_thread=threads,
        reduce_inner=depth // threads,
        vector=1,
        parts=1,
    )
    if even != tile:
        yield even


def divisor(value: int, limit: int) -> int:
    """The largest divisor of `value` up to `limit`."""
    return max((k for k in range(1, min(value, limit) + 1) if value % k == 0), default=1)


def next_power(value: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, value - 1).bit_length()
