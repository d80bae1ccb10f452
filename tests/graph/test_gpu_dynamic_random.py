"""Random programs for many sizes on a GPU: one compilation, for each size what NumPy says."""

from __future__ import annotations

import pytest

from graph.test_dynamic_random import check
from sampling import sampled

GPU = {"target": "cuda -arch=sm_80", "device": "emulator"}


@pytest.mark.parametrize("seed", sampled(range(12), 3))
def test_random_programs(seed: int) -> None:
    check(seed, 2 + seed % 5, 6, **GPU)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_random_programs(seed: int) -> None:
    check(seed, 2 + seed % 8, 6, **GPU)
