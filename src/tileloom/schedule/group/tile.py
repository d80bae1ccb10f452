"""The one decision about a group: how its domain is cut into blocks, threads and inner loops.

Source: the rules of CINN's second dynamic-shape group scheduler for warp, block and discrete
reductions; the numbers of threads are those that it found to pay on A100 and V100.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    >>> choose_tile(64, 128, reduces=True, innermost=True, bits=32, target=gpu).method
    'warp'
    >>> choose_tile(4096, 2048, reduces=True, innermost=False, bits=32, target=gpu).method
    'discrete'
    """
    warp = target.warp_size or 32
    if not reduces:
        return _without_reduction(rows, bits, target)
    if not innermost:
        return _columns(rows, depth, warp)
    rest = -(-depth // warp)
    if (rest <= 8 and rows > 1) or rows > rest * 128:
        together = trim(rows, 1, 8)
        return Tile(together, 1, warp, rest, "warp")
    threads = warp * trim(_power_of_two(rest), 1, (target.max_threads or 1024) // warp)
    return Tile(1, 1, threads, -(-depth // threads), "block")


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


def _power_of_two(value: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(1, value).bit_length() - 1)
