"""The threads that are run together: all threads of some blocks, in lockstep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .fences import Fences

Array = np.ndarray[Any, Any]
#: Threads of a warp.
WARP = 32


class ThreadBatch:
    """Threads by number, and how many barriers their blocks and warps have passed.

    Attributes:
        threads: of one block.
        blocks: the numbers of the blocks that are run.
        number: of each thread, counted over the whole grid from 1.
        block, thread, warp: of each thread, where `block` and `warp` count those that are run.
        passed: barriers passed by each block; `warp_passed` by each warp.
    """

    def __init__(self, threads: int, blocks: Array, engines: bool = False) -> None:
        self.threads = threads
        self.blocks = blocks
        count = len(blocks)
        self.thread = np.tile(np.arange(threads), count)
        self.block = np.repeat(np.arange(count), threads)
        self.number = blocks[self.block] * threads + self.thread + 1
        self.warps = -(-threads // WARP)
        self.warp = self.block * self.warps + self.thread // WARP
        self.passed = np.zeros(count, np.int32)
        self.warp_passed = np.zeros(count * self.warps, np.int32)
        # Of one block whose warps run each on their own: until when each has seen each other.
        self.now = 1
        # Engines are actors too: one that copies, then for each warp one that multiplies.
        self.actors = 2 * self.warps + 1 if engines else self.warps
        self.seen = np.zeros((self.actors, self.actors), np.int64)
        self.committed = np.zeros(self.size, np.int32)  # groups of asynchronous copies
        self.fences: Fences | None = None  # where blocks may learn from each other

    @property
    def size(self) -> int:
        """How many threads are run."""
        return len(self.thread)

    def release(self, warp: int) -> Array:
        """What a warp has done and seen, for others to learn."""
        self.now += 1
        self.seen[warp, warp] = self.now
        return np.array(self.seen[warp])

    def learn(self, warp: int, known: Array) -> None:
        """A warp sees what others had seen."""
        np.maximum(self.seen[warp], known, out=self.seen[warp])

    @property
    def copier(self) -> int:
        """The actor that copies for all warps."""
        return self.warps

    def multiplier(self, warp: int) -> int:
        """The actor that multiplies for a warp."""
        return self.warps + 1 + warp

    @contextmanager
    def acting(self, lanes: Array, actor: int) -> Iterator[None]:
        """A scope in which what these threads touch, an engine touches for them."""
        own = self.warp
        self.warp = own.copy()
        self.warp[lanes] = actor
        try:
            yield
        finally:
            self.warp = own

    def pass_warps(self, warps: Array) -> None:
        """The lanes of these warps have met."""
        self.warp_passed[warps] += 1
        if len(self.blocks) == 1:
            for warp in warps:
                self.release(int(warp))

    def places(self, lanes: Array) -> list[tuple[int, int]]:
        """The numbers of some threads' blocks, and theirs."""
        return [(int(self.blocks[self.block[k]]), int(self.thread[k])) for k in lanes]

    def place_of(self, number: int) -> tuple[int, int]:
        """The block and the thread of a number over the grid."""
        block, thread = divmod(int(number) - 1, self.threads)
        return block, thread

    def since(
        self, lanes: Array, others: Array, passed: Array, warp_passed: Array
    ) -> tuple[Array, Array]:
        """Whether a barrier of the block, or one of the warp, stands between others and these.

        Args:
            lanes: threads, by position.
            others: numbers over the grid of threads that did something before.
            passed, warp_passed: barriers that their block and warp had passed then.
        """
        block, thread = np.divmod(others - 1, self.threads)
        same_block = block == self.blocks[self.block[lanes]]
        same_warp = same_block & (thread // WARP == self.thread[lanes] // WARP)
        by_block = same_block & (passed < self.passed[self.block[lanes]])
        by_warp = same_warp & (warp_passed < self.warp_passed[self.warp[lanes]])
        return by_block, by_warp

    def relation(self, numbers: Array, others: Array) -> Array:
        """How far threads are apart: 1 in one warp, 2 in one block, 3 beyond."""
        block, thread = np.divmod(numbers - 1, self.threads)
        other_block, other = np.divmod(others - 1, self.threads)
        far = np.where(thread // WARP == other // WARP, 1, 2)
        result: Array = np.where(block == other_block, far, 3).astype(np.int8)
        return result
