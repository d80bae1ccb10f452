"""Schedules as scripts for TVM write them."""

from __future__ import annotations

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import IRModule, te, tir
from tileloom.compat.tvm.script import ir as I
from tileloom.compat.tvm.script import tir as T
from tileloom.compat.tvm.tir.schedule.testing import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)
from tileloom.schedule import BlockRV, LoopRV, Schedule

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


def tile(sch: Schedule) -> tuple[BlockRV, tuple[LoopRV, ...]]:
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, factors=[None, 8])
    j_0, j_1 = sch.split(loop=j, factors=[5, 8])
    sch.reorder(i_0, j_0, k, i_1, j_1)
    sch.parallel(i_0)
    sch.vectorize(j_1)
    return block, (i_0, j_0, k, i_1, j_1)


def check(mod: IRModule) -> None:
    """The result of a scheduled matmul on the CPU."""
    lib = tvm.build(mod, target="llvm")
    a, b = RNG.random((32, 24)).astype("float32"), RNG.random((24, 40)).astype("float32")
    c = tvm.nd.empty((32, 40))
    lib["main"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)


def test_tiling_gives_tvms_program() -> None:
    sch = tir.Schedule(matmul, debug_mask="all")
    tile(sch)
    assert_structural_equal_ignore_global_symbol(sch.mod["main"], matmul_tiled)
    verify_trace_roundtrip(sch=sch, mod=matmul)
    verify_trace_roundtrip(sch, matmul, text_format="json", debug_mask="none")
    check(sch.mod)


def test_roundtrip_sees_a_difference() -> None:
    sch = tir.Schedule(matmul)
    tile(sch)
    with pytest.raises((ValueError, tvm.TVMError)):
        verify_trace_roundtrip(sch, matmul_tiled)


def test_handles() -> None:
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


def test_copies_go_their_own_way() -> None:
    sch = tir.Schedule(matmul)
    _, loops = tile(sch)
    other = sch.copy()
    other.unroll(loops[3])
    assert sch.get(loops[3]).kind == tir.ForKind.SERIAL
    assert other.get(loops[3]).kind == tir.ForKind.UNROLLED


def test_showing(capsys: pytest.CaptureFixture[str]) -> None:
    sch = tir.Schedule(matmul)
    tile(sch)
    sch.show(black_format=False)
    sch.mod.show(style="light")
    sch.trace.show()
    shown = capsys.readouterr().out
    assert shown.count("T.parallel(4)") == 2
    assert shown.count("sch.vectorize(") == 2


def test_untraced() -> None:
    sch = tir.Schedule._create_non_traced(matmul)
    tile(sch)
    assert sch.trace is None
    check(sch.mod)


def test_errors_are_schedule_errors() -> None:
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


def test_sampling_is_reproducible() -> None:
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


def test_schedule_of_tensor_expressions() -> None:
    a = te.placeholder((32, 24), name="A")
    b = te.placeholder((24, 40), name="B")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((32, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    sch = tvm.tir.Schedule(te.create_prim_func([a, b, c]))
    tile(sch)
    check(sch.mod)


def test_module_with_several_functions() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((8,), "float32")) -> None:
            for i in range(8):
                with T.block("A"):
                    vi = T.axis.spatial(8, i)
                    A[vi] = 1.0

        @T.prim_func
        def two(A: T.Buffer((8,), "float32")) -> None:
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


def test_annotations() -> None:
    sch = tir.Schedule(matmul)
    block = sch.get_block("matmul")
    sch.annotate(block, ann_key="pragma_key", ann_val="text")
    sch.annotate(sch.get_loops(block)[0], "count", 4)
    assert sch.get(block).annotations["pragma_key"] == "text"
    assert sch.get(sch.get_loops(block)[0]).annotations["count"] == 4
    verify_trace_roundtrip(sch, matmul)
    sch.unannotate(block, ann_key="pragma_key")
    assert "pragma_key" not in sch.get(block).annotations


def test_layout_with_axis_separators() -> None:
    sch = tir.Schedule(matmul, debug_mask="all")
    block = sch.get_block("matmul")
    sch.transform_layout(
        block, ("write", 0), lambda i, j: [i // 4, j, tir.IndexMap.AXIS_SEPARATOR, i % 4]
    )
    buffer = sch.get(block).writes[0].buffer
    assert [int(extent) for extent in buffer.shape] == [8, 40, 4]
    assert list(buffer.axis_separators) == [2]
    verify_trace_roundtrip(sch, matmul)
    other = sch.copy()
    other.transform_layout("matmul", "A", lambda i, k: [k, i])
    assert [int(extent) for extent in other.get(block).reads[0].buffer.shape] == [24, 32]
    assert len(sch.trace.insts) + 2 == len(other.trace.insts)


def test_traces_made_by_hand() -> None:
    kind = tir.schedule.InstructionKind.get
    instruction = tir.schedule.Instruction
    block, loops = tir.schedule.BlockRV(), [tir.schedule.LoopRV() for _ in range(5)]
    sizes = [tir.schedule.ExprRV("v", "int32") for _ in range(2)]
    trace = tir.schedule.Trace(
        insts=[
            instruction(kind("GetBlock"), [], ["matmul", "main"], [block]),
            instruction(kind("GetLoops"), [block], [], loops[:3]),
            instruction(kind("SamplePerfectTile"), [loops[0]], [2, 16], sizes),
            instruction(kind("Split"), [loops[0], *sizes], [True, False], loops[3:]),
            instruction(kind("EnterPostproc"), [], [], []),
            instruction(kind("Parallel"), [loops[3]], [], []),
        ],
        decisions={},
    )
    trace = trace.with_decision(trace.insts[2], [4, 8], remove_postproc=False)
    assert trace.insts[1].kind.is_pure
    assert not trace.insts[-1].kind.is_pure
    for remove, found in [(True, tir.ForKind.SERIAL), (False, tir.ForKind.PARALLEL)]:
        sch = tir.Schedule(matmul)
        trace.apply_to_schedule(sch, remove_postproc=remove)
        first = sch.get(sch.get_loops("matmul")[0])
        assert (int(first.extent), first.kind) == (4, found)
    assert len(trace.simplified(remove_postproc=True).insts) == 4
    with pytest.raises(tvm.TVMError):
        kind("NoSuchStep")


def test_states() -> None:
    state = tir.ScheduleState(matmul, debug_mask="all")
    root = state.mod["main"].body.block
    block = root.body.body.body.body.block
    flags = state._get_cached_flags(state.get_sref(block))
    assert flags == tir.schedule.state.CachedFlags(
        affine_binding=True, region_cover=True, stage_pipeline=True
    )
    assert state.get_sref(tir.Evaluate(0)) is None
    assert state.get_block_scope(state.get_sref(root)).get_deps_by_src(state.get_sref(block)) == []
    loop = root.body
    new = tir.For(loop.loop_var, 0, 32, tir.ForKind.UNROLLED, loop.body)
    state.replace(state.get_sref(loop), new)
    assert state.mod["main"].body.block.body.kind == tir.ForKind.UNROLLED


def test_matrix_product_with_relu_step_by_step() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def mm_relu(
            A: T.Buffer((16, 24), "float32"), B: T.Buffer((24, 32), "float32"),
            C: T.Buffer((16, 32), "float32"),
        ) -> None:  # fmt: skip
            T.func_attr({"tir.noalias": True})
            Y = T.alloc_buffer((16, 32), dtype="float32")
            for i, j, k in T.grid(16, 32, 24):
                with T.block("Y"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(32, j)
                    vk = T.axis.reduce(24, k)
                    with T.init():
                        Y[vi, vj] = T.float32(0)
                    Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
            for i, j in T.grid(16, 32):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    @T.prim_func
    def expected(
        A: T.Buffer((16, 24), "float32"), B: T.Buffer((24, 32), "float32"),
        C: T.Buffer((16, 32), "float32"),
    ) -> None:  # fmt: skip
        T.func_attr({"tir.noalias": True})
        Y = T.alloc_buffer((16, 32), dtype="float32")
        for i, j_0 in T.grid(16, 4):
            for j_1 in range(8):
                with T.block("Y_init"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(32, j_0 * 8 + j_1)
                    T.reads()
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = T.float32(0)
            for k, j_1 in T.grid(24, 8):
                with T.block("Y_update"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(32, j_1 + j_0 * 8)
                    vk = T.axis.reduce(24, k)
                    T.reads(Y[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(Y[vi, vj])
                    Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0 in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(16, i)
                    vj = T.axis.spatial(32, j_0 * 8 + ax0)
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    sch = tvm.tir.Schedule(Module, debug_mask="all")
    block = sch.get_block("Y", func_name="mm_relu")
    _, j, k = sch.get_loops(block)
    j_0, j_1 = sch.split(j, factors=[None, 8])
    sch.reorder(j_0, k, j_1)
    sch.reverse_compute_at(sch.get_block("C", "mm_relu"), j_0)
    sch.decompose_reduction(block, k)
    assert_structural_equal_ignore_global_symbol(sch.mod["mm_relu"], expected)
    verify_trace_roundtrip(sch, Module)  # type: ignore[arg-type]
    a, b = RNG.random((16, 24)).astype("float32"), RNG.random((24, 32)).astype("float32") - 0.5
    c = tvm.nd.empty((16, 32))
    tvm.build(sch.mod, target="llvm")["mm_relu"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)


def test_tensor_intrinsics() -> None:
    from tileloom.compat.tvm.tir.tensor_intrin import arm_cpu, cuda, dot_product_common, x86

    known = set(tir.TensorIntrin.names())
    for module in (x86, arm_cpu, dot_product_common):
        assert {v for k, v in vars(module).items() if k.endswith("_INTRIN")} <= known
    group = cuda.get_wmma_intrin_group("shared", "global", "int8", "int32", trans_b=False)
    assert set(group.values()) <= known
    assert cuda.WMMA_LOAD_16x16x16_F16_A_DYN_INTRIN in known
    assert cuda.WMMA_SYNC_16x16x16_f16f16f32_TRANS_INTRIN in known
    with pytest.raises(AttributeError):
        _ = cuda.WMMA_LOAD_8x8x8_INTRIN

    @T.prim_func
    def desc(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (8,), "float32", offset_factor=1)
        B = T.match_buffer(b, (8,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for i in range(8):
                with T.block(""):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi] * 2.0

    @T.prim_func
    def impl(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (8,), "float32", offset_factor=1)
        B = T.match_buffer(b, (8,), "float32", offset_factor=1)
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            for i in T.vectorized(8):
                B[i] = A[i] + A[i]

    tir.TensorIntrin.register("compat_twice_8", desc, impl, override=True)
    found = tir.function.TensorIntrin.get("compat_twice_8")
    tvm.ir.assert_structural_equal(found.desc, desc)
    assert tir.TensorIntrin.get("compat_no_such", allow_missing=True) is None
    with pytest.raises(tvm.TVMError):
        tir.TensorIntrin.get("compat_no_such")

    a = te.placeholder((4, 24), name="A")
    twice = te.compute((4, 24), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, twice])
    sch = tir.Schedule(func)
    _, j = sch.get_loops("B")
    _, inner = sch.split(j, [None, 8])
    sch.tensorize(inner, "compat_twice_8")
    verify_trace_roundtrip(sch, func)
    x, y = RNG.random((4, 24)).astype("float32"), tvm.nd.empty((4, 24))
    tvm.build(sch.mod, target="llvm")(tvm.nd.array(x), y)
    tvm.testing.assert_allclose(y.numpy(), x * 2)
