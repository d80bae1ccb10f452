"""AxisInfo on random programs: all that it says is true of every element."""

from __future__ import annotations

import pytest

from tile.axis_loops import LoopGenerator
from tile.axis_programs import Execution, Generator, UndefinedError, false_claims


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


def refuted_of_loops(seed: int) -> list[str]:
    """What AxisInfo says of a random program with loops that is false."""
    program = LoopGenerator(seed)
    program.grow_with_loop(5)
    execution = Execution(2000)
    arguments = program.function.body.arguments
    execution.give(arguments, [program.execution.seen[a][0] for a in arguments])
    try:
        execution.run(program.function.body)
    except UndefinedError:
        return []
    return false_claims(program.function, execution)


@pytest.mark.parametrize(
    ("first", "count"), [(0, 100), pytest.param(1000, 10_000, marks=pytest.mark.slow)]
)
def test_claims_hold_in_loops(first: int, count: int) -> None:
    for seed in range(first, first + count):
        assert not (found := refuted_of_loops(seed)), f"seed {seed}\n" + "\n".join(found)
