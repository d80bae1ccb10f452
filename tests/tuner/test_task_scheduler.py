"""Which program is tuned next."""

from __future__ import annotations

from math import inf

import pytest

from tileloom.tuner.task_scheduler import GradientBased, Progress, RoundRobin


def test_each_program_gets_a_round_before_any_gets_two() -> None:
    tasks = [Progress(), Progress(), Progress(is_over=True), Progress()]
    chooser, order = GradientBased(), []
    for _ in range(3):
        k = chooser.choose(tasks)
        assert k is not None
        order.append(k)
        tasks[k].best.append(1.0)
    assert order == [0, 1, 3]


@pytest.mark.parametrize(
    ("one", "two", "chosen"),
    [
        (Progress(best=[2.0]), Progress(best=[1.0]), 0),  # the slower one
        (Progress(best=[2.0]), Progress(3.0, [1.0]), 1),  # which runs three times as often
        (Progress(best=[2.0] * 8), Progress(best=[1.0, 1.0]), 1),  # has had eight rounds already
        # 0.2 * (9 - 3) / 3 + 0.8 * 3 / 4 against 0.2 * 0 + 0.8 * 4 / 4: what falls goes on.
        (Progress(best=[9.0, 6.0, 4.0, 3.0]), Progress(best=[4.0] * 4), 0),
        (Progress(best=[inf]), Progress(best=[1e-6]), 1),  # nothing of it ran
        (Progress(best=[9.0], is_over=True), Progress(best=[1.0]), 1),
    ],
)
def test_where_most_is_to_be_gained(one: Progress, two: Progress, chosen: int) -> None:
    assert GradientBased().choose([one, two]) == chosen


def test_a_fall_from_nothing_is_no_gain() -> None:
    """Nothing ran in the first round; a gain without end would win for ever."""
    one, two = Progress(best=[inf, 1.0, 1.0, 1.0]), Progress(best=[2.0, 2.0, 2.0, 2.0])
    assert GradientBased().choose([one, two]) == 1


def test_equals_are_drawn_by_seed() -> None:
    tasks = [Progress(best=[1.0]) for _ in range(4)]
    choosers = [GradientBased(seed=seed) for seed in (5, 5, 6)]
    drawn = [[chooser.choose(tasks) for _ in range(40)] for chooser in choosers]
    assert drawn[0] == drawn[1] != drawn[2] and set(drawn[0]) == {0, 1, 2, 3}


def test_nothing_is_left() -> None:
    over = [Progress(is_over=True)]
    assert GradientBased().choose(over) is None and RoundRobin().choose(over) is None
    assert GradientBased().choose([]) is None and RoundRobin().choose([]) is None
