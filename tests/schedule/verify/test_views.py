"""Views of buffers that are declared otherwise than what they stand for."""

from __future__ import annotations

import pytest

from tileloom.schedule.verify import verify_program
from tileloom.script import parse
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")

PROGRAM = """
@T.prim_func
def main(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("Y"):
            v = T.axis.spatial(4, i)
            T.reads(X[v, 0:8])
            T.writes(Y[v, 0:8])
            view = T.match_buffer(X[v, 0:8], (8,), "float32", strides=[1], offset_factor=1)
            for j in range(8):
                Y[v, j] = view[j]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("(8,)", "(9,)", "declares 9 elements along axis 0, where there are 8"),
        ("(8,)", "(7,)", "declares 7 elements along axis 0, where there are 8"),
        ("strides=[1]", "strides=[2]", "declares 2 as its stride along axis 0, where there are 1"),
        ("(X[v, 0:8], (8,)", "(X[v, 0:9], (9,)", "is of elements up to 9 along axis 1, of 8"),
        ("(X[v, 0:8], (8,)", "(X[v, 4:10], (6,)", "is of elements up to 10 along axis 1, of 8"),
    ],
)
def test_views_are_as_large_as_their_regions(old: str, new: str, said: str) -> None:
    func = parse(PROGRAM.replace(old, new) if old else PROGRAM)
    assert isinstance(func, PrimFunc)
    found = [v.message for v in verify_program(func).violations if v.kind == "misfit"]
    assert found == ([f"the view 'view' in block 'Y' {said}"] if said else [])
