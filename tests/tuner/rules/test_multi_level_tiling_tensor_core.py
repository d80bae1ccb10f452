"""Multi-level tiling for matrix units: which blocks, what becomes of them, and their results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.schedule import Schedule, Trace
from tileloom.target import target
from tileloom.tir import PrimFunc, run
from tileloom.tuner.annotations import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT, TILING_STRUCTURE
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.multi_level_tiling import ReuseType
from tileloom.tuner.rules.multi_level_tiling_tensor_core import (
    MultiLevelTilingTensorCore,
    wmma_group,
)
from tuner.tvm_spaces import digest

WMMA = MultiLevelTilingTensorCore(
    "SSSRRSRS",
    ("blockIdx.y", "blockIdx.x", "threadIdx.y"),
    4,
    (1, 2, 3, 4, 8, 16),
    ReuseType("must", (4,), "shared.dyn"),
    ReuseType("must", (2,), "shared.dyn"),
    intrin_groups=(wmma_group("f16", "f32"), wmma_group("s8", "s32")),
)


def product(
    rows: int,
    columns: int,
    depth: int,
    batch: int = 0,
    dtype: str = "float16",
    doubled: bool = False,
) -> PrimFunc:
    total = "float32" if dtype == "float16" else "int32"
    outer = (batch,) if batch else ()
    a = te.placeholder((*outer, rows, depth), dtype, name="A")
    b = te.placeholder((*outer, depth, columns), dtype, name="B")
    k = te.reduce_axis((0, depth), "k")

    def element(*i: Any) -> Any:
        left, right = a[(*i[:-2], i[-2], k)], b[(*i[:-2], k, i[-1])]
        return te.sum(left.astype(total) * right.astype(total), axis=k)

    c = te.compute((*outer, rows, columns), element, name="C")
    out = te.compute(c.shape, lambda *i: c[i] * 2.0, name="D") if doubled else c
    return te.create_prim_func([a, b, out])


def convolution(size: int = 6, kernel: int = 3) -> PrimFunc:
    x = te.placeholder((1, size, size, 16), "float16", name="X")
    w = te.placeholder((kernel, kernel, 16, 16), "float16", name="W")
    r, s = te.reduce_axis((0, kernel), "r"), te.reduce_axis((0, kernel), "s")
    c = te.reduce_axis((0, 16), "c")

    def element(n: Any, i: Any, j: Any, f: Any) -> Any:
        left, right = x[n, i + r, j + s, c], w[r, s, c, f]
        return te.sum(left.astype("float32") * right.astype("float32"), axis=[r, s, c])

    side = size - kernel + 1
    return te.create_prim_func([x, w, te.compute((1, side, side, 16), element, name="C")])


def ways(func: PrimFunc, rule: MultiLevelTilingTensorCore = WMMA) -> list[Schedule]:
    sch = Schedule(func, seed=5)
    context = TuneContext(sch.mod, target("cuda -arch=sm_80"))
    return rule.apply(sch, sch.get_block("C"), context)


def results(program: Any, seed: int = 0) -> tuple[np.ndarray[Any, Any], ...]:
    """What a program makes of random inputs, and the inputs."""
    func = program.mod["main"] if isinstance(program, Schedule) else program
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for buffer in func.buffers[:-1]:
        whole = rng.integers(-4, 5, buffer.static_shape)
        arrays.append(whole.astype(str(buffer.dtype)))
    out: Any = np.zeros(func.buffers[-1].static_shape or (), str(func.buffers[-1].dtype))
    run(func, *arrays, out)
    return (out, *arrays)


def texts(sch: Schedule) -> str:
    return str(sch.trace)


@pytest.mark.parametrize(
    "func",
    [
        product(32, 32, 32),
        product(17, 20, 18),  # padded
        pytest.param(product(16, 16, 16, batch=3), marks=pytest.mark.slow),
        pytest.param(product(32, 16, 16, dtype="int8"), marks=pytest.mark.slow),
        product(20, 16, 16, doubled=True),
        pytest.param(convolution(), marks=pytest.mark.slow),
        convolution(4, 1),
    ],
)
def test_results_stay_the_same(func: PrimFunc) -> None:
    (sch,) = ways(func)
    # The inputs are small whole numbers: sums are exact in any order.
    np.testing.assert_array_equal(results(sch)[0], results(func)[0])
    trace: Any = sch.trace
    assert len(trace.insts) > 80


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (product(128, 128, 128), "899e82fa2612cc33"),
        (product(127, 100, 33), "6f7c3a43cfd3d9a7"),
        pytest.param(product(128, 128, 128, 4), "b41c1ea30c3c21bc", marks=pytest.mark.slow),
        pytest.param(
            product(128, 128, 128, dtype="int8"), "2b513424e8ee6ff7", marks=pytest.mark.slow
        ),
    ],
)
def test_steps_are_those_of_tvm(func: PrimFunc, expected: str) -> None:
    """The digests are those of the steps that TVM 0.27 takes."""
    (sch,) = ways(func)
    assert sch.trace is not None
    assert digest(sch.trace.simplified(True).as_python()) == expected


def test_the_reference_is_a_product() -> None:
    out, a, b = results(product(8, 4, 6))
    np.testing.assert_array_equal(out, a.astype("float32") @ b.astype("float32"))


def test_tiles_are_for_the_intrinsics_of_the_group() -> None:
    (sch,) = ways(product(32, 32, 32))
    group = WMMA.intrin_groups[0]
    block = sch.get(sch.get_block("C_o"))
    assert block.annotations[AUTO_TENSORIZE] == group.compute
    assert block.annotations[AUTO_TENSORIZE_INIT] == group.init
    assert sch.get(sch.get_block("C")).annotations[TILING_STRUCTURE] == "SSSRRSRS"
    named = [group.compute, group.load_a, group.load_b, group.store]
    assert all(f'ann_key="{AUTO_TENSORIZE}", ann_val="{name}"' in texts(sch) for name in named)
    for name in ("A_reindex_shared.dyn_wmma.matrix_a_o", "B_reindex_shared.dyn_wmma.matrix_b_o"):
        tile = sch.get(sch.get_block(name))
        assert tile.annotations[AUTO_TENSORIZE] in (group.load_a, group.load_b)


def test_rows_in_shared_memory_start_in_other_banks() -> None:
    for dtype, offset in (("float16", 8), ("int8", 16)):
        (sch,) = ways(product(16, 16, 16, dtype=dtype))
        assert texts(sch).count(f"axis=-2, factor=32, offset={offset})") == 2


def test_a_way_for_each_group() -> None:
    both = replace(WMMA, intrin_groups=(wmma_group("f16", "f32"), wmma_group("f16", "f32", True)))
    found = [sch.get(sch.get_block("C_o")) for sch in ways(product(16, 16, 16), both)]
    names = [block.annotations[AUTO_TENSORIZE] for block in found]
    assert names == [group.compute for group in reversed(both.intrin_groups)]


@pytest.mark.parametrize("func", [product(16, 16, 16, dtype="float32"), product(16, 16, 16)])
def test_what_no_group_computes_is_left_alone(func: PrimFunc) -> None:
    (sch,) = ways(func, replace(WMMA, intrin_groups=(wmma_group("s8", "s32"),)))
    trace: Any = sch.trace
    assert [step.kind.method for step in trace.insts] == ["get_block"]


def test_pipelines_where_there_is_a_reduction_to_overlap() -> None:
    pipelined = replace(WMMA, use_software_pipeline=True)
    for depth, count in ((16, 0), (64, 2)):
        (sch,) = ways(product(16, 16, depth), pipelined)
        assert texts(sch).count("software_pipeline_order") == count
        assert texts(sch).count("double_buffer_scope") == count
    assert "software_pipeline" not in texts(ways(product(16, 16, 64))[0])


@pytest.mark.slow
def test_other_decisions_fit_the_same_steps() -> None:
    func = product(64, 64, 16)
    (sch,) = ways(func)
    trace: Any = sch.trace
    steps = trace.simplified(True).insts
    layouts = set()
    for seed in range(3):
        again = Schedule(func, seed=seed + 1)
        Trace(steps).apply_to_schedule(again, remove_postproc=True)
        block = again.get(again.get_block("C_reindex_shared.dyn"))
        layouts.add(block.reads[0].buffer.static_shape)
    assert len(layouts) > 1  # fragments of warps, as many as were drawn
