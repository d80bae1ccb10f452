"""Elementwise blocks with operands that are constant along the innermost axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plan import test_gpu as groups
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor
from tileloom.plan.cuda import broadcast


def of_channels(x: Tensor) -> list[Tensor]:
    """A scale and a shift for each channel, one of them costly."""
    rng = np.random.default_rng(0)
    shape = (1, x.shape[1], *(1 for _ in x.shape[2:]))
    scale, shift = (ops.constant(rng.random(shape).astype("float32") + 1) for _ in range(2))
    return [ops.relu(ops.add(ops.mul(x, scale), shift))]


def of_rows(x: Tensor) -> list[Tensor]:
    mean = ops.constant(np.arange(x.shape[0], dtype="float32").reshape(-1, 1))
    return [ops.sub(x, mean), ops.exp(ops.neg(ops.abs(ops.sub(x, mean))))]


@pytest.mark.parametrize(
    ("shape", "build"),
    [
        ((2, 3, 8, 16), of_channels), ((2, 5, 4, 8), of_channels), ((1, 7, 1, 32), of_channels),
        ((3, 2, 33, 32), of_channels), ((5, 1031), of_rows), ((3, 4096), of_rows),
        ((2, 9000), of_rows), ((37, 64), of_rows), ((2, 33, 7, 160), of_channels),
    ],
)  # fmt: skip
def test_rows_along_which_operands_are_constant(
    shape: tuple[int, ...], build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "LEAST", 1)
    sch, _, _ = groups.scheduled(shape, build)
    assert "reduce_online" not in str(sch.trace)
    groups.test_groups_compute_what_they_should(shape, build)


def test_channels_are_read_once_for_many_elements() -> None:
    found = groups.cost((16, 64, 56, 56), of_channels)
    size = 16 * 64 * 56 * 56
    assert found.stores["global"].elements == size
    assert found.stores["global"].requests <= 1.05 * size / (32 * 4)
    assert found.loads["global"].elements <= 1.5 * size
    assert found.loads["global"].efficiency > 0.99


def test_transposes_still_go_through_tiles() -> None:
    def build(x: Tensor) -> list[Tensor]:
        return of_channels(ops.transpose(x, (0, 3, 1, 2)))

    found = groups.cost((8, 32, 64, 32), build)
    assert found.loads["global"].efficiency > 0.99
    assert found.syncs == 1


def test_rows_that_are_too_short_stay_flat() -> None:
    size = 64 * 64 * 7 * 7
    found = groups.cost((64, 64, 7, 7), of_channels)
    assert (found.blocks, found.threads) == (-(-size // (256 * 4)), 256)
