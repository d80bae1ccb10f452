"""Who touched which cell of a memory when, and whether a barrier stands between."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .crew import Array, Crew


class Touches(Protocol):
    """What a memory remembers of one kind of access."""

    number: Array  # by cell: the last thread, counted over the grid from 1

    def clashes(self, crew: Crew, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""

    def note(self, crew: Crew, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""


def touches(cells: int, warps: int, timed: bool = False) -> Touches:
    """For warps in lockstep, or (`warps` of a block) for ones that run each on their own.

    Args:
        timed: whether blocks may know of each other's accesses, by fences.
    """
    return ClockedTouches(cells, warps, timed) if warps else LockstepTouches(cells, timed)


def _ordered(
    crew: Crew, who: Array, number: Array, times: Array | None, cells: Array, alone: Array
) -> Array | bool:
    """Whether fences order what one block did to cells before these threads."""
    if times is None or crew.fences is None:
        return False
    return crew.fences.ordered(crew.number[who], number, times[cells], alone)


class LockstepTouches:
    """Who touched each cell last, when, and how far apart those are who touched it since."""

    def __init__(self, cells: int, timed: bool = False) -> None:
        self.time = np.zeros(cells, np.int64) if timed else None
        self.number = np.zeros(cells, np.int64)
        self.passed = np.zeros(cells, np.int32)
        self.warp_passed = np.zeros(cells, np.int32)
        self.spread = np.zeros(cells, np.int8)

    def settled(self, crew: Crew, who: Array, cells: Array) -> Array:
        """Whether barriers stand between all who touched a cell and these threads."""
        number, spread = self.number[cells], self.spread[cells]
        by_block, by_warp = crew.since(who, number, self.passed[cells], self.warp_passed[cells])
        near = np.where(spread <= 1, by_block | by_warp, by_block & (spread == 2))
        fenced = _ordered(crew, who, number, self.time, cells, spread == 0)
        return np.asarray((number == 0) | near | (fenced & (spread <= 2)))

    def clashes(self, crew: Crew, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""
        others = (self.number[cells] != crew.number[who]) | (self.spread[cells] > 0)
        return np.asarray(others & ~self.settled(crew, who, cells))

    def note(self, crew: Crew, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""
        me, before = crew.number[who], self.number[cells]
        apart = np.where(before == me, 0, crew.relation(me, np.maximum(before, 1)))
        settled = self.settled(crew, who, cells)
        self.spread[cells] = np.where(settled, 0, np.maximum(apart, self.spread[cells]))
        self.number[cells] = me
        self.passed[cells] = crew.passed[crew.block[who]]
        self.warp_passed[cells] = crew.warp_passed[crew.warp[who]]
        if self.time is not None and crew.fences is not None:
            self.time[cells] = crew.fences.now
        last = self.number[cells]
        shared = last != me
        if shared.any():
            np.maximum.at(self.spread, cells[shared], crew.relation(me[shared], last[shared]))


class ClockedTouches:
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

    def clashes(self, crew: Crew, who: Array, cells: Array) -> Array:
        """Whether others touched a cell with no barrier since."""
        warp, me = crew.warp[who], crew.number[who]
        rows = np.arange(len(who))
        when = self.when[cells]
        late = (when > 0) & (when >= crew.seen[warp])
        alone = (self.thread[cells, warp] == me) & ~self.several[cells, warp]
        late[rows, warp] &= ~alone
        block = self.block[cells]
        foreign = (block >= 0) & (block != crew.blocks[0])
        single = ((when > 0).sum(axis=1) <= 1) & ~self.several[cells].any(axis=1)
        known = _ordered(crew, who, self.number[cells], self.time, cells, single)
        late = np.where(foreign, np.logical_not(known), late.any(axis=1))
        return np.asarray(late | self.mixed[cells])

    def note(self, crew: Crew, who: Array, cells: Array) -> None:
        """These threads touch these cells now."""
        warp, me = crew.warp[who], crew.number[who]
        foreign = self.block[cells] != crew.blocks[0]
        before = foreign & (self.block[cells] >= 0)
        if before.any():
            at = cells[before]
            self.mixed[at[self.clashes(crew, who[before], at)]] = True
        self.when[cells[foreign]] = 0
        pending = self.when[cells, warp] >= crew.seen[warp, warp]
        pending &= self.when[cells, warp] > 0
        others = (self.thread[cells, warp] != me) | self.several[cells, warp]
        self.several[cells, warp] = False
        self.thread[cells, warp] = me
        several = (pending & others) | (self.thread[cells, warp] != me)
        self.several[cells[several], warp[several]] = True
        self.when[cells, warp] = crew.now
        self.number[cells] = me
        if self.time is not None and crew.fences is not None:
            self.time[cells] = crew.fences.now
        self.block[cells] = crew.blocks[0]
