"""Random graphs compiled for GPUs, on the emulator, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from graph.random_graphs import random_arrays, random_graph
from tileloom.driver import compile_graph
from tileloom.graph.run import run
from tileloom.target import target

GPU = target("cuda -arch=sm_80")


def check(seed: int, steps: int, kind: str = "float32") -> None:
    graph = random_graph(seed, steps, kind)
    arrays = random_arrays(graph, seed)
    found = compile_graph(graph, GPU, device="emulator")(*arrays)
    for array, wanted in zip(found, run(graph, arrays), strict=True):
        assert array.shape == wanted.shape and array.dtype == wanted.dtype
        np.testing.assert_allclose(
            array.astype("float64"), wanted.astype("float64"), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("seed", [*range(40), 1013])
def test_floats(seed: int) -> None:
    check(seed, 8)


@pytest.mark.parametrize("seed", range(100, 110))
def test_integers(seed: int) -> None:
    check(seed, 6, "int32")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many(seed: int) -> None:
    check(seed, 12)
