"""Values and statements of flat code: each line of a kernel against what NumPy makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.errors import UnsupportedError
from tileloom.expr import (
    Broadcast,
    Expr,
    Let,
    Ramp,
    Select,
    Shuffle,
    Var,
    const,
)
from tileloom.expr.intrin import if_then_else
from tileloom.script import parse
from tileloom.simt import KernelDefect, run_kernels
from tileloom.simt.machine import Machine
from tileloom.simt.thread_batch import ThreadBatch
from tileloom.tir import BufferLoad, Evaluate

T32 = np.arange(40)
A32 = (T32 * 7 % 13 - 6).astype("int32")
F32 = (A32 * 0.5).astype("float32")

KERNEL = """
@T.prim_func
def kernel(A: T.Buffer((40,), "int32"), F: T.Buffer((40,), "float32"), n: T.int32,
           B: T.Buffer((160,), "int32"), G: T.Buffer((160,), "float32")):
    t = T.launch_thread("threadIdx.x", 40)
    R_data = T.allocate([8], "int32", "local")
    R = T.decl_buffer((8,), "int32", data=R_data, scope="local")
    LINE
"""


def run(line: str, n: int = 3) -> tuple[Any, Any, int]:
    """B and G after a kernel with some lines, and the steps that it took."""
    b, g = np.zeros(160, "int32"), np.zeros(160, "float32")
    func: Any = parse(KERNEL.replace("LINE", line.replace("\n", "\n    ")))
    steps = run_kernels(func, A32.copy(), F32.copy(), n, b, g)
    return b, g, steps


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ("A[t] + n", A32 + 3),
        ("A[t] - n * t", A32 - 3 * T32),
        ("T.min(A[t], n)", np.minimum(A32, 3)),
        ("T.max(A[t], n)", np.maximum(A32, 3)),
        ("A[t] // n", A32 // 3),
        ("A[t] % n", A32 % 3),
        ("A[t] // -n", A32 // -3),
        ("A[t] % -n", A32 % -3),
        ("T.truncdiv(A[t], n)", np.fix(A32 / 3)),
        ("T.truncdiv(A[t], -n)", np.fix(A32 / -3)),
        ("T.truncmod(A[t], n)", np.fmod(A32, 3)),
        ("T.truncmod(A[t], -n)", np.fmod(A32, -3)),
        ("T.truncmod(A[t], n - 3)", A32 * 0),
        ("T.Select(A[t] == n, 1, 2)", np.where(A32 == 3, 1, 2)),
        ("T.Select(A[t] != n, 1, 2)", np.where(A32 != 3, 1, 2)),
        ("T.Select(A[t] < n, A[t], t)", np.where(A32 < 3, A32, T32)),
        ("T.Select(A[t] <= n, A[t], t)", np.where(A32 <= 3, A32, T32)),
        ("T.Select(A[t] > n, A[t], t)", np.where(A32 > 3, A32, T32)),
        ("T.Select(A[t] >= n, A[t], t)", np.where(A32 >= 3, A32, T32)),
        ("T.Select(t < n + 40, A[t], t)", A32),
        ("T.Select(t > n + 40, A[t], t)", T32),
        ("T.Select(n == 3, A[t], t)", A32),
        ("T.Select(n == 4, A[t], t)", T32),
        ("T.Select(t < 5 and A[t] > 0, 1, 0)", (T32 < 5) & (A32 > 0)),
        ("T.Select(t < 5 or A[t] > 0, 1, 0)", (T32 < 5) | (A32 > 0)),
        ("T.Select(not (t < 5), 1, 0)", T32 >= 5),
        ("T.Select(not (n < 5), 1, 0)", T32 * 0),
        ("T.Cast('int32', F[t])", np.trunc(F32)),
        ("T.Cast('int32', T.Cast('int8', A[t] * 100))", (A32 * 100).astype("int8")),
        ("T.Cast('int32', t < 5)", T32 < 5),
        ("T.if_then_else(t < 30, A[t + 10], A[39 - t])",
         np.where(T32 < 30, np.roll(A32, -10), A32[::-1])),
        ("T.abs(A[t])", abs(A32)),
        ("T.popcount(A[t])", [(int(x) & 0xFFFFFFFF).bit_count() for x in A32]),
        ("T.bitwise_and(A[t], 5)", A32 & 5),
        ("T.Cast('int32', T.tvm_warp_activemask())", A32 * 0 - 1),
    ],
)  # fmt: skip
def test_integers(expr: str, wanted: Any) -> None:
    assert run(f"B[t] = {expr}")[0][:40].tolist() == np.array(wanted).astype(int).tolist()


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        ("F[t] / T.float32(3)", F32 / np.float32(3)),
        ("T.exp(F[t])", np.exp(F32)),
        ("T.Cast('float32', A[t]) * F[t]", A32 * F32),
        ("T.Cast('float32', T.Cast('float16', F[t] / T.float32(3)))",
         (F32 / np.float32(3)).astype("float16").astype("float32")),
        ("T.Select(F[t] > T.float32(0), F[t], T.float32(-1))", np.where(F32 > 0, F32, -1)),
        ("T.min(F[t], T.float32(0.5))", np.minimum(F32, np.float32(0.5))),
    ],
)  # fmt: skip
def test_floats(expr: str, wanted: Any) -> None:
    np.testing.assert_allclose(run(f"G[t] = {expr}")[1][:40], wanted, 1e-6)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("for k in range(n):\n    B[t] = B[t] + k + 1", T32 * 0 + 6),
        ("for k in range(2, 5):\n    B[t] = B[t] + k", T32 * 0 + 9),
        ("for k in range(t % 4):\n    B[t] = B[t] * 10 + k + 1", [0, 1, 12, 123] * 10),
        ("for k in range(t % 3, t % 3 + t % 2):\n    B[t] = B[t] + k + 10",
         [(10 + t % 3) * (t % 2) for t in range(40)]),
        ("for k in range(0):\n    B[t] = 1", T32 * 0),
        ("if A[t] > 2:\n    B[t] = 1\nelse:\n    B[t] = 2", np.where(A32 > 2, 1, 2)),
        ("if A[t] > 2:\n    B[t] = 1", A32 > 2),
        ("if n > 2:\n    B[t] = 1\nelse:\n    B[t] = 2", T32 * 0 + 1),
        ("R[t % 8] = 0\nwhile R[t % 8] < t:\n    R[t % 8] = R[t % 8] + 3\nB[t] = R[t % 8]",
         (T32 + 2) // 3 * 3),
        ("x: T.int32 = A[t] * 2\nB[t] = x + 1", A32 * 2 + 1),
        ("if t < 9:\n    x: T.int32 = A[t] * 2\n    B[t] = x + x", np.where(T32 < 9, A32 * 4, 0)),
        ("x: T.int32 = n + 4\nB[t] = x", T32 * 0 + 7),
        ("assert A[t] > 2, 'small'\nB[t] = 1", A32 > 2),
        ("for k in range(8):\n    R[k] = k * t\nB[t] = R[5] + R[t % 8]", 5 * T32 + T32 % 8 * T32),
    ],
)  # fmt: skip
def test_statements(lines: str, wanted: Any) -> None:
    assert run(lines)[0][:40].tolist() == np.array(wanted).astype(int).tolist()


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("B[t] = 1", 40),
        ("for k in range(3):\n    B[t] = 1", 40 + 3 * 40),
        ("if t < 5:\n    B[t] = 1", 40 + 5),
        ("if t < 5:\n    B[t] = 1\nelse:\n    B[t] = 2", 40 + 40),
        ("for k in range(t % 2):\n    B[t] = 1", 40 + 20),
        ("x: T.int32 = A[t]\nB[t] = x", 40 + 40),
        ("if t < 0:\n    B[t] = 1", 40),
        ("R[0] = 2\nwhile R[0] > 0:\n    R[0] = R[0] - 1", 3 * 40 + 2 * 40),
    ],
)
def test_steps_are_statements_of_threads(lines: str, count: int) -> None:
    assert run(lines)[2] - run("T.evaluate(0)")[2] == count - 40


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("B[t * 4:t * 4 + 4] = T.Ramp(t, 2, 4)", T32[:, None] + [0, 2, 4, 6]),
        ("B[t * 4:t * 4 + 4] = T.Ramp(n, t, 4)", 3 + T32[:, None] * [0, 1, 2, 3]),
        ("B[t * 4:t * 4 + 4] = T.Broadcast(A[t], 4)", A32[:, None] + [0] * 4),
        ("B[t * 4:t * 4 + 4] = T.Broadcast(n, 4)", T32[:, None] * 0 + [3] * 4),
        ("B[t * 4:t * 4 + 4] = T.Ramp(t, 1, 4) * T.Broadcast(n, 4)",
         T32[:, None] * 3 + [0, 3, 6, 9]),
        ("B[t * 4:t * 4 + 4] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(t % 5, 4), T.Ramp(t, 1, 4),"
         " T.Broadcast(n, 4))",
         np.where(np.arange(4) < (T32 % 5)[:, None], T32[:, None] + np.arange(4), 3)),
        ("B[t * 4:t * 4 + 4] = T.Select(t < 5, T.Ramp(t, 1, 4), T.Broadcast(n, 4))",
         np.where(T32[:, None] < 5, T32[:, None] + np.arange(4), 3)),
        ("B[t * 4:t * 4 + 4] = T.Broadcast(7, 4)\n"
         "B[t * 4:t * 4 + 4] = B[t * 4:t * 4 + 4] + T.Ramp(0, 1, 4)",
         T32[:, None] * 0 + 7 + np.arange(4)),
        ("B[T.Ramp(t, 40, 4)] = T.Ramp(t * 4, 1, 4)", np.arange(160).reshape(40, 4).T),
    ],
)  # fmt: skip
def test_vectors(lines: str, wanted: Any) -> None:
    assert run(lines)[0].tolist() == np.array(wanted).reshape(-1).tolist()


@pytest.mark.parametrize("kind", ["store", "load"])
def test_predicates(kind: str) -> None:
    """Elements that a predicate does not name are neither stored, nor loaded out of bounds."""
    some = "T.Ramp(t * 4, 1, 4) < T.Broadcast(n, 4)"
    lines = f"B.vstore([T.Ramp(t * 4, 1, 4)], T.Ramp(t, 1, 4), predicate={some})"
    wanted = np.where(np.arange(160) < 21, (T32[:, None] + np.arange(4)).reshape(-1), 0)
    if kind == "load":
        lines = f"B[t * 4:t * 4 + 4] = A.vload([T.Ramp(t * 4, 1, 4)], predicate={some})"
        wanted = np.where(np.arange(160) < 21, np.resize(A32, 160), 0)
    assert run(lines, 21)[0].tolist() == wanted.tolist()
    with pytest.raises(KernelDefect) as caught:
        run(lines, 161 if kind == "load" else 21 * 100)
        run(lines.replace("t * 4, 1", "t * 4 + 21, 1"), 161 + 21)
    assert caught.value.kind == "out of bounds"


# ---------------------------------------------------------------------------- by hand


def machine(threads: int = 40, blocks: int = 1) -> tuple[Machine, Var]:
    """A machine, and the variable that says which thread it is."""
    batch, t = ThreadBatch(threads, np.arange(blocks)), Var("t", "int32")
    made = Machine(batch, {}, {t: batch.thread.astype("int32")}, {})
    made.stmt = Evaluate(const(0))
    return made, t


def values(expr: Expr, made: Machine, lanes: Any = None) -> Any:
    return np.asarray(made.value(expr, made.everyone if lanes is None else np.array(lanes)))


def test_shuffles_of_vectors() -> None:
    made, t = machine(4)
    vector = Ramp(t * 10, const(1), 4)
    assert values(Shuffle([vector], [2]), made).tolist() == [2, 12, 22, 32]
    assert values(Shuffle([vector], [3, 0]), made)[1].tolist() == [13, 10]
    both = Shuffle([t, t + 5, const(7)], [2, 0, 1])
    assert values(both, made)[3].tolist() == [7, 3, 8]
    assert values(Shuffle([vector, Broadcast(t, 2)], [1, 5]), made, [2])[0].tolist() == [21, 2]


def test_names_keep_what_they_mean_in_other_threads() -> None:
    made, t = machine(5)
    x = Var("x", "int32")
    assert values(Let(x, t * 2, x + 1), made).tolist() == [1, 3, 5, 7, 9]
    assert values(Let(x, t * 100, x + 1), made, [1, 3]).tolist() == [101, 301]
    assert values(x, made).tolist() == [0, 100, 4, 300, 8]
    assert values(Let(x, const(6), x), made).tolist() == 6
    wide = Let(x, t, Ramp(x, const(1), 2))
    assert values(wide, made, [4]).tolist() == [[4, 5]]


def test_choices_by_thread() -> None:
    made, t = machine(4)
    vector = Select(t < 2, Ramp(t, const(1), 2), Broadcast(const(9), 2))
    assert values(vector, made).tolist() == [[0, 1], [1, 2], [9, 9], [9, 9]]
    assert values(vector, made, [3]).tolist() == [[9, 9]]
    assert values(Select(t < 3, t, const(5)), made, [2, 3]).tolist() == [2, 5]
    u = Var("u", "bool")
    made.env[u] = np.bool_(True)
    assert values(if_then_else(u, t, t * 2), made).tolist() == [0, 1, 2, 3]
    made.env[u] = np.bool_(False)
    assert values(if_then_else(u, t, t * 2), made).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("G[t] = T.call_extern('float32', 'f', F[t])", "no meaning for the call"),
        ("T.tvm_storage_sync('global')", "no barrier orders"),
        ("T.tvm_storage_sync('warps')", "no barrier orders"),
    ],
)
def test_what_there_is_not(line: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        run(line)


@pytest.mark.parametrize(
    ("scope", "kind", "said"),
    [("global", "int32", "'global' memory in a kernel"), ("texture", "int32", "'texture' memory")],
)
def test_memory_that_kernels_do_not_have(scope: str, kind: str, said: str) -> None:
    lines = f"X = T.allocate([4], '{kind}', '{scope}')\nB[t] = 1"
    with pytest.raises(UnsupportedError, match=said):
        run(lines)


def test_memory_is_allocated_by_block_and_thread() -> None:
    func: Any = parse("""
@T.prim_func
def kernel(B: T.Buffer((120,), "int32")):
    b = T.launch_thread("blockIdx.x", 3)
    t = T.launch_thread("threadIdx.x", 40)
    for k in range(3):
        S_data = T.allocate([40], "int32", "shared")
        R_data = T.allocate([2], "int32", "local")
        S = T.decl_buffer((40,), "int32", data=S_data, scope="shared")
        R = T.decl_buffer((2,), "int32", data=R_data, scope="local")
        R[1] = b * 100 + t
        S[39 - t] = R[1]
        T.tvm_storage_sync("shared")
        B[b * 40 + t] = S[t] + k
        T.tvm_storage_sync("shared")
""")
    b = np.zeros(120, "int32")
    run_kernels(func, b)
    assert b.reshape(3, 40).tolist() == [
        [100 * i + 39 - t + 2 for t in range(40)] for i in range(3)
    ]


def test_memory_is_empty_again_in_each_iteration() -> None:
    text = """
@T.prim_func
def kernel(B: T.Buffer((4,), "int32")):
    t = T.launch_thread("threadIdx.x", 4)
    for k in range(2):
        R_data = T.allocate([1], "int32", "local")
        R = T.decl_buffer((1,), "int32", data=R_data, scope="local")
        if k == 0:
            R[0] = t
        B[t] = R[0]
"""
    with pytest.raises(KernelDefect, match=r"R\[0\] is read, and nobody has written it") as caught:
        run_kernels(parse(text), np.zeros(4, "int32"))
    assert len(caught.value.threads) == 4
    b = np.zeros(4, "int32")
    run_kernels(parse(text), b, check_initialised=False)
    assert b.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("threads", [1, 31, 32, 33, 70])
def test_barriers_of_warps_and_blocks(threads: int) -> None:
    """Elements of neighbours: in the same warp, or in the same block."""
    text = f"""
@T.prim_func
def kernel(B: T.Buffer(({2 * threads},), "int32")):
    b = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", {threads})
    S_data = T.allocate([{threads}], "int32", "shared")
    S = T.decl_buffer(({threads},), "int32", data=S_data, scope="shared")
    S[t] = t + b
    T.tvm_storage_sync("SCOPE")
    B[b * {threads} + t] = S[PLACE]
"""
    warp = f"T.min(t // 32 * 32 + 31 - t % 32, {threads - 1})"
    block = f"{threads - 1} - t"
    t = np.arange(threads)
    for scope, place, source in (
        ("warp", warp, np.minimum(t // 32 * 32 + 31 - t % 32, threads - 1)),
        ("shared", block, threads - 1 - t),
        ("shared.dyn", block, threads - 1 - t),
    ):
        b = np.zeros(2 * threads, "int32")
        run_kernels(parse(text.replace("SCOPE", scope).replace("PLACE", place)), b)
        assert b.tolist() == [*source, *(source + 1)]
    if threads > 32:
        with pytest.raises(KernelDefect, match="race"):
            run_kernels(parse(text.replace("SCOPE", "warp").replace("PLACE", block)), b)


def test_a_divergent_barrier_names_who_is_absent() -> None:
    text = """
@T.prim_func
def kernel(B: T.Buffer((80,), "int32")):
    b = T.launch_thread("blockIdx.x", 2)
    t = T.launch_thread("threadIdx.x", 40)
    if CONDITION:
        T.tvm_storage_sync("SCOPE")
    B[b * 40 + t] = 1
"""

    def run_with(condition: str, scope: str) -> None:
        code = text.replace("CONDITION", condition).replace("SCOPE", scope)
        run_kernels(parse(code), np.zeros(80, "int32"))

    run_with("b == 1", "shared")
    run_with("t < 32", "warp")
    for condition, scope, said, absent in (
        ("b == 0 or t < 39", "shared", "39 of 40 threads", [(1, 39)]),
        ("b == 1 and t < 38", "shared", "38 of 40 threads", [(1, 38), (1, 39)]),
        ("b == 0 or t != 35", "warp", "7 of 8 threads", [(1, 35)]),
        ("t >= 2", "warp", "30 of 32 threads", [(0, 0), (0, 1)]),
    ):
        with pytest.raises(KernelDefect, match=f"{said} reach a barrier") as caught:
            run_with(condition, scope)
        assert caught.value.threads == absent and "move the barrier" in str(caught.value)


def test_code_is_flat() -> None:
    func: Any = parse("""
@T.prim_func
def kernel(A: T.Buffer((4, 8), "int32")):
    t = T.launch_thread("threadIdx.x", 4)
    A[t, 0] = 1
""")
    with pytest.raises(UnsupportedError, match="flat code, not accesses with 2 indices"):
        run_kernels(func, np.zeros((4, 8), "int32"))


def test_loads_need_a_statement() -> None:
    made, t = machine()
    made.stmt = None
    func: Any = parse(KERNEL.replace("LINE", "B[t] = A[t]"))
    buffer = func.buffer_map[func.params[0]]
    with pytest.raises(UnsupportedError, match="knows no memory for 'A'"):
        made.value(BufferLoad(buffer, (t,)), made.everyone)
