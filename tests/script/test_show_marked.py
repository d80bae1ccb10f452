"""Marked statements are underlined wherever they stand."""

from __future__ import annotations

from typing import Any

from tileloom.script import parse
from tileloom.script.show_marked import show_marked
from tileloom.tir import For, IRModule, collect

TEXT = """
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 0
    for j in range(8):
        A[j] = 1
"""


def test_the_last_statement_of_a_sequence_is_found() -> None:
    func: Any = parse(TEXT)
    first, last = collect(func.body, For)
    text: Any = show_marked(IRModule({"main": func}), {last: "here", first: ""})
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "for j" in line)
    assert lines[at + 1].endswith("^^^^^^^^^^^^^^^^^^ here")
    assert text.count("^^^") // 6 == 2
