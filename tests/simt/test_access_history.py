"""Who may have raced with whom: compared with a list of all that happened, at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tileloom.simt.access_history import ClockedHistory, LockstepHistory, access_history
from tileloom.simt.fences import Fences
from tileloom.simt.thread_batch import WARP, ThreadBatch

CELLS = 5


def array(*values: int) -> Any:
    return np.array(values, np.int64)


@dataclass
class Happened:
    """All accesses of a grid, and after which of them barriers came.

    `order` has, for each thread, the accesses that are ordered before whatever it does next.
    """

    threads: int
    accesses: list[tuple[int, int]] = field(default_factory=list)  # thread over the grid, cell
    order: dict[int, set[int]] = field(default_factory=dict)

    def access(self, thread: int, cell: int) -> None:
        self.order.setdefault(thread, set()).add(len(self.accesses))
        self.accesses.append((thread, cell))

    def pass_barrier(self, threads: Sequence[int]) -> None:
        known = set().union(*(self.order.get(t, set()) for t in threads))
        for t in threads:
            self.order[t] = set(known)

    def conflicts(self, thread: int, cell: int) -> bool:
        known = self.order.get(thread, set())
        return any(c == cell and k not in known for k, (_, c) in enumerate(self.accesses))


def same(found: Any, wanted: Iterator[bool]) -> None:
    assert found.tolist() == list(wanted)


@pytest.mark.parametrize("seed", range(6))
def test_threads_in_lockstep(seed: int) -> None:
    """Three blocks of 40 threads: barriers are of all threads of a block, or of a warp."""
    rng = np.random.default_rng(seed)
    batch = ThreadBatch(40, array(2, 5, 6))
    found, happened = LockstepHistory(CELLS), Happened(40)
    few = rng.choice(batch.size, 7, replace=False)
    for _ in range(60):
        kind = rng.integers(4)
        if kind == 0:
            block = int(rng.integers(3))
            batch.passed[block] += 1
            happened.pass_barrier([int(t) for t in np.flatnonzero(batch.block == block)])
        elif kind == 1:
            warp = int(rng.integers(6))
            batch.pass_warps(array(warp))
            happened.pass_barrier([int(t) for t in np.flatnonzero(batch.warp == warp)])
        else:
            who = np.sort(rng.choice(few, rng.integers(1, 4), replace=False))
            cells = rng.integers(0, CELLS, len(who)) if kind == 2 else np.full(len(who), 1)
            found.note(batch, who, cells)
            for t, cell in zip(who.tolist(), cells.tolist(), strict=True):
                happened.access(t, cell)
        for cell in range(CELLS):
            conflicts = found.conflicts(batch, few, np.full(len(few), cell))
            same(conflicts, (happened.conflicts(int(t), cell) for t in few))


@pytest.mark.parametrize("seed", range(6))
def test_warps_on_their_own(seed: int) -> None:
    """Four warps of one block: some of them meet, or the lanes of one."""
    rng = np.random.default_rng(seed)
    batch = ThreadBatch(100, array(3))
    found, happened = ClockedHistory(CELLS, batch.actors), Happened(100)
    few = rng.choice(batch.size, 9, replace=False)
    for _ in range(60):
        kind = rng.integers(4)
        if kind == 0:
            warps = rng.choice(4, rng.integers(2, 4), replace=False).tolist()
            known = np.max([batch.release(warp) for warp in warps], axis=0)
            for warp in warps:
                batch.learn(warp, known)
            happened.pass_barrier([t for t in range(100) if t // WARP in warps])
        elif kind == 1:
            warp = int(rng.integers(4))
            batch.pass_warps(array(warp))
            happened.pass_barrier([t for t in range(100) if t // WARP == warp])
        else:
            warp = few[rng.integers(len(few))] // WARP
            who = np.sort(few[few // WARP == warp])
            cells = rng.integers(0, CELLS, len(who)) if kind == 2 else np.full(len(who), 1)
            found.note(batch, who, cells)
            for t, cell in zip(who.tolist(), cells.tolist(), strict=True):
                happened.access(t, cell)
        for cell in range(CELLS):
            conflicts = found.conflicts(batch, few, np.full(len(few), cell))
            same(conflicts, (happened.conflicts(int(t), cell) for t in few))


Make = Callable[[], Any]
MADE: list[Make] = [lambda: LockstepHistory(CELLS), lambda: ClockedHistory(CELLS, 2)]


@pytest.mark.parametrize("make", MADE)
def test_blocks_one_after_another(make: Make) -> None:
    """What blocks do to one cell is in no order, however many threads of each have met since."""
    found, first, second = make(), ThreadBatch(64, array(0)), ThreadBatch(64, array(1))
    found.note(first, array(3), array(0))
    assert found.number[0] == 4
    assert found.conflicts(second, array(3, 3), array(0, 1)).tolist() == [True, False]
    found.note(second, array(5), array(0))
    assert found.number[0] == 70
    assert found.conflicts(second, array(5), array(0)).tolist() == [True], "with block 0"
    for warp in (0, 1):
        second.learn(warp, second.release(warp))
    second.passed[0] += 1
    assert found.conflicts(second, array(5), array(0)).tolist() == [True], "with block 0"


def test_which_kind() -> None:
    assert isinstance(access_history(3, 0), LockstepHistory)
    clocked = access_history(3, 4)
    assert isinstance(clocked, ClockedHistory) and clocked.when.shape == (3, 4)
    assert access_history(3, 0, timed=True).time.tolist() == [0, 0, 0]  # type: ignore[attr-defined]
    assert access_history(3, 4, timed=True).time.tolist() == [0, 0, 0]  # type: ignore[attr-defined]
    assert clocked.time is None


@pytest.mark.parametrize("warps", [0, 2])
@pytest.mark.parametrize(
    ("several", "fences", "meets", "known"),
    [
        ((3,), True, False, True),  # one thread, which has fenced since
        ((3,), False, False, False),
        ((3, 4), True, False, False),  # two, of which one has fenced
        ((3, 4), True, True, True),  # both before a barrier, then one fences
        ((3, 40), True, True, True),
        ((3, 40), True, False, False),
    ],
)
def test_fences_between_blocks(
    warps: int, several: tuple[int, ...], fences: bool, meets: bool, known: bool
) -> None:
    """Block 0 touches a cell and tells of it by a word, which block 1 finds."""
    first, second = ThreadBatch(64, array(0)), ThreadBatch(64, array(1))
    first.fences = second.fences = both = Fences(64, 2)
    found: Any = access_history(CELLS, warps, timed=True)
    for thread in several:
        found.note(first, array(thread), array(2))
    if meets:
        both.pass_barrier(array(0))
    if fences:
        both.fence(array(several[-1] + 1))
    both.change(array(several[-1] + 1), [7], "relaxed", changes=True)
    both.change(array(64 + 1), [7], "acquire", changes=False)
    conflicts = found.conflicts(second, array(0, 1), array(2, 2))
    assert conflicts.tolist() == [not known, True]
    if known:
        found.note(second, array(0), array(2))
        assert not found.conflicts(second, array(0), array(2)).any()
