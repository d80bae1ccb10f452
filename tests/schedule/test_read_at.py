"""read_at, write_at."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import ELEMENTWISE, check_same, check_trace, refused, same_text, schedule
from schedule.moving import BLUR, GATHER, GEMM


def tiled(factor: Any) -> Any:
    sch = schedule(GEMM)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(i, [None, factor])
    sch.reorder(outer, k, j, inner)
    return sch, outer, k


def test_read_at() -> None:
    sch = schedule(ELEMENTWISE)
    outer, _ = sch.split(sch.get_loops("C")[1], [2, 4])
    copy = sch.read_at(outer, "C", 0, "shared")
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    B_shared = T.alloc_buffer((13, 8), scope="shared")
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j_0 in T.grid(13, 2):
        with T.block("B_shared"):
            v0 = T.axis.spatial(13, i)
            v1 = T.axis.spatial(2, j_0)
            T.reads(B[v0, v1 * 4:v1 * 4 + 4])
            T.writes(B_shared[v0, v1 * 4:v1 * 4 + 4])
            T.block_attr({"auto_copy": True})
            for ax0, ax1 in T.grid(1, 4):
                B_shared[v0 + ax0, v1 * 4 + ax1] = B[v0 + ax0, v1 * 4 + ax1]
        for j_1 in range(4):
            with T.block("C"):
                vi = T.axis.spatial(13, i)
                vj = T.axis.spatial(8, j_0 * 4 + j_1)
                C[vi, vj] = B_shared[vi, vj] + 1.0
""",
    )
    assert sch.get(copy).annotations == {"auto_copy": True}
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


@pytest.mark.parametrize("factor", [1, 4, 13])
def test_both_in_a_product(factor: int) -> None:
    sch, outer, k = tiled(factor)
    sch.read_at(outer, "C", 0, "shared")
    sch.read_at(k, "C", 1, "shared")
    sch.write_at(outer, "C", 0, "local")
    check_same(sch, GEMM)
    check_trace(sch, GEMM)


def test_a_cache_lasts_through_a_reduction() -> None:
    """Inside of the reduction loop, the copy back happens at every step."""
    sch, _outer, k = tiled(4)
    sch.write_at(k, "C", 0, "local")
    check_same(sch, GEMM)


def test_halos() -> None:
    sch = schedule(BLUR)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.read_at(outer, "C", 0, "shared")
    check_same(sch, BLUR)


def test_updates_need_what_was_there() -> None:
    sch, outer, _k = tiled(4)
    sch.decompose_reduction("C", outer)
    refused(
        sch,
        "before loop 'i_0' has written",
        "write_at",
        outer,
        sch.get_block("C_update"),
        0,
        "local",
    )


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    loop = sch.get_loops("B")[0]
    refused(sch, "is not in loop 'i'", "read_at", loop, sch.get_block("C"), 0, "shared")
    sch.compute_at("B", sch.get_loops("C")[0])
    loop = sch.get_loops("C")[0]
    block = sch.get_block("B")
    refused(sch, "after the last write", "write_at", loop, block, 0, "local")
    text = ELEMENTWISE.replace(
        'with T.block("C"):\n            vi, vj = T.axis.remap("SS", [i, j])',
        'with T.block("C"):\n            vi, vj = T.axis.remap("SS", [i, j])\n'
        "            T.where(j < i)",
    )
    sch = schedule(text)
    loop = sch.get_loops("C")[0]
    refused(sch, "may leave elements", "write_at", loop, sch.get_block("C"), 0, "local")


def test_what_data_chooses_is_not_copied() -> None:
    sch = schedule(GATHER)
    loop = sch.get_loops("C")[0]
    block = sch.get_block("C")
    refused(sch, "depends on data, the elements of 'I'", "read_at", loop, block, 0, "shared")


GAPS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, t in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i + t)
            T.where(t < 1)
            B[v] = A[v] * 2.0
    for i, t in T.grid(8, 4):
        with T.block("C"):
            v = T.axis.spatial(8, i + t)
            T.where(t < 1)
            C[v] = B[v] + 1.0
"""


def test_write_at_copies_no_gaps() -> None:
    """The elements beside the one of an iteration are not there to be copied."""
    sch = schedule(GAPS)
    block = sch.get_block("B")
    for loop in sch.get_loops("B"):
        refused(sch, "may leave elements of 'B' unwritten", "write_at", loop, block, 0, "local")


PARTS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("O"):
            vo = T.axis.spatial(2, i)
            T.reads(A[vo * 4:vo * 4 + 4])
            T.writes(B[vo * 4:vo * 4 + 4])
            for t in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, t)
                    T.where(t < LIMIT)
                    B[vo * 4 + v] = A[vo * 4 + v] * 2.0
"""


@pytest.mark.parametrize("limit", [3, 4])
def test_write_at_of_what_parts_write(limit: int) -> None:
    """A block that holds others declares more than they may write."""
    text = PARTS.replace("LIMIT", str(limit))
    sch = schedule(text)
    block, [loop] = sch.get_block("O"), sch.get_loops("O")
    if limit < 4:
        refused(sch, "may leave elements of 'B' unwritten", "write_at", loop, block, 0, "local")
    else:
        sch.write_at(loop, block, 0, "local")
    check_same(sch, text)


def test_read_at_of_gaps_that_are_written() -> None:
    sch = schedule(GAPS)
    sch.read_at(sch.get_loops("C")[0], "C", 0, "local")
    check_same(sch, GAPS)
    assert sch.verify().state == "ok"


def test_read_at_copies_no_gaps() -> None:
    head = "    for i, t in T.grid(8, 4):"
    text = GAPS.replace(head, "    for i in range(8):\n      for t in range(4):", 1)
    sch = schedule(text.replace(head, "      for t in range(4):"))
    block = sch.get_block("C")
    for loop in sch.get_loops("C"):
        refused(sch, "may read only some of the elem", "read_at", loop, block, 0, "local")
