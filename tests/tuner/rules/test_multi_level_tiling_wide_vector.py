"""Multi-level tiling whose innermost tile is a wide vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tir import PrimFunc, run
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.multi_level_tiling_wide_vector import MultiLevelTilingWideVector
from tuner.tvm_spaces import digest

WIDE = MultiLevelTilingWideVector("SRSRS", vector_length_in_bits=1024)


def product(rows: int, columns: int, depth: int, transposed: bool = False) -> PrimFunc:
    a = te.placeholder((rows, depth), name="A")
    b = te.placeholder((depth, columns), name="B")
    k = te.reduce_axis((0, depth), "k")

    def element(i: Any, j: Any) -> Any:
        i, j = (j, i) if transposed else (i, j)
        return te.sum(a[i, k] * b[k, j], axis=k)

    shape = (columns, rows) if transposed else (rows, columns)
    return te.create_prim_func([a, b, te.compute(shape, element, name="C")])


def ways(func: PrimFunc, rule: MultiLevelTilingWideVector = WIDE) -> list[Schedule]:
    sch = Schedule(func, seed=2)
    return rule.apply(sch, sch.get_block("C"), TuneContext(sch.mod, target("cpu")))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (96, "2798e707073a5194 0d7891cee5efc1ee 985ccd451f4c8109"),
        (100, "2798e707073a5194 0d7891cee5efc1ee 985ccd451f4c8109"),
        (8, "9fe61622ac8fc057 636dd263445378b8 8ba1a21de162c834"),
    ],
)
def test_steps_are_those_of_tvm(columns: int, expected: str) -> None:
    """The digests are those of the steps that TVM 0.27 takes."""
    traces: list[Any] = [sch.trace for sch in ways(product(64, columns, 32))]
    found = [digest(trace.simplified(True).as_python()) for trace in traces]
    assert found == expected.split()


@pytest.mark.parametrize(
    ("shape", "transposed", "vector"),
    [
        ((4, 64, 6), False, 32),
        ((4, 40, 6), False, 32),  # the last vector is cut short
        ((4, 32, 6), False, 32),
        ((4, 8, 6), False, 8),
        ((8, 4, 6), True, 8),
    ],
)
def test_the_innermost_tile_is_a_vector(
    shape: tuple[int, int, int], transposed: bool, vector: int
) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    expected = (a @ b).T if transposed else a @ b
    for sch in ways(product(*shape, transposed)):
        innermost = sch.get(sch.get_loops(sch.get_block("C"))[-1])
        assert innermost.static_extent == vector
        out = np.zeros(expected.shape, "float32")
        run(sch.mod["main"], a.astype("float32"), b.astype("float32"), out)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
