"""Schedules as scripts for TVM write them."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import te, tir
from tileloom.compat.tvm.script import ir as I
from tileloom.compat.tvm.script import tir as T
from tileloom.compat.tvm.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)

RNG = np.random.default_rng(11)


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [32, 24])
    B = T.match_buffer(b, [24, 40])
    C = T.match_buffer(c, [32, 40])
    for i, j, k in T.grid(32, 40, 24):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def matmul_tiled(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [32, 24])
    B = T.match_buffer(b, [24, 40])
    C = T.match_buffer(c, [32, 40])
    for i_0 in T.parallel(4):
        for j_0, k, i_1 in T.grid(5, 24, 8):
            for j_1 in T.vectorized(8):
                with T.block("matmul"):
                    vi = T.axis.S(32, i_1 + 8 * i_0)
                    vj = T.axis.S(40, j_0 * 8 + j_1)
                    vk = T.axis.R(24, k)
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = 0.0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def tile(sch):
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, factors=[None, 8])
    j_0, j_1 = sch.split(loop=j, factors=[5, 8])
    sch.reorder(i_0, j_0, k, i_1, j_1)
    sch.parallel(i_0)
    sch.vectorize(j_1)
    return block, (i_0, j_0, k, i_1, j_1)


def check(mod):
    """The result of a scheduled matmul on the CPU."""
    lib = tvm.build(mod, target="llvm")
    a, b = RNG.random((32, 24)).astype("float32"), RNG.random((24, 40)).astype("float32")
    c = tvm.nd.empty((32, 40))
    lib["main"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)


def test_tiling_gives_tvms_program():
    sch = tir.Schedule(matmul, debug_mask="all")
    tile(sch)
    assert_structural_equal_ignore_global_symbol(sch.mod["main"], matmul_tiled)
    verify_trace_roundtrip(sch=sch, mod=matmul)
    verify_trace_roundtrip(sch, matmul, text_format="json", debug_mask="none")
    check(sch.mod)


def test_roundtrip_sees_a_difference():
    sch = tir.Schedule(matmul)
    tile(sch)
    with pytest.raises((ValueError, tvm.TVMError)):
        verify_trace_roundtrip(sch, matmul_tiled)


def test_handles():
    sch = tir.Schedule(matmul, seed=42)
    block, loops = tile(sch)
    assert isinstance(sch, tir.Schedule)
    assert isinstance(block, tir.schedule.BlockRV)
    assert all(isinstance(loop, tir.schedule.LoopRV) for loop in loops)
    assert isinstance(sch.get(block), tir.Block)
    assert isinstance(sch.get(loops[0]), tir.For)
    assert sch.get(loops[0]).kind == tir.ForKind.PARALLEL
    sref = sch.get_sref(block)
    assert isinstance(sref, tir.StmtSRef)
    assert sref.stmt is sch.get(block)
    assert isinstance(sch.trace, tir.Trace)
    assert isinstance(sch.mod, tvm.IRModule)
    assert "main" in [gv.name_hint for gv in sch.mod.get_global_vars()]


def test_copies_go_their_own_way():
    sch = tir.Schedule(matmul)
    _, loops = tile(sch)
    other = sch.copy()
    other.unroll(loops[3])
    assert sch.get(loops[3]).kind == tir.ForKind.SERIAL
    assert other.get(loops[3]).kind == tir.ForKind.UNROLLED


def test_untraced():
    sch = tir.Schedule._create_non_traced(matmul)
    tile(sch)
    assert sch.trace is None
    check(sch.mod)


def test_errors_are_schedule_errors():
    sch = tir.Schedule(matmul)
    block = sch.get_block("matmul")
    with pytest.raises(tir.schedule.ScheduleError):
        sch.get_block("no_such_block")
    with pytest.raises(tvm.tir.ScheduleError):
        sch.parallel(sch.get_loops(block)[2])
    with pytest.raises(tvm.TVMError):
        sch.reorder(*(sch.get_loops(block)[:1] * 2))
    quiet = tir.Schedule(matmul, error_render_level="none")
    with pytest.raises(tir.ScheduleError, match="not rendered"):
        quiet.get_block("no_such_block")


def test_sampling_is_reproducible():
    decisions = []
    for _ in range(2):
        sch = tir.Schedule(matmul, seed=7)
        i, _, k = sch.get_loops("matmul")
        tiles = sch.sample_perfect_tile(i, n=3, max_innermost_factor=16)
        sch.split(i, factors=tiles)
        order = sch.sample_categorical([1, 2, 4], [0.25, 0.5, 0.25])
        sch.split(k, factors=[None, order])
        decisions.append(([sch.get(t) for t in tiles], sch.get(order)))
        verify_trace_roundtrip(sch, matmul)
    assert decisions[0] == decisions[1]
    assert np.prod(decisions[0][0]) == 32


def test_schedule_of_tensor_expressions():
    a = te.placeholder((32, 24), name="A")
    b = te.placeholder((24, 40), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((32, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    sch = tvm.tir.Schedule(te.create_prim_func([a, b, c]))
    tile(sch)
    check(sch.mod)


def test_module_with_several_functions():
    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("A"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = 1.0

        @T.prim_func
        def two(A: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("A"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = 2.0

    sch = tir.Schedule(Module)
    sch.work_on("two")
    (i,) = sch.get_loops(sch.get_block("A"))
    sch.parallel(i)
    assert "T.parallel" not in sch.mod["one"].script()
    assert "T.parallel" in sch.mod["two"].script()
    block = sch.get_block("A", func_name="one")
    assert sch.get(block).name_hint == "A"


def test_annotations():
    sch = tir.Schedule(matmul)
    block = sch.get_block("matmul")
    sch.annotate(block, ann_key="pragma_key", ann_val="text")
    sch.annotate(sch.get_loops(block)[0], "count", 4)
    assert sch.get(block).annotations["pragma_key"] == "text"
    assert sch.get(sch.get_loops(block)[0]).annotations["count"] == 4
    verify_trace_roundtrip(sch, matmul)
    sch.unannotate(block, ann_key="pragma_key")
    assert "pragma_key" not in sch.get(block).annotations
