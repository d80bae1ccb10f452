"""Threads by number, and what fences and atomic calls tell blocks of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.simt.fences import Fences
from tileloom.simt.thread_batch import ThreadBatch


def array(*values: int) -> Any:
    return np.array(values, np.int64)


def test_numbers() -> None:
    batch = ThreadBatch(40, array(3, 7))
    assert (batch.size, batch.warps, batch.actors) == (80, 2, 2)
    assert batch.number[[0, 39, 40, 79]].tolist() == [121, 160, 281, 320]
    assert batch.warp[[0, 31, 32, 39, 40, 72]].tolist() == [0, 0, 1, 1, 2, 3]
    assert batch.places(array(33, 41)) == [(3, 33), (7, 1)]
    assert [batch.place_of(n) for n in (1, 40, 41, 121)] == [(0, 0), (0, 39), (1, 0), (3, 0)]
    engines = ThreadBatch(40, array(0), engines=True)
    assert (engines.actors, engines.copier) == (5, 2)
    assert [engines.multiplier(warp) for warp in (0, 1)] == [3, 4]


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [(1, 32, 1), (1, 33, 2), (33, 64, 1), (32, 33, 2), (64, 65, 3), (1, 129, 3), (66, 70, 1)],
)
def test_how_far_threads_are_apart(one: int, other: int, far: int) -> None:
    batch = ThreadBatch(64, array(0, 1, 2))
    assert batch.relation(array(one, other), array(other, one)).tolist() == [far, far]


def test_barriers_between() -> None:
    batch = ThreadBatch(64, array(4, 5))
    batch.passed[:], batch.warp_passed[:] = [1, 0], [0, 2, 0, 0]
    others = array(4 * 64 + 1, 4 * 64 + 40, 4 * 64 + 40, 5 * 64 + 1, 1)
    lanes = array(0, 40, 0, 64, 0)
    zero = np.zeros(5, int)
    by_block, by_warp = batch.since(lanes, others, zero, zero)
    assert by_block.tolist() == [True, True, True, False, False]
    assert by_warp.tolist() == [False, True, False, False, False]
    by_block, by_warp = batch.since(lanes, others, zero + 1, zero + 2)
    assert not by_block.any() and not by_warp.any()


def test_warps_meet() -> None:
    alone, several = ThreadBatch(64, array(0)), ThreadBatch(64, array(0, 1))
    for batch, now in ((alone, 3), (several, 1)):
        batch.pass_warps(array(0, 1))
        assert batch.warp_passed[:2].tolist() == [1, 1] and batch.now == now
    assert alone.seen.diagonal().tolist() == [2, 3]
    alone.learn(1, alone.release(0))
    assert alone.seen[1].tolist() == [4, 3]


# ---------------------------------------------------------------------------- fences

WORD = 100


def released(order: str = "relaxed", fence: bool = True, meet: bool = False) -> Fences:
    """Two blocks of two threads; thread 1 (or its block) wrote at time 1, and changes a word."""
    found = Fences(2, 2)
    if meet:
        found.pass_barrier(array(0))
    if fence:
        found.fence(array(1))
    found.change(array(1), [WORD], order, changes=True)
    return found


def knows(fences: Fences, who: int, alone: bool = True) -> bool:
    """Whether a thread knows what thread 1 did at time 1."""
    (found,) = fences.ordered(array(who), array(1), array(1), np.array([alone]))
    return bool(found)


@pytest.mark.parametrize(
    ("order", "fence", "found", "then", "known"),
    [
        ("relaxed", True, "relaxed", True, True),
        ("relaxed", False, "relaxed", True, False),  # not released
        ("relaxed", True, "relaxed", False, False),  # not acquired
        ("release", False, "acquire", False, True),
        ("acq_rel", False, "acq_rel", False, True),
        ("acquire", False, "acquire", False, False),
        ("release", False, "release", False, False),
    ],
)
def test_release_and_acquire(order: str, fence: bool, found: str, then: bool, known: bool) -> None:
    fences = released(order, fence)
    fences.change(array(3), [WORD], found, changes=False)
    if then:
        fences.fence(array(3))
    assert knows(fences, 3) == known
    assert not knows(fences, 4)  # the other thread of that block


def test_a_barrier_tells_the_whole_block() -> None:
    fences = released()
    fences.change(array(3), [WORD], "relaxed", changes=False)
    fences.pass_barrier(array(0))  # of the other block
    assert not knows(fences, 3)
    fences.pass_barrier(array(1))
    assert knows(fences, 3) and knows(fences, 4)


def test_what_a_block_did_before_its_barrier() -> None:
    for meet in (False, True):
        fences = released(meet=meet)
        fences.change(array(3), [WORD], "acquire", changes=False)
        assert knows(fences, 3, alone=False) == meet


def test_all_changes_of_a_word() -> None:
    fences = released()
    assert not fences.last(array(3), [WORD]).any()
    assert not fences.last(array(3), [WORD + 1]).any()
    fences.change(array(3), [WORD], "relaxed", changes=False)
    assert fences.last(array(3), [WORD]).all() and not fences.last(array(4), [WORD]).any()
    fences.change(array(2), [WORD], "relaxed", changes=True)
    assert not fences.last(array(3), [WORD]).any()


def test_words_carry_what_others_told() -> None:
    """Thread 1 tells thread 3 by one word, which tells thread 4 of another block by a second."""
    fences = Fences(1, 3)
    fences.fence(array(1))
    fences.change(array(1), [WORD], "relaxed", changes=True)
    fences.change(array(2), [WORD], "acquire", changes=False)
    fences.change(array(2), [WORD + 1], "release", changes=True)
    fences.change(array(3), [WORD + 1], "acquire", changes=False)
    assert knows(fences, 3) and knows(fences, 2)
