"""How elements of matrices lie in memory, against all of their addresses."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from plan.test_contraction import convolution
from tileloom.schedule import Schedule
from tileloom.schedule.library import as_matrices
from tileloom.schedule.library.product import _Access


def widest(access: _Access, group: tuple[int, ...]) -> int:
    """The most neighbours along a group that always lie side by side, on a boundary of so many."""
    steps = {p: step for p, step in access.steps.items() if step is not None}
    rest = [p for p in access.sizes if p not in group]

    def rows(variables: list[int]) -> list[int]:
        values = itertools.product(*(range(access.sizes[p]) for p in variables))
        return [sum(steps[p] * v for p, v in zip(variables, at, strict=True)) for at in values]

    lines = [[access.offset + a + b for b in rows(list(group))] for a in rows(rest)]

    def fits(lanes: int) -> bool:
        return lanes * access.bits <= 128 and all(
            len(line) % lanes == 0 and line[k] % lanes == 0
            and line[k : k + lanes] == list(range(line[k], line[k] + lanes))
            for line in lines for k in range(0, len(line), lanes)
        )  # fmt: skip

    return max(lanes for lanes in (1, 2, 4, 8, 16) if lanes == 1 or fits(lanes))


@pytest.mark.parametrize("seed", range(8))
def test_neighbours_that_are_moved_at_once(seed: int) -> None:
    """Layouts of up to four variables in any order, with gaps, and with variables of one value."""
    chance = random.Random(seed)
    for _ in range(60):
        rank = chance.randint(1, 4)
        sizes = {p: chance.choice([1, 1, 2, 3, 4, 8]) for p in range(rank)}
        steps: dict[int, int | None] = {}
        step = 1
        for p in chance.sample(range(rank), rank):
            steps[p] = step
            step *= sizes[p] * chance.choice([1, 1, 1, 2, 3])
        group = tuple(sorted(chance.sample(range(rank), chance.randint(1, rank))))
        offset, bits = chance.choice([0, 0, 1, 2, 4, 8]), chance.choice([8, 16, 32, 64])
        access = _Access(0, tuple(range(rank)), steps, sizes, frozenset(), offset, bits, True)
        assert access.lanes(group) == widest(access, group), access


def test_what_is_not_regular_is_moved_alone() -> None:
    access = _Access(0, (0, 1), {0: 8, 1: 1}, {0: 4, 1: 8}, frozenset(), 0, 32, True)
    assert [access.lanes(group) for group in ((1,), (0, 1), (0,))] == [4, 4, 1]
    assert access.runs_along((1,)) and not access.runs_along((0,))
    assert replace(access, steps={0: None, 1: 1}).lanes((1,)) == 1, "rows begin anywhere"
    assert replace(access, steps={0: 8, 1: None}).lanes((1,)) == 1
    condition = replace(access, loose=frozenset({1}))
    assert condition.lanes((1,)) == 1 and not condition.runs_along((1,))
    assert replace(access, loose=frozenset({0})).lanes((1,)) == 4
    assert replace(access, steps={0: None, 1: 1}, sizes={0: 1, 1: 8}).lanes((1,)) == 4


@pytest.mark.parametrize("kernel", [1, 3])
def test_weights_of_convolutions_are_moved_by_vectors(kernel: int) -> None:
    """Also those of kernels of one element, whose two axes have a step of one as well."""
    left = as_matrices(Schedule(convolution(2, 64, (8, 8), 16, kernel, 1, 1)), "C").left
    assert (left.lanes, left.deep) == (4, True)
