"""Whatever a program is, lowering keeps its results."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lower.programs import check
from lower.random_programs import loop_program, stencil_program

RANDOMS = st.randoms(use_true_random=False)
# Shrinking runs hundreds of programs through every pass; the seed of a failure is enough here.
FEW = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)


@settings(FEW, max_examples=60)
@given(RANDOMS)
def test_loops_to_flat_keeps_results(random: Random) -> None:
    check(loop_program(random))


@settings(FEW, max_examples=40)
@given(RANDOMS)
def test_blocks_to_flat_keeps_results(random: Random) -> None:
    check(stencil_program(random))


@pytest.mark.slow
@settings(FEW, max_examples=2000)
@given(RANDOMS, st.booleans())
def test_many_programs(random: Random, blocks: bool) -> None:
    check((stencil_program if blocks else loop_program)(random))
