"""Steps on programs at the rim of what is affine: concatenations, reversed axes, cascades, ..."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from sampling import sampled
from schedule.common import (
    ELEMENTWISE,
    check_compiled,
    check_same,
    check_trace,
    parse,
    refused,
    same_text,
    schedule,
)
from tileloom.base.errors import UnsupportedError
from tileloom.script import tir as T

CONCAT = """
@T.prim_func
def main(
    x: T.Buffer((16,), "float32"), y: T.Buffer((8,), "float32"), O: T.Buffer((24,), "float32")
):
    P = T.alloc_buffer((16,))
    Q = T.alloc_buffer((8,))
    for i in range(16):
        with T.block("P"):
            v = T.axis.spatial(16, i)
            P[v] = x[v] + 1.0
    for i in range(8):
        with T.block("Q"):
            v = T.axis.spatial(8, i)
            Q[v] = y[v] + 2.0
    for i in range(24):
        with T.block("O"):
            v = T.axis.spatial(24, i)
            O[v] = T.if_then_else(16 <= v, Q[v - 16], P[v])
"""

CONCAT_AFTER = """
@T.prim_func
def main(
    x: T.Buffer((16,), "float32"), y: T.Buffer((8,), "float32"), O: T.Buffer((24,), "float32")
):
    P = T.alloc_buffer((16,))
    Q = T.alloc_buffer((8,))
    for i in range(24):
        with T.block("P"):
            v = T.axis.spatial(16, i)
            T.where(i < 16)
            P[v] = x[v] + 1.0
        with T.block("Q"):
            v = T.axis.spatial(8, i - 16)
            T.where(16 <= i)
            Q[v] = y[v] + 2.0
        with T.block("O"):
            v = T.axis.spatial(24, i)
            O[v] = T.if_then_else(16 <= v, Q[v - 16], P[v])
"""


def test_both_inputs_of_a_concatenation_move() -> None:
    sch = schedule(CONCAT)
    (i,) = sch.get_loops("O")
    sch.compute_at("P", i)
    sch.compute_at("Q", i)
    same_text(sch, CONCAT_AFTER)
    check_same(sch, CONCAT)
    check_trace(sch, CONCAT)
    assert str(sch.verify()) == "ok"


def test_a_producer_that_leaves_out_what_is_read() -> None:
    """The condition of the producer must follow from an element being read at all."""
    text = CONCAT_AFTER.replace("T.where(i < 16)", "T.where(i < 15)")
    sch = schedule(text)
    consumer = sch.get_block("O")
    refused(sch, "may not hold all it reads", "cache_read", consumer, 1, "local")
    sch = schedule(CONCAT_AFTER)
    sch.cache_read("O", 1, "local")
    check_same(sch, CONCAT_AFTER)


REVERSED = """
@T.prim_func
def main(X: T.Buffer((10, 10), "float32"), Z: T.Buffer((10, 10), "float32")):
    Y = T.alloc_buffer((10, 10))
    for i, j in T.grid(10, 10):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[9 - vi, 9 - vj] = X[vi, vj] + 1.0
    for i, j in T.grid(10, 10):
        with T.block("Z"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vj, vi] + 2.0
"""

REVERSED_AFTER = """
@T.prim_func
def main(X: T.Buffer((10, 10), "float32"), Z: T.Buffer((10, 10), "float32")):
    Y = T.alloc_buffer((10, 10))
    for i in range(10):
        for j in range(10):
            with T.block("Y"):
                vi = T.axis.spatial(10, j)
                vj = T.axis.spatial(10, 9 - i)
                Y[9 - vi, 9 - vj] = X[vi, vj] + 1.0
        for j in range(10):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vj, vi] + 2.0
"""


def test_reversed_axes() -> None:
    sch = schedule(REVERSED)
    sch.compute_at("Y", sch.get_loops("Z")[0])
    same_text(sch, REVERSED_AFTER)
    check_same(sch, REVERSED)
    check_trace(sch, REVERSED)
    assert str(sch.verify()) == "ok"


@pytest.mark.parametrize("index", ["9 - vi", "9 - vi, 9 - vj", "vi + 0, 9 - vj", "19 - vi"])
@pytest.mark.parametrize("tile", [1, 3, 4, 10])
def test_reversed_axes_in_tiles(index: str, tile: int) -> None:
    ndim = index.count(",") + 1
    wide = 20 if index == "19 - vi" else 10
    shape = ", ".join([str(wide)] * ndim) + ","
    value = "vi" if ndim == 1 else "vj, vi"
    text = REVERSED.replace("Y[9 - vi, 9 - vj]", f"Y[{index}]").replace("Y[vj, vi]", f"Y[{value}]")
    text = text.replace("Y = T.alloc_buffer((10, 10))", f"Y = T.alloc_buffer(({shape}))")
    if ndim == 1:
        text = text.replace(
            'for i, j in T.grid(10, 10):\n        with T.block("Y"):',
            """for i in range(10):
        with T.block("Y"):""",
            1,
        )
        text = text.replace('vi, vj = T.axis.remap("SS", [i, j])', "vi = T.axis.spatial(10, i)", 1)
        text = text.replace("X[vi, vj]", "X[vi, vi]")
    if index == "19 - vi":
        text = text.replace("Y[vi]", "Y[vi + 10]")
    sch = schedule(text)
    outer, _ = sch.split(sch.get_loops("Z")[0], [None, tile])
    sch.compute_at("Y", outer)
    check_same(sch, text)
    assert str(sch.verify()) == "ok"


PARTLY_AFFINE = """
@T.prim_func
def main(A: T.Buffer((29, 4), "float32"), B: T.Buffer((29, 4), "float32")):
    for v0, v1, v2 in T.grid(6, 4, 4):
        with T.block("B"):
            i = T.axis.spatial(29, v0 * v0 + v1)
            j = T.axis.spatial(4, v2)
            B[i, j] = A[i, j] + 1.0
"""


def test_loops_below_one_that_is_not_affine() -> None:
    """The loop outside stays, so for the loops inside its part of the index is a constant."""
    sch = schedule(PARTLY_AFFINE)
    v0, v1, v2 = sch.get_loops("B")
    refused(sch, "not affine", "reorder", v0, v2, v1)
    refused(sch, "not affine", "reorder", v1, v0)
    sch.reorder(v2, v1)
    same_text(sch, PARTLY_AFFINE.replace("v0, v1, v2 in", "v0, v2, v1 in"))
    check_same(sch, PARTLY_AFFINE)
    check_trace(sch, PARTLY_AFFINE)


ARGMIN = """
@T.prim_func
def main(
    A: T.Buffer((6, 12), "float32"), N: T.Buffer((6, 12), "int32"),
    K: T.Buffer((6,), "int32"), M: T.Buffer((6,), "float32")
):
    for i, ko, ki in T.grid(6, 4, 3):
        with T.block("M"):
            vi = T.axis.spatial(6, i)
            vk = T.axis.reduce(12, ko * 3 + ki)
            with T.init():
                {start}
            k: T.int32 = T.Select(M[vi] <= A[vi, vk], K[vi], N[vi, vk])
            m: T.float32 = T.Select(M[vi] <= A[vi, vk], M[vi], A[vi, vk])
            {update}
"""
START = ["K[vi] = -1", 'M[vi] = T.max_value("float32")']
UPDATE = ["K[vi] = k", "M[vi] = m"]


@pytest.mark.parametrize("start", [1, -1])
@pytest.mark.parametrize("update", [1, -1])
def test_argmin_in_any_order_of_its_statements(start: int, update: int) -> None:
    text = ARGMIN.format(
        start="\n                ".join(START[::start]),
        update="\n            ".join(UPDATE[::update]),
    )
    sch = schedule(text)
    sch.rfactor(sch.get_loops("M")[2], 1)
    check_same(sch, text)
    check_trace(sch, text)
    written = [region.buffer.name for region in sch.get(sch.get_block("M_rf")).writes]
    assert written == ["K.rf", "M.rf"]


def test_starts_that_depend_on_each_other_keep_their_order() -> None:
    text = ARGMIN.format(
        start='M[vi] = 9.0\n                K[vi] = T.cast(M[vi], "int32")',
        update="\n            ".join(UPDATE),
    )
    sch = schedule(text)
    loop = sch.get_loops("M")[2]
    refused(sch, "starts its results from one another", "rfactor", loop, 1)


IN_PLACE = """
@T.prim_func
def main(X: T.Buffer((8,), "int32")):
    for t in range({steps}):
        for i in range(8):
            with T.block("in"):
                v = T.axis.spatial(8, i)
                L[v] = X[v]
        for i in range(8):
            with T.block("out"):
                v = T.axis.spatial(8, i)
                X[v] = L[v] * 2
""".replace("    for t", '    L = T.alloc_buffer((8,), "int32", scope="local")\n    for t')


def test_a_copy_before_a_loop_of_one_iteration() -> None:
    """What is written later in the loop is not read in another iteration: there is none."""
    text = IN_PLACE.format(steps=1)
    sch = schedule(text, debug_mask=1)
    reader = sch.get_block("in")
    sch.cache_read(reader, 0, "global", [reader])
    sch.cache_write("out", 0, "global")
    blocks = [sch.get(b).name_hint for b in sch.get_child_blocks("root")]
    assert blocks == ["X_global", "in", "out", "X_global"]
    check_same(sch, text)
    sch = schedule(IN_PLACE.format(steps=2), debug_mask=1)
    reader = sch.get_block("in")
    refused(sch, "in an iteration before", "cache_read", reader, 0, "global", [reader])


CASCADE = """
@T.prim_func
def main(A: T.Buffer((24,), "int32"), C: T.Buffer((8,), "int32")):
    P = T.alloc_buffer((22,), "int32")
    Q = T.alloc_buffer((10,), "int32")
    for i, k in T.grid(22, 3):
        with T.block("P"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -9
            P[vi] = T.max(P[vi], A[vi + vk])
    for i, k in T.grid(10, 3):
        with T.block("Q"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Q[vi] = -9
            Q[vi] = T.max(Q[vi], P[vi * 2 + vk])
    for i, k in T.grid(8, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = -9
            C[vi] = T.max(C[vi], Q[vi + vk])
"""


@pytest.mark.parametrize("order", sampled([("P", "Q"), ("Q", "P")], 2))
def test_circular_buffers_in_a_cascade(order: tuple[str, ...]) -> None:
    sch = schedule(CASCADE)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("Q", outer)
    sch.compute_at("P", outer)
    for name in order:
        sch.rolling_buffer(name, 0)
    sizes = {b.name: int(b.shape[0]) for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert sizes == {"P": 13, "Q": 6}
    check_same(sch, CASCADE)
    check_compiled(sch, CASCADE)
    check_trace(sch, CASCADE)
    assert str(sch.verify()) == "ok"
    again = sch.get_block("Q")
    refused(sch, "no two tiles overlap", "rolling_buffer", again, 0)


# ---------------------------------------------------------------------------- scalable vectors


def test_split_by_scalable_vectors() -> None:
    sch = schedule(ELEMENTWISE)
    outer, inner = sch.split(sch.get_loops("B")[1], [None, 4 * T.vscale()])
    assert str(sch.get(inner).extent) == "4 * T.vscale()"
    assert str(sch.get(outer).extent) == "7 // (T.vscale() * 4) + 1"
    assert "T.where(j_0 * (4 * T.vscale()) + j_1 < 8)" in str(sch.mod)
    other = schedule(ELEMENTWISE)
    lanes = 4 * T.vscale()
    other.split(other.get_loops("B")[1], [T.ceildiv(8, lanes), lanes])
    same_text(other, sch.mod["main"])
    with pytest.raises(UnsupportedError, match="vscale"):
        tileloom.build(sch.mod["main"])
    loop = other.get_loops("C")[1]
    refused(other, "do not reach", "split", loop, [T.floordiv(8, lanes), lanes])


def test_a_loop_over_a_scalable_vector() -> None:
    func: Any = parse("""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(4 * T.vscale()):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi]
""")
    assert "range(4 * T.vscale())" in str(func)
    assert np.prod(func.buffers[0].static_shape) == 64


# ---------------------------------------------------------------------------- threads

PARTS = """
@T.prim_func
def main(A: T.Buffer((6, 16, 8), "float32"), B: T.Buffer((6,), "float32")):
    R = T.alloc_buffer((16, 6), scope="{scope}")
    for j in T.thread_binding(6, thread="blockIdx.x"):
        for io in T.thread_binding(4, thread="{tag}"):
            for ii, k in T.grid(4, 8):
                with T.block("R"):
                    vi = T.axis.spatial(16, io * 4 + ii)
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        R[vi, vj] = T.float32(0)
                    R[vi, vj] = R[vi, vj] + A[vj, vi, vk]
    for i, k in T.grid(6, 16):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + R[vk, vi]
"""

PARTS_AFTER = """
@T.prim_func
def main(A: T.Buffer((6, 16, 8), "float32"), B: T.Buffer((6,), "float32")):
    R = T.alloc_buffer((16, 6), scope="local")
    for j in T.thread_binding(6, thread="blockIdx.x"):
        for io in T.thread_binding(4, thread="threadIdx.x"):
            for ii, k in T.grid(4, 8):
                with T.block("R"):
                    vi = T.axis.spatial(16, io * 4 + ii)
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        R[vi, vj] = T.float32(0)
                    R[vi, vj] = R[vi, vj] + A[vj, vi, vk]
            for k in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(6, j)
                    vk = T.axis.reduce(16, io * 4 + k)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + R[vk, vi]
"""


def emulated(sch: Any, columns: int = 6) -> Any:
    """What the kernel makes of random numbers, and what it should."""
    a = np.random.default_rng(0).uniform(1, 2, (columns, 16, 8)).astype("float32")
    b = np.zeros(columns, "float32")
    tileloom.build(sch.mod["main"], target="cuda -arch=sm_80", device="emulator")(a, b)
    return b, a.sum((1, 2))


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize("tag", ["threadIdx.x", "threadIdx.y"])
def test_a_reduction_moves_below_threads(scope: str, tag: str) -> None:
    text = PARTS.format(scope=scope, tag=tag)
    sch = schedule(text)
    sch.reverse_compute_at("B", sch.get_loops("R")[1])
    if (scope, tag) == ("local", "threadIdx.x"):
        same_text(sch, PARTS_AFTER)
    check_trace(sch, text)
    assert str(sch.verify()).startswith("ok")
    np.testing.assert_allclose(*emulated(sch), rtol=1e-5)  # type: ignore[call-overload]


@pytest.mark.parametrize("tag", ["blockIdx.y", "vthread.x"])
def test_a_reduction_does_not_move_below_what_cannot_combine(tag: str) -> None:
    sch = schedule(PARTS.format(scope="global", tag=tag))
    block, loop = sch.get_block("B"), sch.get_loops("R")[1]
    refused(sch, "cannot be reduced along it", "reverse_compute_at", block, loop)


@pytest.mark.parametrize("inner", [1, 4])
def test_threads_around_two_blocks_reduce_in_one(inner: int) -> None:
    """As above, but the loop is bound when the second block is in it already."""
    text = PARTS.format(scope="shared", tag="threadIdx.x")
    text = text.replace('T.thread_binding(4, thread="threadIdx.x")', f"range({16 // inner})")
    text = text.replace("T.grid(4, 8)", f"T.grid({inner}, 8)").replace("io * 4", f"io * {inner}")
    sch = schedule(text)
    loop = sch.get_loops("R")[1]
    sch.reverse_compute_at("B", loop)
    sch.bind(loop, "threadIdx.x")
    np.testing.assert_allclose(*emulated(sch), rtol=1e-5)  # type: ignore[call-overload]


def test_partial_results_of_single_values_have_no_init() -> None:
    """Each is stored as it is; what combines them starts at the neutral value."""
    text = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    after = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    R = T.alloc_buffer((4, 8))
    for i, k in T.grid(4, 8):
        with T.block("B_rf"):
            vk, vi = T.axis.remap("SS", [k, i])
            R[vi, vk] = A[vi, vk]
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + R[vi, vk]
"""
    sch = schedule(text)
    sch.rfactor(sch.get_loops("B")[1], 1)
    same_text(sch, after)
    check_same(sch, text)
    check_trace(sch, text)
    assert str(sch.verify()) == "ok"


PARTS_OF_OPEN_SIZE = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (4, n, 8))
    C = T.match_buffer(c, (4, n))
    P = T.alloc_buffer((8, 4, n))
    for f in range(n * 4):
        for k in range(8):
            with T.block("P"):
                vk = T.axis.spatial(8, k)
                vi = T.axis.spatial(4, f // n)
                vj = T.axis.spatial(n, f % n)
                P[vk, vi, vj] = A[vi, vj, vk] * 2.0
    for f in range(n * 4):
        for k in range(8):
            with T.block("C"):
                vk = T.axis.reduce(8, k)
                vi = T.axis.spatial(4, f // n)
                vj = T.axis.spatial(n, f % n)
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + P[vk, vi, vj]
"""

PARTS_MOVED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (4, n, 8))
    C = T.match_buffer(c, (4, n))
    P = T.alloc_buffer((8, 4, n))
    for f in range(n * 4):
        for k in range(8):
            with T.block("P"):
                vk = T.axis.spatial(8, k)
                vi = T.axis.spatial(4, f // n)
                vj = T.axis.spatial(n, f % n)
                P[vk, vi, vj] = A[vi, vj, vk] * 2.0
        for ax0, ax1, ax2 in T.grid(8, 1, 1):
            with T.block("C"):
                vk = T.axis.reduce(8, ax0)
                vi = T.axis.spatial(4, f // n + ax1)
                vj = T.axis.spatial(n, f % n + ax2)
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + P[vk, vi, vj]
"""


def test_under_a_loop_fused_over_an_open_size() -> None:
    sch = schedule(PARTS_OF_OPEN_SIZE)
    sch.reverse_compute_at(sch.get_block("C"), sch.get_loops("P")[0], preserve_unit_loops=True)
    same_text(sch, PARTS_MOVED)
    kernel = tileloom.build(sch.mod)["main"]
    for n in (1, 3, 16):
        a = np.arange(4 * n * 8, dtype="float32").reshape(4, n, 8)
        c = np.zeros((4, n), "float32")
        kernel(a, c)
        np.testing.assert_array_equal(c, a.sum(2) * 2)


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ("f // n", "f % n // n"),
        ("f // n", "(f + n) // n"),
        ("f // (n + 1)", "f // n"),
    ],
)
def test_other_indices_by_an_open_size_are_not_known_to_be_made(made: str, taken: str) -> None:
    text = PARTS_OF_OPEN_SIZE.replace("T.axis.spatial(4, f // n)", f"T.axis.spatial(4, {made})", 1)
    head, tail = text.rsplit("T.axis.spatial(4, f // n)", 1)
    sch = schedule(f"{head}T.axis.spatial(4, {taken}){tail}")
    loop = sch.get_loops("P")[0]
    refused(sch, "may not hold all it reads", "reverse_compute_at", sch.get_block("C"), loop)


def test_fewer_parts_of_open_size_are_not_all() -> None:
    sch = schedule(PARTS_OF_OPEN_SIZE.replace("range(n * 4)", "range(n * 2)", 1))
    loop = sch.get_loops("P")[0]
    refused(sch, "may not hold all it reads", "reverse_compute_at", sch.get_block("C"), loop)
