"""loop_partition: before and after, the trace, the refusals, and what later steps see of it."""

from __future__ import annotations

from typing import Any

import pytest

from schedule.common import (
    ELEMENTWISE,
    NORMALISE,
    check_same,
    check_trace,
    refused,
    same_text,
    schedule,
)
from tileloom import Schedule
from tileloom.schedule.analysis.scope import consumers


def test_pieces() -> None:
    sch = schedule(ELEMENTWISE)
    loops = sch.loop_partition(sch.get_loops("C")[0], [2, 8])
    assert [(str(sch.get(x).min), str(sch.get(x).extent)) for x in loops] == [
        ("0", "2"),
        ("2", "8"),
        ("10", "3"),
    ]
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 8), "float32"), C: T.Buffer((13, 8), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((13, 8))
        for i, j in T.grid(13, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        with T.block("C_i_common"):
            T.reads()
            T.writes()
            with T.block("C_i0_partition"):
                T.reads()
                T.writes()
                for i0, j in T.grid(2, 8):
                    with T.block("C_i0"):
                        vi, vj = T.axis.remap("SS", [i0, j])
                        T.reads(B[0:2, 0:8])
                        T.writes(C[0:2, 0:8])
                        C[vi, vj] = B[vi, vj] + 1.0
            with T.block("C_i1_partition"):
                T.reads()
                T.writes()
                for i1 in range(2, 10):
                    for j in range(8):
                        with T.block("C_i1"):
                            vi, vj = T.axis.remap("SS", [i1, j])
                            T.reads(B[2:10, 0:8])
                            T.writes(C[2:10, 0:8])
                            C[vi, vj] = B[vi, vj] + 1.0
            with T.block("C_i2_partition"):
                T.reads()
                T.writes()
                for i2 in range(10, 13):
                    for j in range(8):
                        with T.block("C_i2"):
                            vi, vj = T.axis.remap("SS", [i2, j])
                            T.reads(B[10:13, 0:8])
                            T.writes(C[10:13, 0:8])
                            C[vi, vj] = B[vi, vj] + 1.0
""",
    )
    names = ["C_i_common", "C_i0_partition", "C_i0", "C_i2_partition", "C_i2"]
    assert [sch.get(sch.get_block(name)).name_hint for name in names] == names
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


@pytest.mark.parametrize(
    ("factors", "ends"),
    [([None, 1, 7], [5, 6, 13]), ([2, None, 4], [2, 9, 13]), ([5, -1], [5, 13]), ([12], [12, 13])],
)
def test_a_length_is_inferred(factors: list[int | None], ends: list[int]) -> None:
    sch = schedule(ELEMENTWISE)
    loops = sch.loop_partition(sch.get_loops("B")[0], factors)
    found = [sch.get(loop) for loop in loops]
    assert [loop.min.value + loop.extent.value for loop in found] == ends
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_pieces_of_pieces() -> None:
    sch = schedule(ELEMENTWISE)
    _, rest = sch.loop_partition(sch.get_loops("C")[0], [3])
    sch.loop_partition(rest, [None, 1])
    sch.loop_partition(sch.get_loops("C_i1_i11")[1], [5])
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def test_a_reduction_starts_in_its_first_piece_alone() -> None:
    sch = schedule(NORMALISE)
    sch.loop_partition(sch.get_loops("S")[1], [3, 3])
    inits = [sch.get(sch.get_block(f"S_k{i}")).init is not None for i in range(3)]
    assert inits == [True, False, False]
    check_trace(sch, NORMALISE)
    check_same(sch, NORMALISE)


def test_results_start_in_each_piece() -> None:
    sch = schedule(NORMALISE)
    sch.loop_partition(sch.get_loops("S")[0], [5])
    check_trace(sch, NORMALISE)
    check_same(sch, NORMALISE)


def test_values_made_of_the_loop() -> None:
    sch = schedule(NORMALISE)
    _, k = sch.get_loops("S")
    outer, _ = sch.split(k, [None, 3])
    sch.loop_partition(outer, [1])
    check_trace(sch, NORMALISE)
    check_same(sch, NORMALISE)


def test_several_blocks() -> None:
    sch = schedule(ELEMENTWISE)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.loop_partition(sch.get_loops("C")[0], [4])
    assert sch.get(sch.get_block("B_i_common")) is not None
    check_trace(sch, ELEMENTWISE)
    check_same(sch, ELEMENTWISE)


def partitioned(block: str) -> Schedule:
    sch = schedule(ELEMENTWISE)
    sch.loop_partition(sch.get_loops(block)[0], [4])
    return sch


def test_later_steps_see_through_the_silent_blocks() -> None:
    sch = partitioned("C")
    found = consumers(sch.state, sch.get_sref(sch.get_block("B")))
    assert [sref.block.name_hint for sref in found] == ["C_i_common"]
    sch.compute_inline("B")
    check_same(sch, ELEMENTWISE)
    sch = partitioned("B")
    sch.split(sch.get_loops("B_i1")[1], [None, 3])
    check_same(sch, ELEMENTWISE)
    refused(sch, "2 blocks make", "reverse_compute_inline", sch.get_block("C"))


def test_refusals() -> None:
    sch = schedule(ELEMENTWISE)
    i, j = sch.get_loops("C")
    refused(sch, "leave nothing", "loop_partition", i, [6, 7])
    refused(sch, "leave nothing", "loop_partition", i, [13, None])
    refused(sch, "one length at most", "loop_partition", i, [None, 2, None])
    refused(sch, "one length at most", "loop_partition", i, [])
    refused(sch, "must be positive", "loop_partition", i, [3, 0])
    sch.annotate(j, "x", 1)
    refused(sch, "without annotations", "loop_partition", j, [2])
    text = ELEMENTWISE.replace("A: T.Buffer((13, 8)", "n: T.int32, A: T.Buffer((13, 8)").replace(
        "T.grid(13, 8)", "T.grid(n, 8)"
    )
    sch = schedule(text)
    refused(sch, "needs numbers", "loop_partition", sch.get_loops("B")[0], [2])


def test_steps_that_rely_on_declared_writes() -> None:
    """A piece declares what all of it writes, as in TVM; an instance writes one element."""
    sch = schedule(ELEMENTWISE)
    pieces = sch.loop_partition(sch.get_loops("B")[1], [2])
    block = sch.get_child_blocks(pieces[0])[0]
    refused(sch, "writes more of 'B' than the one element", "cache_write", block, 0, "local")
    refused(
        sch, "writes more of 'B' than the one element", "write_at", pieces[0], block, 0, "local"
    )


def test_a_block_that_declares_nothing_is_a_reader() -> None:
    sch = schedule(ELEMENTWISE)
    outer = sch.get_loops("B")[0]
    sch.reverse_compute_at("C", outer)
    c = sch.get_loops("C")[1]
    sch.loop_partition(c, [2])
    refused(
        sch, "reads 'B' after the last write", "write_at", outer, sch.get_block("B"), 0, "local"
    )


def test_pieces_do_not_follow_their_producer() -> None:
    sch = schedule(ELEMENTWISE)
    sch.loop_partition(sch.get_loops("C")[0], [4])
    common = sch.get_block("C_i_common")
    refused(
        sch,
        "does not declare what it reads of 'B'",
        "reverse_compute_at",
        common,
        sch.get_loops("B")[0],
    )


def test_pieces_are_readers_when_consumers_are_inlined() -> None:
    text = (
        ELEMENTWISE.replace(
            'C: T.Buffer((13, 8), "float32")):',
            'C: T.Buffer((13, 8), "float32"),\n         D: T.Buffer((13, 8), "float32")):',
        )
        + """    for i, j in T.grid(13, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - 1.0
"""
    )
    sch = schedule(text)
    sch.loop_partition(sch.get_loops("D")[0], [4])
    refused(sch, "block 'D_i_common' reads 'B' too", "reverse_compute_inline", sch.get_block("C"))


def test_pieces_that_make_results_are_outputs() -> None:
    sch = schedule(ELEMENTWISE)
    sch.loop_partition(sch.get_loops("C")[0], [4])
    common, loop = sch.get_block("C_i_common"), sch.get_loops("B")[0]
    refused(sch, "writes 'C', a result", "compute_at", common, loop)


WIDE = """
@T.prim_func
def main(A: T.Buffer((16, 4), "float32"), B: T.Buffer((16, 4), "float32")):
    for i, j in T.grid(16, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[0:16, 0:4])
            T.writes(B[0:16, 0:4])
            B[vi, vj] = A[{read}, vj]
"""


def bounds(regions: Any) -> Any:
    (region,) = regions
    return [(part.min.value, (part.min + part.extent).value) for part in region.region]


@pytest.mark.parametrize(
    ("read", "parts"),
    [("vi", [(0, 12), (12, 16)]), ("15 - vi", [(4, 16), (0, 4)]), ("vi // 4", [(0, 3), (3, 4)])],
)
def test_pieces_declare_what_they_touch(read: str, parts: list[tuple[int, ...]]) -> None:
    """Even where the block declares more than its store accesses."""
    text = WIDE.format(read=read)
    sch = schedule(text)
    sch.loop_partition(sch.get_loops("B")[0], [None, 4])
    for k, (written, touched) in enumerate(zip([(0, 12), (12, 16)], parts, strict=True)):
        piece = sch.get(sch.get_block(f"B_i{k}"))
        assert bounds(piece.reads) == [touched, (0, 4)]
        assert bounds(piece.writes) == [written, (0, 4)]
    check_same(sch, text)
    check_trace(sch, text)


def test_pieces_keep_regions_given_by_hand() -> None:
    sch = schedule(WIDE.format(read="vi"))
    sch.annotate_buffer_access("B", 0, "read", lambda vi, vj: ((0, 16), (0, 4)))
    sch.loop_partition(sch.get_loops("B")[0], [None, 4])
    piece = sch.get(sch.get_block("B_i1"))
    assert bounds(piece.reads) == [(0, 16), (0, 4)]


def test_pieces_of_an_opaque_block_keep_their_regions() -> None:
    text = """
@T.prim_func
def main(B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[0:16, 0:16])
            T.evaluate(T.tvm_fill_fragment(B.data, 16, 16, 16, 0, vi * 16 + vj, dtype="handle"))
"""
    sch = schedule(text)
    sch.loop_partition(sch.get_loops("B")[1], [12])
    piece = sch.get(sch.get_block("B_j1"))
    assert bounds(piece.writes) == [(0, 16), (0, 16)]
