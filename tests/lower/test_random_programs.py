"""Whatever a program is, lowering keeps its results."""

from __future__ import annotations

import pytest

from lower.programs import check
from lower.random_programs import loop_program, stencil_program


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_loops_to_flat_keeps_results(first) -> None:
    for seed in range(first, first + 20):
        check(loop_program(seed))


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_blocks_to_flat_keeps_results(first) -> None:
    for seed in range(first, first + 20):
        check(stencil_program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("program", [loop_program, stencil_program])
def test_many_programs(program) -> None:
    for seed in range(1000, 3000):
        check(program(seed))
