"""Tensor expressions of scripts for TVM: structure, and results on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import te, tir
from tileloom.compat.tvm.script import tir as T
from tileloom.compute import Tensor
from tileloom.expr import Expr, Var
from tileloom.tir import PrimFunc

RNG = np.random.default_rng(7)


def run(tensors: Sequence[Tensor], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Build the function of some tensors and run it."""
    func = tvm.build(te.create_prim_func(tensors), target="llvm")
    dev = tvm.cpu(0)
    given = [tvm.nd.array(array, dev) for array in arrays]
    func(*given)
    return [array.numpy() for array in given]


def test_matmul_is_the_function_tvm_makes() -> None:
    a = te.placeholder((17, 5), name="A")
    b = te.placeholder((5, 9), name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((17, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")

    @T.prim_func
    def expected(
        A: T.Buffer((17, 5), "float32"),
        B: T.Buffer((5, 9), "float32"),
        C: T.Buffer((17, 9), "float32"),
    ) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(17, 9, 5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    tvm.ir.assert_structural_equal(te.create_prim_func([a, b, c]), expected)
    x, y = RNG.random((17, 5)).astype("float32"), RNG.random((5, 9)).astype("float32")
    *_, result = run([a, b, c], x, y, np.empty((17, 9), "float32"))
    tvm.testing.assert_allclose(result, x @ y, rtol=1e-5)


def test_relu_with_symbolic_size() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A", dtype="float32")
    b = te.compute((n,), lambda i: te.max(a[i], tir.const(0, "float32")), name="B")
    x = np.linspace(-1, 1, 13, dtype="float32")
    _, result = run([a, b], x, np.empty(13, "float32"))
    np.testing.assert_array_equal(result, np.maximum(x, 0))


def test_softmax_in_stages() -> None:
    rows, columns = 6, 11
    a = te.placeholder((rows, columns), name="A")
    k1, k2 = te.reduce_axis((0, columns), "k1"), te.reduce_axis((0, columns), "k2")
    top = te.compute((rows,), lambda i: te.max(a[i, k1], axis=k1), name="top")
    e = te.compute((rows, columns), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    out = te.compute((rows, columns), lambda i, j: e[i, j] / total[i], name="out")
    x = RNG.standard_normal((rows, columns)).astype("float32")
    _, result = run([a, out], x, np.empty_like(x))
    wanted = np.exp(x - x.max(1, keepdims=True))
    tvm.testing.assert_allclose(result, wanted / wanted.sum(1, keepdims=True), rtol=1e-5)


def test_argmax_with_comm_reducer() -> None:
    def combine(x: tuple[Var, ...], y: tuple[Var, ...]) -> tuple[Expr, ...]:
        keep = tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0]))
        return tir.Select(keep, x[0], y[0]), tir.Select(keep, x[1], y[1])

    argmax = te.comm_reducer(
        combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax"
    )
    m, n = 5, 8
    idx, val = te.placeholder((m, n), "int32", "idx"), te.placeholder((m, n), "float32", "val")
    k = te.reduce_axis((0, n), "k")
    i, v = te.compute((m,), lambda r: argmax((idx[r, k], val[r, k]), axis=k), name="T")
    values = RNG.random((m, n)).astype("float32")
    numbers = np.broadcast_to(np.arange(n, dtype="int32"), (m, n)).copy()
    outs = np.empty(m, "int32"), np.empty(m, "float32")
    *_, found, best = run([idx, val, i, v], numbers, values, *outs)
    np.testing.assert_array_equal(found, values.argmax(1))
    np.testing.assert_array_equal(best, values.max(1))


def test_padding_with_if_then_else() -> None:
    a = te.placeholder((5,), name="A", dtype="int32")
    b = te.compute(
        (9,),
        lambda i: te.if_then_else(te.all(i >= 2, i < 7), a[i - 2], tir.const(0, "int32")),
        name="B",
    )
    x = np.arange(1, 6, dtype="int32")
    _, result = run([a, b], x, np.empty(9, "int32"))
    np.testing.assert_array_equal(result, [0, 0, 1, 2, 3, 4, 5, 0, 0])


@pytest.mark.parametrize(
    ("name", "reference"),
    [("tanh", np.tanh), ("sqrt", np.sqrt), ("floor", np.floor), ("log", np.log), ("abs", np.abs)],
)
def test_unary_functions(name: str, reference: Callable[..., Any]) -> None:
    a = te.placeholder((7,), name="A")
    b = te.compute((7,), lambda i: getattr(te, name)(a[i]), name="B")
    x = RNG.random((7,)).astype("float32") + 0.5
    _, result = run([a, b], x, np.empty_like(x))
    tvm.testing.assert_allclose(result, reference(x), rtol=1e-5)


def test_integer_division_follows_c_and_floor() -> None:
    a = te.placeholder((6,), name="A", dtype="int32")
    t = te.compute((6,), lambda i: te.truncdiv(a[i], 4), name="t")
    f = te.compute((6,), lambda i: te.floordiv(a[i], 4), name="f")
    m = te.compute((6,), lambda i: te.indexmod(a[i], 4), name="m")
    x = np.array([-9, -8, -1, 0, 5, 8], "int32")
    outs = [np.empty_like(x) for _ in range(3)]
    _, trunc, floor, mod = run([a, t, f, m], x, *outs)
    np.testing.assert_array_equal(trunc, [-2, -2, 0, 0, 1, 2])
    np.testing.assert_array_equal(floor, x // 4)
    np.testing.assert_array_equal(mod, x % 4)


def test_reducers_over_several_axes_and_of_values() -> None:
    a = te.placeholder((3, 4), name="A", dtype="int32")
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 4), "j")
    low = te.compute((1,), lambda _: te.min(a[i, j], axis=[i, j]), name="low")
    x = RNG.integers(-50, 50, (3, 4)).astype("int32")
    _, result = run([a, low], x, np.empty(1, "int32"))
    assert result[0] == x.min()
    u, v = te.var("u"), te.var("v")
    assert isinstance(te.min(u, v), tir.Min)
    assert isinstance(te.max(u, 3), tir.Max)
    assert isinstance(te.sum(a[i, j], axis=[i, j]), tir.Reduce)


def test_what_a_tensor_knows() -> None:
    n = te.size_var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n,), lambda i: a[i, 0] + a[i][1], name="B", attrs={"k": 1})
    assert b.op.name == "B"
    assert b.op.axis[0].var.name == "i"
    assert list(b.op.input_tensors) == [a]
    assert b.shape[0] is n
    assert b.dtype == "float32"
    assert isinstance(b, te.Tensor)
    axis = te.thread_axis((0, 32), "threadIdx.x")
    assert axis.iter_type == tir.IterVar.ThreadIndex
    assert axis.thread_tag == "threadIdx.x"


def test_index_type_is_that_of_the_shape() -> None:
    n = tir.const(8, "int64")
    a = te.placeholder((n,), name="A")
    func: Any = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0)], "int64")
    assert func.body.block.body.loop_var.dtype == "int64"
    b = te.placeholder((8,), name="B")
    with pytest.raises(tvm.TVMError, match="int64"):
        te.create_prim_func([b, te.compute((8,), lambda i: b[i])], "int64")


def same_as_script(tensors: Sequence[Any], expected: PrimFunc) -> None:
    """The function of some tensors is the one that a script says."""
    func = te.create_prim_func(tensors)
    tvm.ir.assert_structural_equal(func, expected.with_attr("global_symbol", "main"))


def test_several_outputs_share_their_loops() -> None:
    a = te.placeholder((6, 4), name="A")
    b, c = te.compute((6, 4), lambda i, j: (a[i, j] + 2, a[i, j] * 3), name="B")

    @T.prim_func
    def expected(
        A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32"),
        C: T.Buffer((6, 4), "float32"),
    ) -> None:  # fmt: skip
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(6, 4):
            with T.block("B.v0"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(2)
            with T.block("B.v1"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(3)

    same_as_script([a, b, c], expected)
    x = RNG.random((6, 4)).astype("float32")
    _, plus, times = run([a, b, c], x, np.empty_like(x), np.empty_like(x))
    tvm.testing.assert_allclose(plus, x + 2)
    tvm.testing.assert_allclose(times, x * 3, rtol=1e-6)


def test_tensors_without_dimensions() -> None:
    a = te.placeholder((), name="A", dtype="int32")
    b = te.compute((), lambda: a() + 10, name="B")

    @T.prim_func
    def expected(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")) -> None:
        T.func_attr({"tir.noalias": True})
        with T.block("B"):
            vi = T.axis.spatial(1, 0)  # noqa: F841
            T.reads(A[()])
            T.writes(B[()])
            B[()] = A[()] + 10

    same_as_script([a, b], expected)


def test_scalar_parameters() -> None:
    n, factor = te.var("n"), te.var("factor", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * factor, name="B", attrs={"layout": "N"})

    @T.prim_func
    def expected(factor: T.float32, pa: T.handle, pb: T.handle) -> None:
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        A = T.match_buffer(pa, (n,))
        B = T.match_buffer(pb, (n,))
        for i in range(n):
            with T.block("B"):
                v = T.axis.spatial(n, i)
                T.block_attr({"layout": "N"})
                B[v] = A[v] * factor

    same_as_script([factor, a, b], expected)


def test_maximum_starts_where_tvm_starts_it() -> None:
    a = te.placeholder((5, 8), name="A")
    k = te.reduce_axis((0, 8), "k")

    @T.prim_func
    def expected(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for i, k in T.grid(5, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.min_value("float32")
                B[vi] = T.max(B[vi], A[vi, vk])

    same_as_script([a, te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="B")], expected)
