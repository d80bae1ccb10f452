"""Intervals of indices while variables run, by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.expr import Let, Ramp, Range, Var, const, evaluate
from tileloom.tir.analysis_intervals import Intervals

I, J, N = Var("i"), Var("j"), Var("n")


def ends(intervals: Intervals, expr: Any, env: dict[Var, int]) -> tuple[Any, Any]:
    found = intervals.of(expr)
    least, most = found.min_value, found.max_value
    assert least is not None and most is not None
    return evaluate(least, env), evaluate(most, env)


@pytest.mark.parametrize(
    "expr",
    [
        I, J, I + J, I - J, I * 3 + 2, 7 - I * 2, I * 8 + J, N * 8 + I * 2 + J, N - I, I // 2,
        (I + 1) // 3, N * 4, const(5), Let(Var("x"), I, I + 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("first", [0, 3, -2])
def test_ends_are_those_of_the_values(expr: Any, first: int) -> None:
    """`i` in [first, first + 4), `j` in [0, i + 3)."""
    intervals = Intervals()
    intervals.run(I, Range(first, 4))
    intervals.run(J, Range(0, I + 3))
    for n in (-1, 0, 6):
        points = ((i, j) for i in range(first, first + 4) for j in range(i + 3))
        values = [evaluate(expr, {I: i, J: j, N: n}) for i, j in points]
        least, most = ends(intervals, expr, {N: n})
        assert least <= min(values) and max(values) <= most
        if "j" not in str(expr):
            assert (least, most) == (min(values), max(values))


@pytest.mark.parametrize(
    ("base", "stride", "lanes"), list(itertools.product((I, N, I * 4), (1, 3, -2), (2, 4)))
)
def test_lanes_are_between_the_first_and_the_last(base: Any, stride: int, lanes: int) -> None:
    intervals = Intervals()
    intervals.run(I, Range(0, 5))
    values = [
        evaluate(base, {I: i, N: 7}) + stride * lane for i in range(5) for lane in range(lanes)
    ]
    found = ends(intervals, Ramp(base, const(stride), lanes), {N: 7})
    assert found == (min(values), max(values))


def test_conditions_narrow_what_runs_while_they_hold() -> None:
    intervals = Intervals()
    intervals.run(I, Range(0, 10))
    for condition in (I < 4, I >= 3, I * 2 < 9, I % 2 == 1):
        values = [i for i in range(10) if evaluate(condition, {I: i})]
        with intervals.under(condition):
            if "%" not in str(condition):
                assert ends(intervals, I, {}) == (values[0], values[-1])
                assert ends(intervals, I * 3 + 1, {}) == (values[0] * 3 + 1, values[-1] * 3 + 1)
        assert ends(intervals, I, {}) == (0, 9)


def test_open_ends_are_narrowed_by_numbers_alone() -> None:
    """Of `i` below `n` a condition on numbers says where it begins, and not where it ends."""
    intervals = Intervals()
    intervals.run(I, Range(0, N))
    with intervals.under(I >= 2):
        assert str(intervals.of(I)) == "IntSet(min_value=2, max_value=n - 1)"
    with intervals.under(I < 5):
        assert str(intervals.of(I)) == "IntSet(min_value=0, max_value=n - 1)"
    assert str(intervals.of(I)) == "IntSet(min_value=0, max_value=n - 1)"
