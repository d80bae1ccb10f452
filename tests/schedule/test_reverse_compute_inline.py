"""reverse_compute_inline: which consumers tell their iterations by what they read."""

from __future__ import annotations

import pytest

from schedule.common import check_same, refused, schedule

TEXT = """
@T.prim_func
def main(A: T.Buffer((MADE,), "float32"), C: T.Buffer((READ,), "float32")):
    B = T.alloc_buffer((MADE,))
    for i in range(MADE):
        with T.block("B"):
            vi = T.axis.spatial(MADE, i)
            B[vi] = A[vi] * 2.0
    for i in range(READ):
        with T.block("C"):
            vi = T.axis.spatial(READ, i)
            C[vi] = B[INDEX] + 1.0
"""

SQUARE = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4, 2), "float32")):
    B = T.alloc_buffer((4, 4))
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j, k in T.grid(4, 4, 2):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[vi, vj, vk] = B[INDEX] + 1.0
"""


def text(made: int, read: int, index: str) -> str:
    return TEXT.replace("MADE", str(made)).replace("READ", str(read)).replace("INDEX", index)


@pytest.mark.parametrize(
    "before",
    [
        text(4, 8, "vi // 2"),
        text(4, 8, "vi % 4"),
        text(4, 12, "vi // 3"),
        SQUARE.replace("INDEX", "vk * 2 + vi // 2, vj"),
        SQUARE.replace("INDEX", "(vi * 2 + vk) // 2, vj"),
        SQUARE.replace("INDEX", "vi, (vj * 2 + vk) // 2"),
    ],
)
def test_several_iterations_that_read_one_element(before: str) -> None:
    sch = schedule(before)
    why = "several of its iterations read one element"
    refused(sch, why, "reverse_compute_inline", sch.get_block("C"))
    sch.compute_inline("B")
    check_same(sch, before)


@pytest.mark.parametrize("before", [text(1, 4, "0"), SQUARE.replace("INDEX", "vi, vj")])
def test_iterations_that_nothing_tells(before: str) -> None:
    sch = schedule(before)
    refused(sch, "does not tell its iterations", "reverse_compute_inline", sch.get_block("C"))


@pytest.mark.parametrize(("size", "index"), [(8, "vi"), (8, "7 - vi"), (1, "vi"), (1, "0")])
def test_one_iteration_for_each_element(size: int, index: str) -> None:
    before = text(size, size, index)
    sch = schedule(before)
    sch.reverse_compute_inline("C")
    assert "alloc_buffer" not in str(sch.mod)
    check_same(sch, before)
