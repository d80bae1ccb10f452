"""Names and forms that scripts for TVM use: constructors, casts, intrinsics, devices, options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import te, tir
from tileloom.compat.tvm.script import tir as T
from tileloom.compat.tvm.tir.tensor_intrin import arm_cpu, hexagon, rocm
from tileloom.compute import Tensor
from tileloom.expr import Expr, Var
from tileloom.schedule import ScheduleError
from tileloom.tir import PrimFunc


def test_integers_are_cast_into_buffers_of_floats() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
        for i in range(8):
            A[i] = i
            B[i] = 3

    assert 'A[i] = T.Cast("float32", i)' in str(func)
    assert "B[i] = T.float32(3.0)" in str(func)
    a, b = tvm.nd.empty((8,)), tvm.nd.empty((8,))
    tvm.build(func)(a, b)
    np.testing.assert_array_equal(a.numpy(), np.arange(8))
    np.testing.assert_array_equal(b.numpy(), np.full(8, 3))


def test_arguments_by_keyword() -> None:
    assert tir.IntImm(dtype="int32", value=3) is tir.IntImm("int32", 3)
    assert tir.FloatImm(dtype="float32", value=1.5) is tir.FloatImm("float32", 1.5, span=None)

    @T.prim_func
    def func(A: T.Buffer((8,), "float32")) -> None:
        A[0] = T.round(A[1], dtype="float32")
        A[1] = T.exp(A[1], dtype="float32")
        kind = T.meta_var(T.type_annotation(dtype="float32"))
        T.evaluate(T.tvm_access_ptr(kind, A.data, 0, 8, 1, dtype="handle"))

    assert "A[0] = T.round(A[1])" in str(func)
    assert 'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 8, 1)' in str(func)
    with pytest.raises(tvm.TVMError, match="the result is float32, not int32"):

        @T.prim_func
        def wrong(A: T.Buffer((8,), "float32")) -> None:
            A[0] = T.round(A[1], dtype="int32")


def test_statements_in_a_row() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32")) -> None:
        A[0] = T.float32(0)
        A[1] = T.float32(1)

    body: Any = func.body
    assert len(body) == 2 and body[1].same_as(body.seq[1]) and not body[0].same_as(body[1])
    assert body[-1] is body[1] and [stmt.indices[0].value for stmt in body] == [0, 1]
    assert bool(body)


def test_a_buffer_may_say_that_it_starts_at_its_pointer() -> None:
    bare = tir.decl_buffer((8,), "float32", "A")
    for zero in (0, tir.IntImm("int64", 0)):
        other = tir.decl_buffer((8,), "float32", "A", elem_offset=zero)
        assert tvm.ir.structural_equal(bare, other, map_free_vars=True)
        same = tvm.ir.structural_hash(bare, True) == tvm.ir.structural_hash(other, True)
        assert same
    other = tir.decl_buffer((8,), "float32", "A", elem_offset=1)
    assert not tvm.ir.structural_equal(bare, other, map_free_vars=True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (arm_cpu.DP4A_S8S8S32_INTRIN, ("int8", "int8", "int32", 1, 4)),
        (rocm.AMDGPU_SDOT4_INTRIN, ("int8", "int8", "int32", 1, 4)),
        (hexagon.VRMPY_u8u8i32_INTRIN, ("uint8", "uint8", "int32", 32, 4)),
        (hexagon.VRMPY_u8i8i32_INTRIN, ("uint8", "int8", "int32", 32, 4)),
        (hexagon.VDMPY_i16i16i32_INTRIN, ("int16", "int16", "int32", 32, 2)),
    ],
)
def test_intrinsics_of_other_machines(name: str, arguments: tuple[Any, ...]) -> None:
    left, right, total, rows, depth = arguments
    desc = tir.TensorIntrin.get(name).desc
    assert [str(buffer.dtype) for buffer in desc.buffers] == [left, right, total]
    if rows == 1:
        return
    a = te.placeholder((8, depth), left, name="A")
    b = te.placeholder((rows, depth), right, name="B")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute(
        (8, rows),
        lambda i, j: te.sum(a[i, k].astype(total) * b[j, k].astype(total), axis=k),
        name="C",
    )
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    _, j, _ = sch.get_loops("C")
    sch.decompose_reduction("C", j)
    sch.tensorize(sch.get_loops("C_update")[1], name)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 99, (8, depth)).astype(left)
    y = rng.integers(0, 99, (rows, depth)).astype(right)
    out = tvm.nd.empty((8, rows), total)
    tvm.build(sch.mod)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x.astype(total) @ y.astype(total).T)


def test_intrinsics_that_only_their_hardware_has() -> None:
    """They are taken unchecked: nothing here can run them."""
    lanes, local = 64, 4

    def place(i: Var, j: Var) -> tuple[Expr, ...]:
        return i + j // 4 * 16, j % 4

    def back(thread: Var, k: Any) -> tuple[Expr, ...]:
        return thread % 16, thread // 16 * 4 + k

    @T.prim_func
    def load(r: T.handle, m: T.handle) -> None:
        M = T.match_buffer(m, (16, 16), "float16", offset_factor=16, scope="shared")
        R = T.match_buffer(r, (lanes, local), "float16", offset_factor=1, scope="warp")
        with T.block("root"):
            T.reads(M[0:16, 0:16])
            T.writes(R[0:lanes, 0:local])
            for i, j in T.grid(16, 16):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    thread, k = T.meta_var(place(vi, vj))
                    R[thread, k] = M[vi, vj]

    @T.prim_func
    def load_by_threads(r: T.handle, m: T.handle) -> None:
        s = T.int32()
        M = T.match_buffer(m, (16, 16), "float16", offset_factor=16, scope="shared", strides=[s, 1])
        R = T.match_buffer(r, (lanes, local), "float16", offset_factor=1, scope="warp")
        with T.block("root"):
            T.reads(M[0:16, 0:16])
            T.writes(R[0:lanes, 0:local])
            thread = T.env_thread("threadIdx.x")
            for k in range(local):
                i, j = T.meta_var(back(thread, k))
                T.launch_thread(thread, lanes)
                R[thread, k] = M[i, j]

    found = tir.TensorIntrin.register("test_mfma_load", load, load_by_threads, override=True)
    assert found.checked
    assert "LetStmt" not in str(load_by_threads) and " = thread %" not in str(load_by_threads)


def test_extensions_have_names() -> None:
    extension = tvm.arith.Extension.TransitivelyProveInequalities
    analyzer = tvm.arith.Analyzer()
    analyzer.enabled_extensions = extension
    assert analyzer.enabled_extensions == extension


def test_options_without_effect_are_named() -> None:
    with pytest.warns(UserWarning, match=r"without effect .*: tir\.disable_vectorize, tir\.x"):
        tvm.transform.PassContext(config={"tir.x": 1, "tir.disable_vectorize": True})
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tvm.transform.PassContext(opt_level=3, disabled_pass=["x"])


# ---------------------------------------------------------------------------- GPUs


@T.prim_func
def doubled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)


def test_code_for_gpus() -> None:
    built = tvm.build(doubled, target="cuda -arch=sm_80")
    (device,) = built.imported_modules
    assert device.type_key == "cuda" and ".target sm_80" in device.get_source()
    assert "define" in device.get_source("ll")
    assert tvm.build(doubled, target="llvm").imported_modules == []


def test_the_emulator() -> None:
    dev = tvm.cuda()
    source = np.arange(64, dtype="float32")
    a, b = tvm.nd.array(source, dev), tvm.nd.empty((64,), "float32", dev)
    assert a.device == dev and str(dev) == "cuda(0)" and b.dtype == "float32" and b.ndim == 1
    if not dev.exist:
        with pytest.raises(tvm.TVMError, match="emulator"):
            tvm.build(doubled, target="cuda")(a, b)
        tvm.build(doubled, target="cuda", device="emulator")(a, b)
    else:
        tvm.build(doubled, target="cuda")(a, b)
    np.testing.assert_array_equal(b.numpy(), source * 2)
    b[3] = -1.0
    assert b[3] == -1 and len(b) == 64
    on_host = b.copyto(tvm.cpu())
    assert on_host.device == tvm.cpu() and on_host[3] == -1
    assert a.copyto(b) is b
    np.testing.assert_array_equal(np.asarray(b), source)
    with pytest.raises(tvm.TVMError, match="cannot be put on vulkan"):
        tvm.nd.array(source, tvm.vulkan())


# ---------------------------------------------------------------------------- schedules


def test_refusals_end_with_the_words_of_tvm() -> None:
    @T.prim_func
    def two(
        A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")
    ) -> None:
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * 2.0
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi] + 1.0
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = B[vi] + C[vi]

    def refused(step: str, block: str, place: str, words: str) -> None:
        sch = tir.Schedule(two)
        with pytest.raises(tir.ScheduleError, match=words) as found:
            getattr(sch, step)(block, sch.get_loops(place)[0])
        assert "TVM says: " in str(found.value)

    refused("compute_at", "B", "C", "requires all the consumer")
    refused("reverse_compute_at", "D", "C", "requires all the producer")
    refused("compute_at", "C", "D", "output block")
    refused("compute_at", "B", "B", "ancestor of block")
    with pytest.raises(
        tir.ScheduleError, match=r"read a single buffer region, but it reads 2 reg"
    ) as found:
        tir.Schedule(two).reverse_compute_inline("D")
    assert "it reads 2 region(s)" in repr(found.value)
    assert "TVM says" not in str(_refusal_of_ours(two))


def _refusal_of_ours(func: PrimFunc) -> ScheduleError:
    from tileloom import Schedule, ScheduleError

    sch = Schedule(func)
    try:
        sch.compute_at("C", sch.get_loops("D")[0])
    except ScheduleError as refusal:
        return refusal
    raise AssertionError("not refused")


@tvm.script.ir_module
class Dense:
    @T.prim_func
    def main(
        A: T.Buffer((8, 64), "uint8"),
        B: T.Buffer((4, 16, 16, 4), "int8"),
        C: T.Buffer((8, 64), "int32"),
    ) -> None:
        for i0, i1, i2 in T.grid(8, 64, 64):
            with T.block("C"):
                i, j, k = T.axis.remap("SSR", [i0, i1, i2])
                with T.init():
                    C[i, j] = 0
                C[i, j] = C[i, j] + T.cast(A[i, k], "int32") * T.cast(
                    B[j // 16, k // 4, j % 16, k % 4], "int32"
                )


def test_loops_for_an_intrinsic() -> None:
    from tileloom.compat.tvm.tir.schedule.analysis import (
        TensorizeInfo,
        get_tensorize_loop_mapping,
        has_block,
        is_output_block,
    )
    from tileloom.compat.tvm.tir.schedule.transform import tile_with_tensor_intrin

    name = tir.tensor_intrin.x86.VNNI_DOT_16x4_INTRIN
    sch = tir.Schedule(Dense)
    assert has_block(sch, "C") and not has_block(sch, "D") and is_output_block(sch, "C")
    desc = tir.TensorIntrin.get(name).desc
    info = get_tensorize_loop_mapping(sch, "C", desc)
    assert isinstance(info, TensorizeInfo) and info.block_iter_paddings is None
    _, j, k = sch.get_loops("C")
    places = [info.desc_loop_indexer[info.loop_map[sch.get_sref(loop)]] for loop in (j, k)]
    assert places == [0, 1] and len(info.loop_map) == 2
    tiled = tile_with_tensor_intrin(sch, "C", name)
    loops = sch.get_loops("C")
    assert [int(sch.get(loop).extent) for loop in loops] == [8, 4, 16, 16, 4]
    assert sch.get(tiled) is sch.get(loops[3])
    sch.decompose_reduction("C", loops[2])
    sch.tensorize(sch.get_loops("C_update")[-2], name)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 99, (8, 64)).astype("uint8")
    b = rng.integers(-99, 99, (4, 16, 16, 4)).astype("int8")
    out = tvm.nd.empty((8, 64), "int32")
    tvm.build(sch.mod)(tvm.nd.array(a), tvm.nd.array(b), out)
    plain = b.transpose(1, 3, 0, 2).reshape(64, 64).astype("int32")
    np.testing.assert_array_equal(out.numpy(), a.astype("int32") @ plain)


def test_loops_that_do_not_fit_an_intrinsic() -> None:
    from tileloom.compat.tvm.tir.schedule.analysis import get_tensorize_loop_mapping
    from tileloom.compat.tvm.tir.schedule.transform import tile_with_tensor_intrin

    a, b = te.placeholder((30, 20), name="A"), te.placeholder((20, 17), name="B")
    product = tvm.topi.matmul(a, b)
    func = te.create_prim_func([a, b, product])
    sch = tir.Schedule(func)
    name = "matmul_4x16x4_f32"
    assert tile_with_tensor_intrin(sch, "T_matmul", name) is None
    info: Any = get_tensorize_loop_mapping(
        sch, "T_matmul", tir.TensorIntrin.get(name).desc, allow_padding=True
    )
    assert info.block_iter_paddings == [4, 16, 1]
    tile_with_tensor_intrin(sch, "T_matmul", name, allow_padding=True)
    loops = sch.get_loops("T_matmul")
    assert [int(sch.get(loop).extent) for loop in loops] == [8, 2, 5, 4, 16, 4]
    x, y = (np.random.default_rng(0).random(s).astype("float32") for s in ((30, 20), (20, 17)))
    out = tvm.nd.empty((30, 17))
    tvm.build(sch.mod)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5)


@T.prim_func
def Turned(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    for i, k, j in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]


@T.prim_func
def Mixed(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")) -> None:
    for i, j, k in T.grid(16, 8, 16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            vj = T.axis.spatial(16, j * 2 + k // 8)
            vk = T.axis.reduce(16, k)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj]


def test_loops_are_matched_by_their_kind() -> None:
    from tileloom.compat.tvm.tir.schedule.analysis import get_tensorize_loop_mapping

    desc = tir.TensorIntrin.get("matmul_4x16x4_f32").desc
    sch = tir.Schedule(Turned)
    info = get_tensorize_loop_mapping(sch, "C", desc)
    assert info is not None
    i, k, j = sch.get_loops("C")
    places = [info.desc_loop_indexer[info.loop_map[sch.get_sref(loop)]] for loop in (i, j, k)]
    assert places == [0, 1, 2]
    # No loop is a variable of the block by itself.
    assert get_tensorize_loop_mapping(tir.Schedule(Mixed), "C", desc) is None


# ---------------------------------------------------------------------------- topi, ir_builder


def computed(result: Any, *inputs: tuple[Tensor, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """What `result` is for placeholders in the order of the arrays."""
    tensors, arrays = zip(*inputs)
    func = te.create_prim_func([*tensors, result])
    shape = [int(extent) for extent in result.shape]
    out = tvm.nd.empty(shape, str(result.dtype))
    tvm.build(func)(*map(tvm.nd.array, arrays), out)
    return out.numpy()


def test_operators() -> None:
    topi = tvm.topi
    rng = np.random.default_rng(0)
    x, y, v = (rng.uniform(0.5, 2, s).astype("float32") for s in ((3, 4), (3, 4), (4,)))
    a, b = te.placeholder((3, 4), name="a"), te.placeholder((3, 4), name="b")
    w = te.placeholder((4,), name="w")
    one, two, row = (a, x), (b, y), (w, v)
    for made, inputs, wanted in [
        (topi.add(a, b), (one, two), x + y),
        (topi.multiply(a, w), (one, row), x * v),
        (topi.subtract(a, 1.0), (one,), x - 1),
        (topi.maximum(a, b), (one, two), np.maximum(x, y)),
        (topi.exp(a), (one,), np.exp(x)),
        (topi.rsqrt(a), (one,), 1 / np.sqrt(x)),
        (topi.cast(a, "float64"), (one,), x.astype("float64")),
        (topi.transpose(a), (one,), x.T),
        (topi.reshape(a, (2, 6)), (one,), x.reshape(2, 6)),
        (topi.squeeze(topi.expand_dims(a, 1)), (one,), x),
        (topi.expand_dims(a, 0), (one,), x[None]),
        (topi.expand_dims(a, 1, 2), (one,), x[:, None, None]),
        (topi.expand_dims(a, -1), (one,), x[..., None]),
        (topi.expand_dims(a, -2), (one,), x[:, None]),
        (topi.sum(a, axis=1), (one,), x.sum(1)),
        (topi.sum(a, axis=-1, keepdims=True), (one,), x.sum(1, keepdims=True)),
        (topi.max(a, axis=0), (one,), x.max(0)),
        (topi.matmul(a, b, transp_b=True), (one, two), x @ y.T),
        (topi.nn.dense(a, b), (one, two), x @ y.T),
        (topi.nn.relu(topi.subtract(a, 1.0)), (one,), np.maximum(x - 1, 0)),
        (topi.nn.softmax(a), (one,), np.exp(x) / np.exp(x).sum(1, keepdims=True)),
        (topi.nn.softmax(a, axis=0), (one,), np.exp(x) / np.exp(x).sum(0)),
    ]:
        np.testing.assert_allclose(computed(made, *inputs), wanted, rtol=1e-5)
    p, q = rng.random((2, 3, 4)).astype("float32"), rng.random((1, 5, 4)).astype("float32")
    c, d = te.placeholder((2, 3, 4), name="c"), te.placeholder((1, 5, 4), name="d")
    got = computed(topi.nn.batch_matmul(c, d), (c, p), (d, q))
    np.testing.assert_allclose(got, p @ q.transpose(0, 2, 1), rtol=1e-5)
    with pytest.raises(tvm.TVMError, match="do not broadcast"):
        topi.add(a, te.placeholder((3,), name="e"))
    with pytest.raises(AttributeError, match=r"topi\.argsort"):
        topi.argsort(a)


def test_statements_by_a_builder() -> None:
    ib = tir.ir_builder.create()
    A = tir.decl_buffer((8,), "float32", "A")
    a = ib.buffer_ptr(A)
    b = ib.allocate("float32", (2, 4), name="b", scope="local")
    n = ib.let("n", tir.Var("m", "int32") + 1)
    with ib.for_range(0, 8, name="i", kind="parallel") as i:
        with ib.if_scope(ib.likely(i < n)):
            b[i] = a[i] * 2.0
        with ib.else_scope():
            a[i] = 0.0
            with ib.for_range(0, 2, name="j") as j:
                b[j, i % 4] = a[i]
    with pytest.raises(ValueError, match="cannot store int32"):
        a[0] = n
    with pytest.raises(tvm.TVMError, match="else_scope"), ib.else_scope():
        pass
    text = str(ib.get())
    assert "for i in T.parallel(8):" in text and "else:" in text and "for j in range(2):" in text
    assert "b_1[i // 4, i % 4] = A[i] * T.float32(2.0)" in text
