"""compute_inline, reverse_compute_inline."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import ELEMENTWISE, check_same, check_trace, refused, same_text, schedule
from schedule.moving import BLUR, CONV, GATHER, GEMM, PAIRS, TILES, TRANSPOSED
from tileloom import ScheduleError
from tileloom.schedule.instruction import can

INLINED = """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2.0 + 1.0
"""


@pytest.mark.parametrize("step", [("compute_inline", "B"), ("reverse_compute_inline", "C")])
def test_both_directions(step: tuple[str, ...]) -> None:
    sch = schedule(ELEMENTWISE)
    getattr(sch, step[0])(step[1])
    same_text(sch, INLINED)
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


@pytest.mark.parametrize(("text", "block", "consumer"), [*PAIRS, (GATHER, "B", "C")])
def test_wherever_it_is_possible_the_result_stays(text: Any, block: Any, consumer: Any) -> None:
    for method, name in (("compute_inline", block), ("reverse_compute_inline", consumer)):
        sch = schedule(text)
        try:
            getattr(sch, method)(name)
        except ScheduleError:
            continue
        check_same(sch, text)
        check_trace(sch, text)


def test_into_a_reduction() -> None:
    sch = schedule(CONV)
    sch.compute_inline("P")
    block = sch.get(sch.get_block("Y"))
    assert [region.buffer.name for region in block.reads] == ["X", "W"]
    assert [buffer.name for buffer in sch.get(sch.get_block("root")).alloc_buffers] == ["Y"]
    check_same(sch, CONV)


def test_indices_are_solved_for() -> None:
    """What is stored at a regrouped index is found by the inverse map."""
    text = """
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((12,))
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 4 + vj] = A[vi, vj] * 2.0
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = B[vi] + 1.0
"""
    after = """
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), C: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = A[vi // 4, vi % 4] * 2.0 + 1.0
"""
    sch = schedule(text)
    sch.compute_inline("B")
    same_text(sch, after)
    check_same(sch, text)


def test_reverse_through_a_regrouping() -> None:
    sch = schedule(TILES)
    sch.reverse_compute_inline("C")
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((12, 10), "float32"), C: T.Buffer((3, 4, 10), "float32")):
    for i, j in T.grid(12, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi // 4, vi % 4, vj] = A[vi, vj] * 2.0 + 1.0
""",
    )
    check_same(sch, TILES)


OVERCOMPUTED = """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((11, 7), "float32")):
    B = T.alloc_buffer((13, 8))
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(11, 7):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
"""


def test_reverse_under_a_condition() -> None:
    sch = schedule(OVERCOMPUTED)
    sch.reverse_compute_inline("C")
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((11, 7), "float32")):
    for i, j in T.grid(13, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 11 and j < 7)
            C[vi, vj] = A[vi, vj] * 2.0 + 1.0
""",
    )
    check_same(sch, OVERCOMPUTED)
    check_trace(sch, OVERCOMPUTED)
    assert str(sch.verify()) == "ok"


def test_the_condition_is_over_the_loops_of_the_producer() -> None:
    """It joins the one that the producer has already."""
    producer = """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((11, 7), "float32")):
    B = T.alloc_buffer((13, 8))
    for u, k, j in T.grid(2, 7, 8):
        with T.block("B"):
            vi = T.axis.spatial(13, u * 7 + k)
            vj = T.axis.spatial(8, j)
            T.where(u * 7 + k < 13)
            B[vi, vj] = A[vi, vj] * 2.0
"""
    text = producer + "    for i, j in T.grid(11, 7):" + OVERCOMPUTED.split("T.grid(11, 7):")[1]
    sch = schedule(text)
    sch.reverse_compute_inline("C")
    after = producer.replace("    B = T.alloc_buffer((13, 8))\n", "")
    after = after.replace("u * 7 + k < 13", "u * 7 + k < 11 and j < 7")
    after = after.replace(
        "            B[vi, vj] = A[vi, vj] * 2.0", "            C[vi, vj] = A[vi, vj] * 2.0 + 1.0"
    )
    same_text(sch, after)
    check_same(sch, text)
    check_trace(sch, text)
    assert str(sch.verify()) == "ok"


def test_reverse_does_not_write_what_is_not_read() -> None:
    """Only the even elements are read; the odd ones must not land on them."""
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi * 2] + 1.0
"""
    sch = schedule(text)
    refused(sch, "does not read all elements", "reverse_compute_inline", sch.get_block("C"))
    sch.compute_inline("B")
    check_same(sch, text)


def test_predicates_are_inlined_too() -> None:
    text = ELEMENTWISE.replace(
        """vi, vj = T.axis.remap("SS", [i, j])
            C[""",
        """vi, vj = T.axis.remap("SS", [i, j])
            T.where(B[i, j] < 3.0)
            C[""",
    )
    sch = schedule(text)
    sch.compute_inline("B")
    assert "T.where(A[i, j] * T.float32(2.0) < T.float32(3.0))" in str(sch.mod)
    check_same(sch, text)


def test_split_producers() -> None:
    sch = schedule(ELEMENTWISE)
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_inline("C")
    assert "T.where(i_0 * 4 + i_1 < 13)" in str(sch.mod)
    check_same(sch, ELEMENTWISE)


def test_chains() -> None:
    sch = schedule(CONV)
    sch.compute_inline("P")
    i = sch.get_loops("R")[0]
    sch.compute_at("Y", i)
    check_same(sch, CONV)


def test_transposed() -> None:
    sch = schedule(TRANSPOSED)
    sch.reverse_compute_inline("C")
    check_same(sch, TRANSPOSED)


def test_refusals() -> None:
    sch = schedule(GEMM)
    refused(sch, r"has T.init\(\)", "compute_inline", sch.get_block("C"))
    refused(sch, "is not a complete block", "reverse_compute_inline", sch.get_block("D"))
    refused(sch, "a result of its scope", "compute_inline", sch.get_block("D"))
    sch = schedule(BLUR)
    refused(sch, "reads 3 different elements", "reverse_compute_inline", sch.get_block("C"))
    refused(sch, "must read one buffer", "reverse_compute_inline", sch.get_block("B"))
    sch = schedule(GATHER)
    refused(sch, "does not tell its iterations", "reverse_compute_inline", sch.get_block("C"))


def test_opaque_accesses_are_refused() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[0:8])
            T.writes(C[vi])
            T.evaluate(B.access_ptr("r", extent=8))
            C[vi] = B[vi] + 1.0
"""
    sch = schedule(text)
    refused(sch, "uses its pointer", "compute_inline", sch.get_block("B"))
    matched = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            D = T.match_buffer(B[vi:vi + 1], (1,))
            C[vi] = D[0] + 1.0
"""
    sch = schedule(matched)
    refused(sch, "gives a part of it another name", "compute_inline", sch.get_block("B"))


def test_check() -> None:
    sch = schedule(GEMM)
    assert not can(sch.state, "ComputeInline", sch.get_sref(sch.get_block("C")))
    sch = schedule(ELEMENTWISE)
    assert can(sch.state, "ComputeInline", sch.get_sref(sch.get_block("B")))
    assert can(sch.state, "ReverseComputeInline", sch.get_sref(sch.get_block("C")))


def test_what_is_reached_through_a_pointer_stays_declared() -> None:
    text = """
@T.prim_func
def main(Q: T.Buffer((16,), "float32"), A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(Q[0:4], B[vi])
            T.writes(C[vi])
            T.evaluate(Q.access_ptr("r"))
            C[vi] = B[vi] + 1.0
"""
    sch = schedule(text)
    sch.compute_inline("B")
    block = sch.get(sch.get_block("C"))
    assert [region.buffer.name for region in block.reads] == ["Q", "A"]
    assert [region.buffer.name for region in block.writes] == ["C"]
    assert str(block.reads[0].region[0].extent) == "4"


def test_reverse_refuses_blocks_that_add_to_their_init() -> None:
    sch = schedule("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            T.reads(A[v])
            T.writes(B[v])
            with T.init():
                B[v] = T.float32(3)
            B[v] = B[v] + A[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
""")
    refused(sch, "adds to what", "reverse_compute_inline", sch.get_block("C"))


def test_what_the_condition_keeps_in_bounds_is_all_there() -> None:
    """Consumers of the result find all they read, whatever the loops of the producer are."""
    text = """
@T.prim_func
def main(A: T.Buffer((13, 6), "float32"), D: T.Buffer((13,), "float32")):
    B = T.alloc_buffer((16, 8))
    C = T.alloc_buffer((13, 6))
    for io, ii, j in T.grid(4, 4, 8):
        with T.block("B"):
            vi = T.axis.spatial(16, io * 4 + ii)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = T.if_then_else(vi < 13 and vj < 6, A[vi, vj], T.float32(0))
    for i, j in T.grid(13, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
    for i, j in T.grid(13, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + C[vi, vj]
"""
    sch = schedule(text)
    io, ii, j = sch.get_loops("B")
    fused = sch.fuse(ii, j)
    sch.reverse_compute_inline("C")
    assert "T.where(" in str(sch.mod)
    sch.cache_read("D", 0, "local")
    sch.rfactor(sch.get_loops("D")[1], 0)
    check_same(sch, text)
    assert str(sch.verify()) == "ok"
    assert sch.get(fused).extent.value == 32 and sch.get(io).extent.value == 4
