"""AxisInfo on random programs: all that it says is true of every element."""

from __future__ import annotations

import pytest

from tile.axis_programs import Generator, false_claims


def refuted(seed: int) -> list[str]:
    """What AxisInfo says of a random program that is false."""
    program = Generator(seed)
    program.grow(10)
    return false_claims(program.function, program.execution)


@pytest.mark.parametrize(
    ("first", "count"), [(0, 250), pytest.param(1000, 100_000, marks=pytest.mark.slow)]
)
def test_all_claims_are_true(first: int, count: int) -> None:
    for seed in range(first, first + count):
        assert not (found := refuted(seed)), f"seed {seed}\n" + "\n".join(found)
