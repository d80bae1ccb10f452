"""Who touched which cell of a memory when, and whether a barrier stands between."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .thread_batch import Array, ThreadBatch


class AccessHistory(Protocol):
    """What a memory remembers of one kind of access."""

    number: Array  # by cell: the last thread, counted over the grid from 1

    def conflicts(self, batch: ThreadBatch, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""

    def note(self, batch: ThreadBatch, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""


def access_history(cells: int, warps: int, timed: bool = False) -> AccessHistory:
    """For warps in lockstep, or (`warps` of a block) for ones that run each on their own.

    Args:
        timed: whether blocks may know of each other's accesses, by fences.
    """
    return ClockedHistory(cells, warps, timed) if warps else LockstepHistory(cells, timed)


def _ordered(
    batch: ThreadBatch, who: Array, number: Array, times: Array | None, cells: Array, alone: Array
) -> Array | bool:
    """Whether fences order what one block did to cells before these threads."""
    if times is None or batch.fences is None:
        return False
    return batch.fences.ordered(batch.number[who], number, times[cells], alone)


class LockstepHistory:
    """Who touched each cell last, when, and how far apart those are who touched it since."""

    def __init__(self, cells: int, timed: bool = False) -> None:
        self.time = np.zeros(cells, np.int64) if timed else None
        self.number = np.zeros(cells, np.int64)
        self.passed = np.zeros(cells, np.int32)
        self.warp_passed = np.zeros(cells, np.int32)
        self.spread = np.zeros(cells, np.int8)

    def settled(self, batch: ThreadBatch, who: Array, cells: Array) -> Array:
        """Whether barriers stand between all who touched a cell and these threads."""
        number, spread = self.number[cells], self.spread[cells]
        by_block, by_warp = batch.since(who, number, self.passed[cells], self.warp_passed[cells])
        near = np.where(spread <= 1, by_block | by_warp, by_block & (spread == 2))
        fenced = _ordered(batch, who, number, self.time, cells, spread == 0)
        return np.asarray((number == 0) | near | (fenced & (spread <= 2)))

    def conflicts(self, batch: ThreadBatch, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""
        others = (self.number[cells] != batch.number[who]) | (self.spread[cells] > 0)
        return np.asarray(others & ~self.settled(batch, who, cells))

    def note(self, batch: ThreadBatch, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""
        me, before = batch.number[who], self.number[cells]
        apart = np.where(before == me, 0, batch.relation(me, np.maximum(before, 1)))
        settled = self.settled(batch, who, cells)
        self.spread[cells] = np.where(settled, 0, np.maximum(apart, self.spread[cells]))
        self.number[cells] = me
        self.passed[cells] = batch.passed[batch.block[who]]
        self.warp_passed[cells] = batch.warp_passed[batch.warp[who]]
        if self.time is not None and batch.fences is not None:
            self.time[cells] = batch.fences.now
        last = self.number[cells]
        shared = last != me
        if shared.any():
            np.maximum.at(self.spread, cells[shared], batch.relation(me[shared], last[shared]))


class ClockedHistory:
    """When each warp of a block touched each cell last.

    Blocks are run one after another; what several of them touch is in order only by fences.
    """

    def __init__(self, cells: int, warps: int, timed: bool = False) -> None:
        self.time = np.zeros(cells, np.int64) if timed else None
        self.number = np.zeros(cells, np.int64)
        self.block = np.full(cells, -1, np.int64)
        self.when = np.zeros((cells, warps), np.int64)
        self.thread = np.zeros((cells, warps), np.int64)
        self.several = np.zeros((cells, warps), bool)  # threads of the warp
        self.mixed = np.zeros(cells, bool)  # touched by several blocks, in no order

    def conflicts(self, batch: ThreadBatch, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""
        warp, me = batch.warp[who], batch.number[who]
        rows = np.arange(len(who))
        when = self.when[cells]
        late = (when > 0) & (when >= batch.seen[warp])
        alone = (self.thread[cells, warp] == me) & ~self.several[cells, warp]
        late[rows, warp] &= ~alone
        block = self.block[cells]
        foreign = (block >= 0) & (block != batch.blocks[0])
        single = ((when > 0).sum(axis=1) <= 1) & ~self.several[cells].any(axis=1)
        known = _ordered(batch, who, self.number[cells], self.time, cells, single)
        late = np.where(foreign, np.logical_not(known), late.any(axis=1))
        return np.asarray(late | self.mixed[cells])

    def note(self, batch: ThreadBatch, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""
        warp, me = batch.warp[who], batch.number[who]
        foreign = self.block[cells] != batch.blocks[0]
        before = foreign & (self.block[cells] >= 0)
        if before.any():
            at = cells[before]
            self.mixed[at[self.conflicts(batch, who[before], at)]] = True
        self.when[cells[foreign]] = 0
        pending = self.when[cells, warp] >= batch.seen[warp, warp]
        pending &= self.when[cells, warp] > 0
        others = (self.thread[cells, warp] != me) | self.several[cells, warp]
        self.several[cells, warp] = False
        self.thread[cells, warp] = me
        several = (pending & others) | (self.thread[cells, warp] != me)
        self.several[cells[several], warp[several]] = True
        self.when[cells, warp] = batch.now
        self.number[cells] = me
        if self.time is not None and batch.fences is not None:
            self.time[cells] = batch.fences.now
        self.block[cells] = batch.blocks[0]
