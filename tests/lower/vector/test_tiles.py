"""Tiles that are transposed in registers: what they compute."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom import build
from tileloom.script import parse
from tileloom.tir import PrimFunc

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((70, 33), "int8"), B: T.Buffer((33, 70), "int8"),
         C: T.Buffer((33, 70), "int8")):
    for i in T.serial(70, annotations={"vector_tile": 16}):
        for j in T.serial(33, annotations={"vector_lanes": 64}):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] + T.int8(1)
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = VALUE
"""


@pytest.mark.parametrize(
    ("value", "plus"), [("B[vj, vi] * T.int8(3)", 0), ("B[vj, vi] * T.int8(3) + C[vj, vi]", 1)]
)
def test_what_a_tile_has_just_stored_is_read_after_that(value: str, plus: int) -> None:
    """Whole tiles are loaded before any of them is stored: not those that it makes itself."""
    func = parse(PROGRAM.replace("VALUE", value))
    assert isinstance(func, PrimFunc)
    rng = np.random.default_rng(1)
    a = rng.integers(-20, 20, (70, 33), "int8")
    b, c = (rng.integers(-20, 20, (33, 70), "int8") for _ in range(2))
    wanted = (a.T + 1) * 3 + plus * c
    build(func)(a, b, c)
    np.testing.assert_array_equal(b, a.T + 1)
    np.testing.assert_array_equal(c, wanted.astype("int8"))
