"""Reductions that work on a copy in place, and the same with real defects."""

from __future__ import annotations

import re

import pytest

from schedule.common import check_same, parse, schedule
from tileloom.schedule.verify import verify_program

pytest.importorskip("islpy")

TWO_SUMS = """
@T.prim_func
def main(A: T.Buffer((3, 5), "float32"), C: T.Buffer((3,), "float32"),
         D: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
                D[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
            D[vi] = D[vi] + A[vi, vk] * A[vi, vk]
"""


def copied(nested: bool) -> str:
    """The first sum in a copy, or in a copy of a copy within a block."""
    sch = schedule(TWO_SUMS)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    sch.cache_inplace("C_update", 0, "global")
    if nested:
        outer = sch.blockize([sch.get_block("C_update")])
        sch.cache_inplace(sch.get_child_blocks(outer)[0], 0, "global")
    check_same(sch, TWO_SUMS)
    assert sch.verify().state == "ok"
    return str(sch.mod["main"])


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (r"for k in range\(5\):", "for again, k in T.grid(2, 5):", "repeated"),
        # A reduction over six elements, of which only five come.
        (
            r'( *)(\w+), (\w+) = T.axis.remap\("SR", \[i, k\]\)',
            r"\1\2 = T.axis.spatial(3, i)\n\1\3 = T.axis.reduce(6, k)",
            "missing",
        ),
        # From the start again.
        (r"for i in range\(3\):", "for again, i in T.grid(2, 3):", ""),
    ],
)
def test_copies_of_sums(nested: bool, old: str, new: str, kind: str) -> None:
    text, count = re.subn(old, new, copied(nested))
    assert count == 1, text
    kinds = {found.kind for found in verify_program(parse(text)).violations}
    assert kinds == ({kind} if kind else set()), kinds


def test_sums_of_sums_that_are_copied_in_their_steps() -> None:
    """Which terms there are is not known where each step begins with what the last one left."""
    sch = schedule("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((3,), "float32")):
    M = T.alloc_buffer((7,))
    for i, k in T.grid(7, 4):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vk] + 1.0)
    for i, k in T.grid(3, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + M[vi * 2 + vk]
""")
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.cache_inplace("C_update", 0, "local")
    assert not sch.verify().violations
