"""The arena: what is alive together never overlaps, and little is wasted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.base.memory import ALIGNMENT, plan_arena

LIFE = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda t: (min(t), max(t)))
TENSORS = st.lists(st.tuples(st.integers(0, 3000), LIFE), max_size=30)


def planned(tensors: Any) -> tuple[dict[int, int], int]:
    sizes = {k: size for k, (size, _) in enumerate(tensors)}
    return plan_arena(sizes, {k: life for k, (_, life) in enumerate(tensors)})


@given(TENSORS)
def test_what_is_alive_together_does_not_overlap(
    tensors: list[tuple[int, tuple[int, ...]]],
) -> None:
    offsets, total = planned(tensors)
    assert offsets.keys() == set(range(len(tensors)))
    for k, (size, (first, last)) in enumerate(tensors):
        assert offsets[k] % ALIGNMENT == 0 and offsets[k] + size <= total
        for j, (other, (begin, end)) in enumerate(tensors[:k]):
            if first <= end and begin <= last:
                apart = offsets[k] + size <= offsets[j] or offsets[j] + other <= offsets[k]
                assert apart and offsets[k] != offsets[j]


def rounded(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


@given(TENSORS)
def test_the_arena_is_at_most_the_sum_and_at_least_the_peak(
    tensors: list[tuple[int, tuple[int, ...]]],
) -> None:
    _, total = planned(tensors)
    peak = max(
        (sum(rounded(s) for s, (a, b) in tensors if a <= step <= b) for step in range(13)),
        default=0,
    )
    assert peak <= total <= sum(rounded(size) for size, _ in tensors)


@given(TENSORS)
def test_plans_are_deterministic(tensors: Any) -> None:
    assert planned(tensors) == planned(list(tensors))


def test_a_chain_needs_two_places() -> None:
    tensors = [(1000, (k, k + 1)) for k in range(50)]
    assert planned(tensors)[1] == 2 * rounded(1000)


def test_a_small_one_fits_into_a_gap() -> None:
    offsets, total = planned([(640, (0, 9)), (320, (0, 3)), (64, (5, 9)), (320, (6, 9))])
    assert total == 640 + 320 + 64 and offsets[2] >= 640


def test_many_tensors_are_planned_quickly() -> None:
    """Thousands of short lives, as in a deep network."""
    offsets, total = planned([(64 * (1 + k % 7), (k, k + 2)) for k in range(3000)])
    assert len(offsets) == 3000 and total <= 64 * 7 * 4


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        ((0, 3), (1, 2), 128), ((1, 2), (0, 3), 128),  # one within the other
        ((0, 1), (1, 2), 128), ((1, 2), (0, 1), 128),  # the last step is shared
        ((0, 1), (2, 3), 64), ((2, 3), (0, 1), 64),
    ],
)  # fmt: skip
def test_lifetimes_that_meet(first: tuple[int, int], second: tuple[int, int], total: int) -> None:
    offsets, size = plan_arena({"a": 64, "b": 64}, {"a": first, "b": second})
    assert size == total and (offsets["a"] == offsets["b"]) == (total == 64)


def test_sizes_are_rounded_up_to_lines() -> None:
    alive = dict.fromkeys("abc", (0, 0))
    assert plan_arena({"a": 65, "b": 1, "c": 0}, alive) == ({"a": 0, "b": 128, "c": 192}, 256)
