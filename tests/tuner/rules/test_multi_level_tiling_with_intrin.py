"""Multi-level tiling around a tensor intrinsic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tir import run
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.multi_level_tiling import ReuseType
from tileloom.tuner.rules.multi_level_tiling_with_intrin import MultiLevelTilingWithIntrin
from tuner.tvm_spaces import digest

VNNI = MultiLevelTilingWithIntrin(intrin_name="dot_16x4_vnni")
DP4A = MultiLevelTilingWithIntrin(
    "SSSRRSRS",
    ("blockIdx.x", "vthread.x", "threadIdx.x"),
    vector_load_lens=(1, 2, 3, 4, 8, 16),
    reuse_read=ReuseType("must", (4,), "shared"),
    reuse_write=ReuseType("must", (3,), "local"),
    intrin_name="dp4a_s8s8s32",
)


def dots(m: int, n: int, k: int, left: str = "uint8", right: str = "int8") -> Any:
    a, b = te.placeholder((m, k), left, name="A"), te.placeholder((n, k), right, name="B")
    z = te.reduce_axis((0, k), "k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(a[i, z].astype("int32") * b[j, z].astype("int32"), axis=z)

    return te.create_prim_func([a, b, te.compute((m, n), element, name="C")])


def ways(func: Any, rule: MultiLevelTilingWithIntrin, machine: str = "cpu") -> list[Schedule]:
    sch = Schedule(func, seed=3)
    return rule.apply(sch, sch.get_block("C"), TuneContext(sch.mod, target(machine)))


def methods(sch: Schedule) -> list[str]:
    trace: Any = sch.trace
    return [step.kind.method for step in trace.insts]


@pytest.mark.parametrize(
    ("rule", "machine", "count", "inner", "left"),
    [(VNNI, "cpu", 3, [16, 4], "uint8"), (DP4A, "cuda -arch=sm_70", 1, [4], "int8")],
)
def test_the_innermost_tile_is_the_intrinsic(
    rule: MultiLevelTilingWithIntrin, machine: str, count: int, inner: list[int], left: str
) -> None:
    func = dots(8, 32, 16, left)
    found = ways(func, rule, machine)
    assert len(found) == count
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 100, shape, dtype)
              for shape, dtype in (((8, 16), left), ((32, 16), "int8"))]  # fmt: skip
    expected = inputs[0].astype("int32") @ inputs[1].astype("int32").T
    for sch in found:
        outer, block = sch.get_block("C_o"), sch.get_block("C")
        notes = sch.get(outer).annotations
        assert notes["meta_schedule.auto_tensorize"] == rule.intrin_name
        assert sch.get(block).annotations["meta_schedule.tiling_structure"] == rule.structure
        assert [sch.get(loop).static_extent for loop in sch.get_loops(block)] == inner
        assert len(sch.get_loops(outer)) > 2 * len(inner)
        out = np.zeros((8, 32), "int32")
        run(sch.mod["main"], *inputs, out)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("rule", "machine", "left", "expected"),
    [
        (VNNI, "cpu", "uint8", "c933e35cb83a094b 0630e6910b23a232 799b31a00230a1b4"),
        (DP4A, "cuda -arch=sm_70", "int8", "ab7c12c65ae82479"),
    ],
)
def test_steps_are_those_of_tvm(
    rule: MultiLevelTilingWithIntrin, machine: str, left: str, expected: str
) -> None:
    """The digests are those of the steps that TVM 0.27 takes."""
    traces: list[Any] = [sch.trace for sch in ways(dots(64, 48, 32, left), rule, machine)]
    found = [digest(trace.simplified(True).as_python()) for trace in traces]
    assert found == expected.split()


@pytest.mark.parametrize(
    "func",
    [
        dots(8, 24, 16),  # 16 columns do not divide 24
        dots(8, 32, 18),
        dots(8, 32, 16, "int8"),  # other types
        dots(8, 32, 16, "uint8", "uint8"),
    ],
)
def test_what_an_intrinsic_does_not_do_is_left_alone(func: Any) -> None:
    (sch,) = ways(func, VNNI)
    assert methods(sch) == ["get_block"]
