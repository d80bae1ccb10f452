"""merge, unsafe_set_dtype, unsafe_hide_buffer_access."""

from __future__ import annotations

import numpy as np

from schedule.common import (
    ELEMENTWISE,
    MATMUL,
    NORMALISE,
    check_same,
    check_trace,
    random_inputs,
    refused,
    same_text,
    schedule,
)
from tileloom.tir import run

TWO = """
@T.prim_func
def main(
    A: T.Buffer((13, 8), "float32"), B: T.Buffer((13, 8), "float32"),
    C: T.Buffer((13, 8), "float32"),
):
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1.0
"""


def test_merge_all_loops() -> None:
    sch = schedule(TWO)
    sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((13, 8), "float32"), B: T.Buffer((13, 8), "float32"),
    C: T.Buffer((13, 8), "float32"),
):
    for i_m, j_m in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i_m, j_m])
            B[vi, vj] = A[vi, vj] * 2.0
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i_m, j_m])
            C[vi, vj] = A[vi, vj] + 1.0
""",
    )
    check_trace(sch, TWO)
    check_same(sch, TWO)


def test_merge_outer_loops_of_producer_and_consumer() -> None:
    sch = schedule(ELEMENTWISE)
    merged = sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    assert sch.get(merged).extent == 13
    assert len(sch.get_loops("C")) == 2
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_merge_refusals() -> None:
    sch = schedule(TWO)
    i, j = sch.get_loops("B")
    refused(sch, "at least two", "merge", i)
    refused(sch, "in one nest|common|holds more", "merge", j, j)
    sch.split(sch.get_loops("C")[0], [None, 13])
    refused(sch, "extents", "merge", i, sch.get_loops("C")[0])
    sch.parallel(i)
    refused(sch, "parallel|annotation", "merge", i, sch.get_loops("C")[1])


def test_merge_that_would_read_too_early() -> None:
    text = NORMALISE.replace("T.grid(12, 10)", "T.grid(12, 12)").replace("(12, 10)", "(12, 12)")
    sch = schedule(text)
    refused(sch, "interleaving", "merge", sch.get_loops("S")[1], sch.get_loops("C")[1])


def test_set_dtype_converts_both_ways() -> None:
    sch = schedule(ELEMENTWISE)
    sch.unsafe_set_dtype("B", 0, "float16")
    check_trace(sch, ELEMENTWISE)
    a, out = random_inputs(sch.mod["main"])
    run(sch.mod["main"], a, out)
    wanted = (a * np.float32(2)).astype("float16").astype("float32") + np.float32(1)
    np.testing.assert_array_equal(out, wanted)
    refused(sch, "parameter", "unsafe_set_dtype", sch.get_block("C"), 0, "float16")


def test_hide_access() -> None:
    sch = schedule(MATMUL)
    sch.unsafe_hide_buffer_access("C", "read", [1])
    assert [r.buffer.name for r in sch.get(sch.get_block("C")).reads] == ["A"]
    check_trace(sch, MATMUL)
    refused(sch, "there is no", "unsafe_hide_buffer_access", sch.get_block("C"), "write", [1])
    refused(sch, "kind of access", "unsafe_hide_buffer_access", sch.get_block("C"), "both", [0])


OVER = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[FIRST] = A[v] * 2.0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            B[SECOND] = A[v] + 1.0
"""


def test_merge_of_nests_that_write_the_same() -> None:
    for first, second in (("v", "7 - v"), ("v // 2", "v // 2"), ("v", "v // 2")):
        sch = schedule(OVER.replace("FIRST", first).replace("SECOND", second))
        loops = [sch.get_loops(name)[0] for name in "BC"]
        refused(sch, "maybe in another iteration", "merge", *loops)
    text = OVER.replace("FIRST", "v").replace("SECOND", "v")
    sch = schedule(text)
    sch.merge(*(sch.get_loops(name)[0] for name in "BC"))
    check_same(sch, text)


def test_merge_of_a_reduction_with_its_start() -> None:
    sch = schedule(MATMUL)
    i, j, _ = sch.get_loops("C")
    init = sch.decompose_reduction("C", i)
    sch.merge(sch.get_loops(init)[1], j)
    check_same(sch, MATMUL)
    sch = schedule(MATMUL)
    fused = sch.fuse(*sch.get_loops("C"))
    init = sch.decompose_reduction("C", fused)
    refused(sch, "maybe in another iteration", "merge", sch.get_loops(init)[0], fused)
