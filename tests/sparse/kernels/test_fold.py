"""Sums over the lanes of several vectors at once."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.driver import build
from tileloom.sparse.kernels.fold import sums_of_lanes
from tileloom.sparse.kernels.text import KernelText, ramp


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [("float32", 2), ("float32", 4), ("float32", 8), ("float32", 16), ("float64", 2),
     ("float64", 4), ("float64", 8), ("int64", 8), ("uint32", 16)],
)  # fmt: skip
def test_lane_k_is_the_sum_of_vector_k(dtype: str, lanes: int) -> None:
    t = KernelText()
    t("@T.prim_func")
    with t.inside("def fold(a: T.handle, b: T.handle):"):
        t(f"A = T.match_buffer(a, ({lanes}, {lanes}), '{dtype}')")
        t(f"B = T.match_buffer(b, ({lanes},), '{dtype}')")
        names = [f"r{k}" for k in range(lanes)]
        for k, name in enumerate(names):
            t(f"{name}: T.{dtype}x{lanes} = A[{k}, {ramp('0', 0, lanes)}]")
        sums = sums_of_lanes(t, names, dtype, np.dtype(dtype).itemsize)
        t(f"B[{ramp('0', 0, lanes)}] = {sums}")
    squares = np.arange(lanes * lanes).reshape(lanes, lanes).astype(dtype) ** 2
    found = np.zeros(lanes, dtype)
    build(t.parsed(), target="cpu")(squares, found)
    np.testing.assert_array_equal(found, squares.sum(axis=1))
