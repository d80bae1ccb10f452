"""compute_at, reverse_compute_at: consumers under the loops of a sum."""

from __future__ import annotations

import pytest

from schedule.common import (
    check_compiled,
    check_same,
    check_trace,
    refused,
    same_text,
    schedule,
)
from schedule.moving import GEMM, ROWSUMS, extents


def test_a_consumer_may_run_after_each_step_of_a_sum() -> None:
    """The last time it runs, the sum is finished; TVM accepts this too."""
    sch = schedule(GEMM)
    sch.reverse_compute_at("D", sch.get_loops("C")[2])
    same_text(
        sch,
        """
@T.prim_func
def main(
    A: T.Buffer((13, 7), "float32"),
    B: T.Buffer((7, 10), "float32"),
    D: T.Buffer((13, 10), "float32"),
):
    C = T.alloc_buffer((13, 10))
    for i, j, k in T.grid(13, 10, 7):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * 2.0 + 1.0
""",
    )
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


@pytest.mark.parametrize("order", ["kij", "ikj", "ijk"])
@pytest.mark.parametrize("factor", [None, 2, 3])
def test_consumers_under_reduction_loops(order: str, factor: int | None) -> None:
    sch = schedule(GEMM)
    loops = dict(zip("ijk", sch.get_loops("C")))
    sch.reorder(*(loops[name] for name in order))
    if factor is not None:
        sch.split(loops["k"], [None, factor])
    for loop in reversed(sch.get_loops("C")):
        again = sch.copy()
        again.reverse_compute_at("D", loop)
        check_same(again, GEMM)
        check_compiled(again, GEMM)


def test_two_consumers_under_a_reduction_loop() -> None:
    """What follows what follows an unfinished sum is made good as well."""
    text = GEMM.replace(
        'D: T.Buffer((13, 10), "float32")', 'E: T.Buffer((13, 10), "float32")'
    ).replace("    C = T.alloc", "    D = T.alloc_buffer((13, 10))\n    C = T.alloc")
    text += """    for i, j in T.grid(13, 10):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = D[vi, vj] - C[vi, vj]
"""
    sch = schedule(text)
    k = sch.get_loops("C")[2]
    sch.reverse_compute_at("D", k)
    sch.reverse_compute_at("E", k)
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(k)] == ["C", "D", "E"]
    check_same(sch, text)
    check_compiled(sch, text)


UNFINISHED = """
@T.prim_func
def main(
    A: T.Buffer((6, 8), "int32"), T_1: T.Buffer((300,), "int32"), D: T.Buffer((6,), "int32")
):
    S = T.alloc_buffer((6,), "int32")
    for k, i in T.grid(8, 6):
        with T.block("S"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                S[vi] = 0
            S[vi] = S[vi] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = VALUE
"""


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ("T_1[S[vi]]", "uses 'S' as an index or a divisor"),
        ("T_1[0] // S[vi]", "uses 'S' as an index or a divisor"),
        ("T_1[0] % S[vi]", "uses 'S' as an index or a divisor"),
        ('T.call_extern("int32", "f", S[vi])', "calls 'tir.call_extern'"),
    ],
)
def test_what_may_not_run_on_unfinished_sums(value: str, match: str) -> None:
    text = UNFINISHED.replace("VALUE", value)
    sch = schedule(text)
    refused(sch, match, "reverse_compute_at", sch.get_block("D"), sch.get_loops("S")[0])


def test_sums_are_not_made_of_unfinished_sums() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), D: T.Buffer((1,), "float32")):
    S = T.alloc_buffer((6,))
    for i, k in T.grid(6, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.reduce(6, i)
            with T.init():
                D[0] = T.float32(0)
            D[0] = D[0] + S[vi]
"""
    )
    refused(
        sch, "add up unfinished", "reverse_compute_at", sch.get_block("D"), sch.get_loops("S")[1]
    )
    sch.reverse_compute_at("D", sch.get_loops("S")[0])


def test_unfinished_sums_of_threads_are_not_taken() -> None:
    sch = schedule(GEMM)
    k = sch.get_loops("C")[2]
    sch.bind(k, "threadIdx.x")
    refused(sch, "take unfinished results", "reverse_compute_at", sch.get_block("D"), k)


REGROUPED = """
@T.prim_func
def main(A: T.Buffer((2, 6), "int32"), X: T.Buffer((300,), "int32"), C: T.Buffer((12,), "int32")):
    B = T.alloc_buffer((2, 6), "int32")
    for i, j in T.grid(2, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for k in range(12):
        with T.block("C"):
            v = T.axis.spatial(12, k)
            C[v] = VALUE
"""


def test_a_consumer_takes_what_a_condition_leaves() -> None:
    """Tiles of 2 by 4 of rows of 6: nothing beyond the end of a row is taken."""
    text = REGROUPED.replace("VALUE", "B[v // 6, v % 6] + 1")
    for kind in ("parallel", "vectorize", "unroll"):
        sch = schedule(text)
        i, j = sch.get_loops("B")
        sch.split(j, [None, 4])
        getattr(sch, kind)(i)
        sch.reverse_compute_at("C", i)
        assert extents(sch, "C") == [2, 6]
        check_same(sch, text)
    sch = schedule(text)
    i, j = sch.get_loops("B")
    sch.reorder(j, i)
    refused(sch, "in another grouping", "reverse_compute_at", sch.get_block("C"), j)
    text = REGROUPED.replace("VALUE", "X[B[v // 6, v % 6]] + 1")
    sch = schedule(text)
    i, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    block = sch.get_block("C")
    refused(sch, "uses 'B' as an index", "reverse_compute_at", block, i)


@pytest.mark.parametrize("factor", [4, 8, 10, 20])
def test_a_reduction_begins_with_its_start(factor: int) -> None:
    """Loops that place rows and sum them up count up, or what starts a row does not come first."""
    text = ROWSUMS.replace("(6, 8)", "(5, 8)").replace("(6,)", "(5,)")
    text = text.replace("T.grid(8, 6)", "T.grid(8, 5)").replace("T.grid(6, 8)", "T.grid(5, 8)")
    sch = schedule(text)
    k, i = sch.get_loops("B")
    sch.reorder(i, k)
    outer, inner = sch.split(sch.fuse(i, k), [None, factor])
    turned = sch.copy()
    sch.reverse_compute_at("S", inner)
    check_same(sch, text)
    turned.reorder(inner, outer)
    block = turned.get_block("S")
    if 8 % factor == 0:
        turned.reverse_compute_at(block, outer)  # `inner` only reduces
        check_same(turned, text)
    else:
        refused(turned, "may not come first", "reverse_compute_at", block, outer)
