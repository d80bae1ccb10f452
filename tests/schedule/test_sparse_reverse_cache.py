"""reverse_cache_read and reverse_cache_write: caches that iteration variables index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from schedule.common import MATMUL, check_same, check_trace, parse, refused, same_text, schedule
from tileloom.schedule import Schedule

#: Rows of four elements each, which go to rows that are given; START is an init or nothing.
ELL = """
@T.prim_func
def main(A: T.Buffer((10, 4), "float32"), rows: T.Buffer((10,), "int32"),
         cols: T.Buffer((10, 4), "int32"), B: T.Buffer((9, 2, 3), "float32"),
         C: T.Buffer((12, 2, 3), "float32")):
    for i, j, k, l in T.grid(10, 4, 2, 3):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SRSS", [i, j, k, l])
            START
            C[rows[vi], vk, vl] = C[rows[vi], vk, vl] + A[vi, vj] * B[cols[vi, vj], vk, vl]
"""
SUMS = ELL.replace("START", "with T.init():\n                C[rows[vi], vk, vl] = T.float32(0)")
ADDITIONS = ELL.replace("            START\n", "")


def inputs(several: bool) -> tuple[list[Any], Any]:
    """Arguments, and what is to come of a C of ones; whether several rows go to one place."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (10, 4)).astype("f"), rng.uniform(-1, 1, (9, 2, 3)).astype("f")
    rows = rng.integers(0, 4, 10) if several else rng.permutation(12)[:10]
    cols = rng.integers(0, 9, (10, 4))
    wanted = np.ones((12, 2, 3))
    np.add.at(wanted, rows, np.einsum("ij,ijkl->ikl", a, b[cols]))
    return [a, rows.astype("i"), cols.astype("i"), b, np.ones((12, 2, 3), "f")], wanted


def check_added(sch: Schedule, several: bool = True, **where: Any) -> None:
    """Machine code adds to what is there."""
    arguments, wanted = inputs(several)
    tileloom.build(sch.mod["main"], **where)(*arguments)
    np.testing.assert_allclose(arguments[-1], wanted, 1e-4, 1e-5)


def test_results_are_copied_to_their_places() -> None:
    func = """
@T.prim_func
def main(A: T.Buffer((128, 16), "float32"), I: T.Buffer((128,), "int32"),
         B: T.Buffer((1024,), "float32")):
    for i, j in T.grid(128, 16):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[I[vi]] = T.float32(0)
            B[I[vi]] = B[I[vi]] + A[vi, vj]
"""
    after = """
@T.prim_func
def main(A: T.Buffer((128, 16), "float32"), I: T.Buffer((128,), "int32"),
         B: T.Buffer((1024,), "float32")):
    B_shared = T.alloc_buffer((128,), scope="shared")
    for i, j in T.grid(128, 16):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.reads(I[vi], A[vi, vj])
            T.writes(B_shared[vi])
            with T.init():
                B_shared[vi] = T.float32(0)
            B_shared[vi] = B_shared[vi] + A[vi, vj]
    for i in range(128):
        with T.block("B_shared"):
            vi = T.axis.spatial(128, i)
            B[I[vi]] = B_shared[vi]
"""
    sch = schedule(func)
    sch.reverse_cache_write("sum", 0, "shared")
    same_text(sch, after)
    check_trace(sch, func)


def test_sums_are_added_to_what_is_there() -> None:
    sch = schedule(ADDITIONS)
    back = sch.reverse_cache_write("C", "C", "local")
    body = str(sch.get(back).body)
    assert body == "C[rows[vi], vk, vl] = C[rows[vi], vk, vl] + C_local[vi, vk, vl]"
    assert sch.get(sch.get_block("C")).init is not None
    check_trace(sch, ADDITIONS)
    check_added(sch)


@pytest.mark.parametrize("text", [SUMS, ADDITIONS])
@pytest.mark.parametrize("before", [True, False])
def test_atomic_additions(text: str, before: bool) -> None:
    """The note on the block goes over to the one that writes back, or is made there."""
    sch = schedule(text)
    if before:
        sch.annotate("C", "atomic", True)
    back = sch.reverse_cache_write("C", 0, "local")
    if not before:
        sch.annotate(back, "atomic", True)
    block, copy = sch.get(sch.get_block("C")), sch.get(back)
    assert "atomic" not in block.annotations and copy.annotations["atomic"]
    assert str(copy.body).startswith("T.atomic_add(T.address_of(C[rows[vi], vk, vl]), C_local")
    check_trace(sch, text)
    check_added(sch)
    assert sch.verify().state == "unknown"


@pytest.mark.parametrize("text", [SUMS, ADDITIONS])
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("parts", [2, 3])
def test_rows_at_the_same_time(text: str, gpu: bool, parts: int) -> None:
    """The steps of SparseTIR for parts of a matrix that may share rows."""
    sch = schedule(text)
    sch.annotate("C", "atomic", True)
    i, j, k, x = sch.get_loops("C")
    sch.reorder(k, x, j)
    back = sch.reverse_cache_write("C", 0, "local")
    sch.reverse_compute_at(back, x, True)
    io, ii = sch.split(i, [None, parts])
    if gpu:
        for loop, tag in ((io, "blockIdx.x"), (ii, "threadIdx.y"), (k, "blockIdx.y")):
            sch.bind(loop, tag)
        sch.bind(x, "threadIdx.x")
    else:
        sch.parallel(io)
    sch.unroll(j)
    start = sch.decompose_reduction("C", x)
    if gpu:
        sch.bind(sch.get_loops(start)[-1], "threadIdx.x")
    check_trace(sch, text)
    where: dict[str, Any] = {"target": "cuda", "device": "emulator"} if gpu else {}
    check_added(sch, **where)


def test_a_sum_of_many_threads_is_added_once() -> None:
    """What stands outside of a thread loop runs once, also where threads share the kernel."""
    sch = schedule(ADDITIONS)
    sch.annotate("C", "atomic", True)
    back = sch.reverse_cache_write("C", 0, "local")
    i, j, k, x = sch.get_loops("C")
    sch.reorder(i, k, x, j)
    sch.reverse_compute_at(back, x)
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    check_added(sch, target="cuda", device="emulator")


def test_gathered_rows() -> None:
    sch = schedule(ADDITIONS)
    copy = sch.reverse_cache_read("C", "B", "local")
    assert "B_local[vi, vj, vk, vl] = B[cols[vi, vj], vk, vl]" in str(sch.mod)
    sch.compute_at(copy, sch.get_loops("C")[1])
    check_trace(sch, ADDITIONS)
    check_added(sch)


@pytest.mark.parametrize(
    ("order", "place"), [(None, "[vi, vk]"), ([2, 0], "[vk, vi]"), ([0, 2], "[vi, vk]")]
)
def test_orders_of_variables(order: list[int] | None, place: str) -> None:
    sch = schedule(MATMUL)
    copy = sch.reverse_cache_read("C", 0, "shared", dim_order=order)
    assert str(sch.get(copy).body) == f"A_shared{place} = A[vi, vk]"
    check_trace(sch, MATMUL)


def test_the_order_of_what_is_written_back() -> None:
    sch = schedule(MATMUL)
    back = sch.reverse_cache_write("C", 0, "local", dim_order=[1, 0])
    assert str(sch.get(back).body) == "C[vi, vj] = C_local[vj, vi]"
    check_same(sch, MATMUL)


def test_annotations_go_with_the_copy() -> None:
    sch = schedule(MATMUL)
    sch.annotate("C", "preprocess", True)
    assert sch.get(sch.reverse_cache_read("C", 0, "shared")).annotations == {"preprocess": True}
    assert sch.get(sch.reverse_cache_write("C", 0, "local")).annotations == {"preprocess": True}
    assert sch.get(sch.get_block("C")).annotations == {"preprocess": True}


def test_a_place_of_no_variables() -> None:
    func = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
    for i in range(8):
        with T.block("sum"):
            vi = T.axis.reduce(8, i)
            B[0] = B[0] + A[vi]
"""
    sch = schedule(func)
    back = sch.reverse_cache_write("sum", 0, "local")
    assert str(sch.get(back).body) == "B[0] = B[0] + B_local[0]"
    check_same(sch, func)


#: Two blocks that add to one buffer, the second of which is moved; MIDDLE stands between them.
TWO = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), rows: T.Buffer((8,), "int32"),
         C: T.Buffer((9,), "float32"), D: T.Buffer((9,), "float32")):
    for i in range(9):
        with T.block("start"):
            vi = T.axis.spatial(9, i)
            C[vi] = T.float32(1)
    for i, j in T.grid(8, 4):
        with T.block("first"):
            vi, vj = T.axis.remap("SR", [i, j])
            C[rows[vi]] = C[rows[vi]] + A[vi, vj]
    for i, j in T.grid(8, 4):
        with T.block("second"):
            vi, vj = T.axis.remap("SR", [i, j])
            C[rows[vi]] = C[rows[vi]] + A[vi, vj] * 2.0
    for i in range(9):
        with T.block("end"):
            vi = T.axis.spatial(9, i)
            D[vi] = C[vi]
"""


def test_several_blocks_may_add_to_one_buffer() -> None:
    sch = schedule(TWO)
    for name in ("first", "second"):
        if name == "second":
            sch.annotate(name, "atomic", True)
        back = sch.reverse_cache_write(name, 0, "local")
        sch.reverse_compute_at(back, sch.get_loops(name)[0])
    sch.parallel(sch.get_loops("second")[0])
    error = refused(sch, "may add to one element of 'C'", "parallel", sch.get_loops("first")[0])
    assert "neither complete" in str(error)
    check_trace(sch, TWO)
    rng = np.random.default_rng(1)
    a, rows = rng.uniform(-1, 1, (8, 4)).astype("f"), rng.integers(0, 9, 8).astype("i")
    c, d = np.zeros(9, "f"), np.zeros(9, "f")
    tileloom.build(sch.mod["main"])(a, rows, c, d)
    wanted = np.ones(9)
    np.add.at(wanted, rows, a.sum(1) * 3)
    np.testing.assert_allclose(d, wanted, 1e-5, 1e-5)


def test_moving_what_adds() -> None:
    sch = schedule(TWO)
    back = sch.reverse_cache_write("first", 0, "local")
    i, j = sch.get_loops("first")
    refused(sch, "add to some elements more than once", "reverse_compute_at", back, j)
    far = sch.get_loops("end")[0]
    refused(sch, "cannot be moved before block 'end'", "reverse_compute_at", back, far)
    sch.parallel(i)
    refused(sch, "its iterations may add to the same elements", "reverse_compute_at", back, i)
    sch.annotate(back, "atomic", True)
    sch.reverse_compute_at(back, i)


def test_refusals() -> None:
    sch = schedule(ADDITIONS)
    block = sch.get_block("C")
    refused(sch, "are no numbers of iteration variables", "reverse_cache_read", block, 1, "local",
            [0, 0])  # fmt: skip
    refused(sch, "are no numbers of iteration variables", "reverse_cache_write", block, 0, "local",
            [0, 7])  # fmt: skip
    refused(sch, "in the indices into the cache, but not in those into the buffer",
            "reverse_cache_write", block, 0, "local", [0, 1, 2, 3])  # fmt: skip
    refused(sch, "in the indices into the buffer, but not in those into the cache",
            "reverse_cache_write", block, 0, "local", [0, 2])  # fmt: skip
    refused(sch, "there is no index 7", "reverse_cache_read", block, 7, "local")
    rows = parse(ADDITIONS.replace("vi, vj] * B[cols[vi, vj]", "vi, 0] * C[cols[vi, vj]"))
    sch = schedule(rows)
    refused(sch, "both reads and writes 'C'", "reverse_cache_write", sch.get_block("C"), 0, "local")


def test_sums_that_data_may_leave_unbegun() -> None:
    """In plain functions nothing would start the sum of a row without elements."""
    func = """
@T.prim_func
def main(A: T.Buffer((20,), "float32"), P: T.Buffer((5,), "int32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            for j in range(P[vi + 1] - P[vi]):
                with T.block("sum"):
                    vj = T.axis.reduce(20, j)
                    C[vi] = C[vi] + A[P[vi] + vj]
"""
    sch = schedule(func)
    block = sch.get_block("sum")
    refused(sch, "loop 'j' may have no iteration", "reverse_cache_write", block, 0, "local")


def test_others_in_the_same_loops() -> None:
    func = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((9,), "float32"),
         D: T.Buffer((8,), "float32")):
    for i in range(8):
        for j in range(4):
            with T.block("add"):
                vi, vj = T.axis.remap("SR", [i, j])
                C[vi] = C[vi] + A[vi, vj]
        with T.block("use"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi]
"""
    sch = schedule(func)
    block = sch.get_block("add")
    refused(sch, "block 'use' uses 'C' in the loops of block 'add'", "reverse_cache_write", block,
            0, "local")  # fmt: skip
