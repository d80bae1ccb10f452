"""rfactor: before and after, other combiners, the trace, the refusals."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import MATMUL, check_same, check_trace, refused, same_text, schedule
from tileloom import compute as te

ROW = """
@T.prim_func
def main(A: T.Buffer((12, 40), "float32"), B: T.Buffer((12,), "float32")):
    for i, k in T.grid(12, 40):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


def test_outer_part() -> None:
    sch = schedule(ROW)
    _, k = sch.get_loops("B")
    ko, _ = sch.split(k, [5, None])
    block = sch.rfactor(ko, 0)
    assert sch.get(block).name_hint == "B_rf"
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((12, 40), "float32"), B: T.Buffer((12,), "float32")):
    B_rf = T.alloc_buffer((5, 12))
    for i, k_0, k_1 in T.grid(12, 5, 8):
        with T.block("B_rf"):
            vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
            T.reads(A[vi, vk_0 * 8 + vk_1])
            T.writes(B_rf[vk_0, vi])
            with T.init():
                B_rf[vk_0, vi] = T.float32(0)
            B_rf[vk_0, vi] = B_rf[vk_0, vi] + A[vi, vk_0 * 8 + vk_1]
    for i, k_0 in T.grid(12, 5):
        with T.block("B"):
            vk_0, vi = T.axis.remap("RS", [k_0, i])
            T.reads(B_rf[vk_0, vi])
            T.writes(B[vi])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + B_rf[vk_0, vi]
""",
    )
    check_trace(sch, ROW)
    check_same(sch, ROW)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("inner", [True, False])
def test_either_part_and_place(axis: int, inner: bool) -> None:
    sch = schedule(ROW)
    _, k = sch.get_loops("B")
    parts = sch.split(k, [None, 7])  # leaves a condition
    sch.rfactor(parts[inner], axis)
    check_trace(sch, ROW)
    check_same(sch, ROW)


def test_loops_stay_usable() -> None:
    sch = schedule(MATMUL)
    i, _, k = sch.get_loops("C")
    ko, _ = sch.split(k, [4, None])
    sch.rfactor(ko, 2)
    sch.parallel(i)
    sch.unroll(ko)
    assert len(sch.get_loops("C")) == 3
    assert len(sch.get_loops("C_rf")) == 4
    check_same(sch, MATMUL)


@pytest.mark.parametrize("reducer", [te.max, te.min, te.prod, te.argmax, te.argmin])
def test_other_combiners(reducer: Any) -> None:
    A = te.placeholder((6, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    if reducer in (te.argmax, te.argmin):
        B = te.compute((6,), lambda i: reducer((k.var, A[i, k]), axis=k), name="B")
        func = te.create_prim_func([A, *B])
    else:
        B = te.compute((6,), lambda i: reducer(A[i, k], axis=k), name="B")
        func = te.create_prim_func([A, B])
    sch = schedule(func)
    loop = sch.get_loops(sch.get_block("B"))[-1]
    outer, _ = sch.split(loop, [4, None])
    sch.rfactor(outer, 0)
    check_trace(sch, func)
    check_same(sch, func)


ARGMAX = """
@T.prim_func
def main(
    A: T.Buffer((6, 20), "int32"), V: T.Buffer((6, 20), "float32"),
    I: T.Buffer((6,), "int32"), M: T.Buffer((6,), "float32"),
):
    for i, k in T.grid(6, 20):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk], V[vi, vk])
            T.writes(I[vi], M[vi])
            with T.init():
                I[vi] = -1
                M[vi] = T.min_value("float32")
            v_i: T.int32 = T.Select(M[vi] >= V[vi, vk], I[vi], A[vi, vk])
            v_m: T.float32 = T.Select(M[vi] >= V[vi, vk], M[vi], V[vi, vk])
            I[vi] = v_i
            M[vi] = v_m
"""


def test_argmax() -> None:
    sch = schedule(ARGMAX)
    _, k = sch.get_loops("M")
    outer, _ = sch.split(k, [4, None])
    sch.rfactor(outer, 1)
    check_trace(sch, ARGMAX)
    check_same(sch, ARGMAX)


def test_refusals() -> None:
    sch = schedule(ROW)
    i, k = sch.get_loops("B")
    refused(sch, "places results", "rfactor", i, 0)
    refused(sch, "out of range", "rfactor", k, 2)
    refused(sch, "out of range", "rfactor", k, -3)
    sch.unroll(k)
    refused(sch, "serial", "rfactor", k, 0)


SIBLING = """
@T.prim_func
def main(A: T.Buffer((12, 40), "float32"), B: T.Buffer((12,), "float32")):
    C = T.alloc_buffer((12,), "float32")
    for i in range(12):
        for k in range(40):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = C[vi] * T.float32(2)
"""


def test_blocks_after_it_stay() -> None:
    sch = schedule(SIBLING)
    ko, _ = sch.split(sch.get_loops("C")[1], [5, None])
    sch.rfactor(ko, 0)
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    assert names == ["C_rf", "C", "B"]
    assert sch.get(sch.get_loops("B")[0]) is sch.get(sch.get_loops("C")[0])
    check_same(sch, SIBLING)
    assert sch.verify("main").ok


def test_refuses_blocks_before_it() -> None:
    sch = schedule(SIBLING)
    sch.cache_read("C", 0, "local")
    sch.compute_at("A_local", sch.get_loops("C")[0])
    refused(sch, "not the first block", "rfactor", sch.get_loops("C")[1], 0)


@pytest.mark.parametrize("rows", [None, 5])
@pytest.mark.parametrize("factors", [[None, 2], [2, 2, 2], [1, 2, 5], [2, 5]])
def test_parts_without_iterations(rows: int | None, factors: list[int]) -> None:
    """Loops that run too far, along the rows and along the reduction, some not at all."""
    func = ROW.replace("40", "5")
    for which in range(len(factors)):
        sch = schedule(func)
        i, k = sch.get_loops("B")
        if rows is not None:
            sch.split(i, [None, rows])
        sch.rfactor(sch.split(k, factors)[which], 0)
        check_same(sch, func)
        report = sch.verify("main")
        assert report.ok, report


def test_conditions_that_begin_to_hold_later() -> None:
    func = ROW.replace(
        'vi, vk = T.axis.remap("SR", [i, k])',
        'vi, vk = T.axis.remap("SR", [i, k])\n            T.where(3 <= k)',
    )
    sch = schedule(func)
    ko, _ = sch.split(sch.get_loops("B")[1], [5, None])
    refused(sch, "later iteration", "rfactor", ko, 0)
