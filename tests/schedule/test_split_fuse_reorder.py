"""split, fuse, reorder, add_unit_loop."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import (
    ELEMENTWISE,
    MATMUL,
    check_same,
    check_trace,
    parse,
    refused,
    same_text,
    schedule,
)
from tileloom import ScheduleError
from tileloom.expr import const


def extents(sch: Any, block: Any) -> Any:
    return [sch.get(loop).extent for loop in sch.get_loops(block)]


def test_split_exactly() -> None:
    sch = schedule(ELEMENTWISE)
    _i, j = sch.get_loops("B")
    sch.split(j, [2, None])
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i, j_0, j_1 in T.grid(13, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(13, i)
            vj = T.axis.spatial(8, j_0 * 4 + j_1)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_split_of_a_prime_extent_runs_under_a_condition() -> None:
    sch = schedule(ELEMENTWISE)
    i, _ = sch.get_loops("B")
    sch.split(i, [None, 3, 2])
    text = str(sch.mod)
    assert "T.where(i_0 * 6 + i_1 * 2 + i_2 < 13)" in text
    assert extents(sch, "B") == [3, 3, 2, 8]
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


def test_split_without_the_condition() -> None:
    sch = schedule(ELEMENTWISE)
    sch.split(sch.get_loops("B")[0], [2, 7], disable_predication=True)
    assert "T.where" not in str(sch.mod)
    check_trace(sch, ELEMENTWISE)


@pytest.mark.parametrize("preserve", [True, False])
def test_unit_iterators(preserve: bool) -> None:
    sch = schedule(ELEMENTWISE)
    sch.split(sch.get_loops("B")[1], [8, 1], preserve_unit_iters=preserve)
    assert ("j_0 + j_1" in str(sch.mod)) == preserve
    check_same(sch, ELEMENTWISE)


def test_split_with_number_variables() -> None:
    sch = schedule(MATMUL)
    i = sch.get_loops("C")[0]
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    sch.split(i, [None, v])
    assert extents(sch, "C")[:2] == [32, 4]
    check_trace(sch, MATMUL)


def test_split_of_an_unknown_extent() -> None:
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = A[vi] + 1.0
"""
    sch = schedule(text)
    sch.split(sch.get_loops("B")[0], [None, 4])
    assert "T.where(i_0 * 4 + i_1 < n)" in str(sch.mod)
    check_trace(sch, text)


@pytest.mark.parametrize(
    ("factors", "match"),
    [
        ([None, None], "only one factor"),
        ([2, 3], "do not reach the extent 13"),
        ([0, 13], "must be positive"),
        ([-2, None], "must be positive"),
        ([], "at least one"),
        ([True, None], "a number is needed"),
        (["x", None], "a number is needed"),
    ],
)
def test_split_refuses(factors: list[Any], match: str) -> None:
    sch = schedule(ELEMENTWISE)
    refused(sch, match, "split", sch.get_loops("B")[0], factors)


def test_split_refuses_bound_and_annotated_loops() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("B")
    sch.bind(i, "threadIdx.x")
    refused(sch, "bound to threadIdx.x", "split", i, [None, 2])
    sch.annotate(j, "pragma", 1)
    refused(sch, "without annotations", "split", j, [None, 2])
    text = str(refused(sch, "bound", "fuse", i, j))
    assert "^^^" in text and "bound to threadIdx.x" in text


def test_split_refuses_a_loop_from_elsewhere() -> None:
    loop = parse(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(2, 8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1.0
"""
    )
    sch = schedule(loop)
    refused(sch, "starts at 2", "split", sch.get_loops("A")[0], [None, 2])


def test_fuse() -> None:
    sch = schedule(ELEMENTWISE)
    sch.fuse(*sch.get_loops("B"))
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    B = T.alloc_buffer((13, 8))
    for i_j_fused in range(104):
        with T.block("B"):
            vi = T.axis.spatial(13, i_j_fused // 8)
            vj = T.axis.spatial(8, i_j_fused % 8)
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(13, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_fuse_undoes_split() -> None:
    sch = schedule(ELEMENTWISE)
    i, _j = sch.get_loops("B")
    outer, inner = sch.split(i, [None, 4])
    fused = sch.fuse(outer, inner)
    assert sch.get(fused).extent is const(16)
    assert "vi = T.axis.spatial(13, i_0_i_1_fused)" in str(sch.mod)
    check_same(sch, ELEMENTWISE)


def test_fuse_refuses() -> None:
    sch = schedule(MATMUL)
    i, j, k = sch.get_loops("C")
    refused(sch, "not directly inside", "fuse", i, k)
    refused(sch, "not directly inside", "fuse", j, i)
    refused(sch, "at least one", "fuse")


def test_fuse_one_loop_renames_it() -> None:
    sch = schedule(MATMUL)
    i, _, _ = sch.get_loops("C")
    assert sch.get(sch.fuse(i)).loop_var.name == "i_fused"


def test_fuse_refuses_siblings_and_dependent_extents() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1.0
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = 1.0
"""
    )
    i, j = sch.get_loops("B")
    refused(sch, "only thing", "fuse", i, j)
    refused(sch, "holds more than", "reorder", j, i)
    i, j = sch.get_loops("A")
    refused(sch, "only thing", "fuse", i, j)


def test_reorder() -> None:
    sch = schedule(MATMUL)
    i, _j, k = sch.get_loops("C")
    sch.reorder(k, i)  # j stays in the middle
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops("C")] == ["k", "j", "i"]
    assert sch.get(i).loop_var.name == "i"
    check_trace(sch, MATMUL)


def test_reorder_keeps_results() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(j, i1, i0)
    check_same(sch, ELEMENTWISE)
    check_trace(sch, ELEMENTWISE)


def test_reorder_refuses() -> None:
    sch = schedule(ELEMENTWISE)
    i, _j = sch.get_loops("B")
    k, _ = sch.get_loops("C")
    refused(sch, "more than once", "reorder", i, i)
    refused(sch, "not in one chain", "reorder", i, k)
    refused(sch, "at least one", "reorder")


def test_reorder_refuses_dependent_ranges() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 1.0
"""
    )
    i, j = sch.get_loops("A")
    refused(sch, "depends on loop 'i'", "reorder", j, i)
    refused(sch, "depends on loop 'i'", "fuse", i, j)


def test_reorder_refuses_bindings_that_are_not_affine() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    for i, j in T.grid(8, 3):
        with T.block("A"):
            vi = T.axis.spatial(64, i * 8 + j)
            A[vi] = 1.0
"""
    )
    i, j = sch.get_loops("A")
    refused(sch, "not affine", "reorder", j, i)


def test_reorder_refuses_opaque_variables() -> None:
    sch = schedule(
        """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.opaque(8, j)
            A[vi, vj] = 1.0
"""
    )
    i, j = sch.get_loops("A")
    refused(sch, "'vj' of block 'A' is neither", "reorder", j, i)


def test_add_unit_loop() -> None:
    sch = schedule(ELEMENTWISE)
    block = sch.get_block("B")
    unit = sch.add_unit_loop(block)
    outer = sch.add_unit_loop(sch.get_loops(block)[0])
    assert sch.get(unit).extent is const(1) and extents(sch, block) == [1, 13, 8, 1]
    assert sch.get_sref(sch.get_loops(block)[0]) is sch.get_sref(outer)
    refused(sch, "root block", "add_unit_loop", sch.get_block("root"))
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_references_expire() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("B")
    sch.fuse(i, j)
    with pytest.raises(ScheduleError, match="no longer in the program"):
        sch.get(i)
    refused(sch, "no longer", "split", i, [None, 2])


ROWS = """
@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""


def test_reorder_keeps_what_starts_a_reduction_first() -> None:
    sch = schedule(ROWS)
    outer, inner = sch.split(sch.fuse(*sch.get_loops("B")), [None, 6])  # rows are 8 long
    text = "both places and reduces in block 'B'"
    error = refused(sch, text, "reorder", inner, outer)
    assert "decompose_reduction" in str(error)
    sch.reorder(outer, inner)  # the order that they are in
    check_same(sch, ROWS)


def test_reorder_moves_loops_that_place_across_mixed_ones() -> None:
    text = (
        ROWS.replace("(5, 8)", "(3, 5, 8)")
        .replace("(5,)", "(3, 5)")
        .replace("for i, k in T.grid(3, 5, 8):", "for h, i, k in T.grid(3, 5, 8):")
        .replace(
            'vi, vk = T.axis.remap("SR", [i, k])', 'vh, vi, vk = T.axis.remap("SSR", [h, i, k])'
        )
    )
    text = text.replace("[vi", "[vh, vi")
    sch = schedule(text)
    h, i, k = sch.get_loops("B")
    outer, inner = sch.split(sch.fuse(i, k), [None, 6])
    sch.reorder(outer, h, inner)
    sch.reorder(inner, h)
    check_same(sch, text)
    check_trace(sch, text)
    refused(sch, "both places and reduces", "reorder", inner, outer)


def test_reorder_of_split_reductions() -> None:
    sch = schedule(ROWS)
    k0, k1 = sch.split(sch.get_loops("B")[1], [None, 3])
    sch.reorder(k1, k0, sch.get_loops("B")[0])
    check_same(sch, ROWS)
    # The reduction starts at 1, which is not where its loops do.
    late = schedule(
        """
@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), B: T.Buffer((5,), "float32")):
    for i, k0, k1 in T.grid(5, 3, 3):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce((1, 8), k0 * 3 + k1)
            T.where(k0 * 3 + k1 >= 1 and k0 * 3 + k1 < 8)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    )
    _, k0, k1 = late.get_loops("B")
    refused(late, "what starts a result would not come first", "reorder", k1, k0)


def test_reorder_moves_no_reduction_across_repetitions() -> None:
    text = ROWS.replace("for i, k in T.grid(5, 8):", "for i, again, k in T.grid(5, 2, 8):")
    sch = schedule(text)
    i, again, k = sch.get_loops("B")
    refused(sch, "loop 'again' repeats in block 'B'", "reorder", k, again)
    sch.reorder(again, i)
    check_same(sch, text)


def test_reorder_moves_no_reduction_across_overlapping_loops() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((9, 8), "float32"), B: T.Buffer((9,), "float32")):
    for i, h, k in T.grid(4, 3, 8):
        with T.block("B"):
            vi = T.axis.spatial(9, i * 2 + h)
            vk = T.axis.reduce(8, k)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"""
    sch = schedule(text)
    i, h, k = sch.get_loops("B")
    refused(sch, "what starts a result would not come first", "reorder", k, i)
    refused(sch, "what starts a result would not come first", "reorder", k, h, i)
    sch.reorder(h, i)
    check_same(sch, text)
    sch.reorder(k, i)  # while h stands, no row is run twice
    check_same(sch, text)
