"""What is known of loops and threads, against all the values that they take."""

from __future__ import annotations

import pytest

from tileloom.lower.analysis.known_ranges import analyzer_of
from tileloom.script import from_source
from tileloom.tir import AttrStmt, For, PrimFunc, collect, seq

HEAD = '@T.prim_func\ndef main(A: T.Buffer((64,), "float32"), n: T.int32, m: T.int64):\n'
CASES = [
    ("for i in range(5): A[i] = 1.0", {"i": (0, 4)}),
    ("for i in range(3, 9): A[i] = 1.0", {"i": (3, 8)}),
    ("for i in range(-3, 0): A[i + 3] = 1.0", {"i": (-3, -1)}),
    ("for i in range(4, 4): A[i] = 1.0", {"i": (4, 4)}),
    ("for i in range(1): A[i] = 1.0", {"i": (0, 0)}),
    ("for i in range(n): A[i] = 1.0", {"i": None}),
    ("for i in range(T.min(n, 7)): A[i] = 1.0", {"i": (0, 6)}),
    ("for i in T.serial(2, 2 + T.min(n, 7)): A[i] = 1.0", {"i": (2, 8)}),
    ("for i in range(3):\n    for j in range(i, i + 4): A[j] = 1.0", {"i": (0, 2), "j": (0, 5)}),
    ("for i in range(3):\n    for j in range(T.min(i, n)): A[j] = 1.0", {"i": (0, 2), "j": (0, 1)}),
    ("for i in range(n):\n    for j in range(i, i + 4): A[j] = 1.0", {"i": None, "j": None}),
    ("for i in range(n, n + 4): A[i] = 1.0", {"i": None}),
    ('t = T.launch_thread("threadIdx.x", 32)\nA[t] = 1.0', {"t": (0, 31)}),
    ('t = T.launch_thread("threadIdx.x", n)\nA[t] = 1.0', {"t": None}),
    ('t = T.launch_thread("vthread.x", 3)\nA[t] = 1.0', {"t": (0, 2)}),
]


def parsed(body: str) -> PrimFunc:
    func = from_source(HEAD + "\n".join("    " + line for line in body.splitlines()) + "\n")
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize(("body", "wanted"), CASES)
def test_ranges(body: str, wanted: dict[str, tuple[int, int] | None]) -> None:
    func = parsed(body)
    analyzer = analyzer_of(func.body)
    found = {loop.loop_var.name: loop.loop_var for loop in collect(func.body, For)}
    found |= {a.node.var.name: a.node.var for a in collect(func.body, AttrStmt)}
    assert found.keys() == wanted.keys()
    for name, var in found.items():
        bound = analyzer.const_int_bound(var)
        ends = wanted[name]
        if ends is None:
            assert bound.max_value >= (1 << 31) - 1
        else:
            assert (bound.min_value, bound.max_value) == ends


def test_a_variable_of_two_loops_is_not_known() -> None:
    loop = parsed("for i in range(5): A[i] = 1.0").body
    assert isinstance(loop, For)
    longer = loop.replace(extent=loop.extent + 3)
    bound = analyzer_of(seq(loop, longer)).const_int_bound(loop.loop_var)
    assert bound.max_value >= (1 << 31) - 1
