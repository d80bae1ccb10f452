"""Counts of small integers, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from graph.ops.checks import values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("length", [1, 2, 7, 300])
@pytest.mark.parametrize("size", [0, 1, 50])
def test_counts(kind: str, length: int, size: int, rng: np.random.Generator) -> None:
    low = 0 if kind == "uint8" else -3
    x = rng.integers(low, 10, size).astype(kind)
    found = values(lambda t: ops.bincount(t, length), x)
    assert found.dtype == np.int32
    assert found.tolist() == [int((x == k).sum()) for k in range(length)]


def test_mistakes_are_told() -> None:
    for length in (0, -1):
        with pytest.raises(ShapeError, match=f"counts into {length} bins"):
            values(lambda t, n=length: ops.bincount(t, n), np.zeros(3, "int32"))
    with pytest.raises(ShapeError, match="elements of a vector"):
        values(lambda t: ops.bincount(t, 2), np.zeros((3, 1), "int32"))
    with pytest.raises(DTypeError):
        values(lambda t: ops.bincount(t, 2), np.zeros(3, "float32"))
