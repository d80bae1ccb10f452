"""decompose_padding: before and after, the trace, the refusals."""

from __future__ import annotations

import pytest

from schedule.common import check_same, check_trace, refused, same_text, schedule

PAD = """
@T.prim_func
def main(A: T.Buffer((13, 6), "float32"), B: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(
                1 <= vi and vi < 14 and 1 <= vj and vj < 7, A[vi - 1, vj - 1], T.float32(3)
            )
"""

#: Padding, and a sum of windows.
POOL = """
@T.prim_func
def main(A: T.Buffer((9, 4), "float32"), C: T.Buffer((9, 4), "float32")):
    P = T.alloc_buffer((11, 4))
    for i, j in T.grid(11, 4):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(1 <= vi and vi < 10, A[vi - 1, vj], T.float32(0))
    for i, j, k in T.grid(9, 4, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + P[vi + vk, vj]
"""


def test_before_the_outermost_loop() -> None:
    sch = schedule(PAD)
    block = sch.get_block("B")
    pad = sch.decompose_padding(block, sch.get_loops(block)[0])
    assert sch.get(pad).name_hint == "B_pad_const" and sch.get(block).name_hint == "B"
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 6), "float32"), B: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        with T.block("B_pad_const"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads()
            T.writes(B[vi, vj])
            B[vi, vj] = T.float32(3)
    for i, j in T.grid(13, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi + 1, vj + 1])
            B[vi + 1, vj + 1] = A[vi, vj]
""",
    )
    check_trace(sch, PAD)
    check_same(sch, PAD)


def test_inside_a_loop() -> None:
    sch = schedule(PAD)
    block = sch.get_block("B")
    _, j = sch.get_loops(block)
    sch.decompose_padding(block, j)
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((13, 6), "float32"), B: T.Buffer((16, 8), "float32")):
    for i in range(16):
        for j in range(8):
            with T.block("B_pad_const"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(B[vi, vj])
                B[vi, vj] = T.float32(3)
        for j in range(6):
            with T.block("B"):
                vi = T.axis.spatial(13, i - 1)
                vj = T.axis.spatial(6, j)
                T.where(1 <= i and i < 14)
                T.reads(A[vi, vj])
                T.writes(B[vi + 1, vj + 1])
                B[vi + 1, vj + 1] = A[vi, vj]
""",
    )
    check_trace(sch, PAD)
    check_same(sch, PAD)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_loops_that_were_split(at: int) -> None:
    sch = schedule(POOL)
    sch.split(sch.get_loops("P")[0], [None, 4])
    sch.decompose_padding("P", sch.get_loops("P")[at])
    check_trace(sch, POOL)
    check_same(sch, POOL)


@pytest.mark.parametrize("depth", [0, 1])
def test_padding_that_was_moved(depth: int) -> None:
    sch = schedule(POOL)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 2])
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loops("P")[depth])
    check_trace(sch, POOL)
    check_same(sch, POOL)


def test_fused_loops_are_no_box() -> None:
    sch = schedule(PAD)
    block = sch.get_block("B")
    fused = sch.fuse(*sch.get_loops(block))
    assert not sch.can_decompose_padding(block, fused)
    refused(sch, "is no box", "decompose_padding", block, fused)


def test_asking_changes_nothing() -> None:
    sch = schedule(PAD)
    before = sch.mod
    assert sch.can_decompose_padding("B", sch.get_loops("B")[0])
    assert sch.mod is before
    sch.decompose_padding("B", sch.get_loops("B")[0])
    assert not sch.can_decompose_padding("B", sch.get_loops("B")[0])


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("T.float32(3)", "A[0, 0]", "no constant"),
        ("1 <= vi and vi < 14 and 1 <= vj and vj < 7", "vi < 16", "always holds"),
        ("1 <= vi and vi < 14 and 1 <= vj and vj < 7", "vi == vj", "is no box"),
        ("1 <= vi and vi < 14 and 1 <= vj and vj < 7", "vi + vj < 7", "is no box"),
    ],
)
def test_what_is_no_padding(old: str, new: str, match: str) -> None:
    sch = schedule(PAD.replace(old, new))
    block = sch.get_block("B")
    refused(sch, match, "decompose_padding", block, sch.get_loops(block)[0])


def test_refusals() -> None:
    sch = schedule(POOL)
    refused(sch, "is not around", "decompose_padding", sch.get_block("P"), sch.get_loops("C")[0])
    refused(sch, "not a complete", "decompose_padding", sch.get_block("C"), sch.get_loops("C")[0])
