"""Indices that are data or come out of tables; parameters in other layouts; recurrences."""

from __future__ import annotations

import pytest

from schedule.verify.programs import nest, program
from tileloom import Schedule
from tileloom.expr import IndexMap
from tileloom.schedule.verify import Report, verify_program

pytest.importorskip("islpy")


def check(head: str, original: str, text: str) -> Report:
    return verify_program(program(head, text), original=program(head, original))


# ---------------------------------------------------------------------------- data as indices

HEAD = "X: 9, 4; I: 5 int32; J: 5 int32; Y: 5, 4"
TAKEN = """
for i, j in T.grid(5, 4):
    with T.block("Y"):
        v, w = T.axis.remap("SS", [i, j])
        Y[v, w] = X[I[v], w] * X[J[v], w]
"""
# X is transposed, and its rows are cut in two; indices are loaded before.
COPIED = """
C = T.alloc_buffer((4, 5, 2))
for i, j in T.grid(10, 4):
    with T.block("C"):
        v, w = T.axis.remap("SS", [i, j])
        C[w, v // 2, v % 2] = T.if_then_else(v < 9, X[v, w], T.float32(0))
for i, j in T.grid(5, 4):
    with T.block("Y"):
        v, w = T.axis.remap("SS", [i, j])
        at: T.int32 = I[v]
        Y[v, w] = C[w, at // 2, at % 2] * C[w, J[v] // 2, J[v] % 2]
"""


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        ("", "", "ok"),
        ("at: T.int32 = I[v]", "at: T.int32 = I[4 - v]", "wrong"),
        ("at: T.int32 = I[v]", "at: T.int32 = J[v]", "wrong"),
        ("C[w, at // 2, at % 2]", "C[3 - w, at // 2, at % 2]", "wrong"),
        ("C[w, at // 2, at % 2]", "C[w, at // 2, 1 - at % 2]", "wrong"),
        ("T.grid(10, 4)", "T.grid(8, 4)", "unknown"),  # the last row may be asked for
    ],
)
def test_gathers_through_copies(old: str, new: str, state: str) -> None:
    assert old in COPIED
    report = check(HEAD, TAKEN, COPIED.replace(old, new))
    assert report.state == state, report


def test_gathers_in_a_sum() -> None:
    """The terms are told apart although nobody knows what they are."""
    text = """
    for i, j in T.grid({loops}):
        with T.block("Y"):
            v, k = T.axis.remap("SR", [{order}])
            with T.init():
                Y[v] = T.float32(0)
            Y[v] = Y[v] + X[I[v], {k}]
    """
    head = "X: 9, 4; I: 5 int32; Y: 5"
    original = text.format(loops="5, 4", order="i, j", k="k")
    other = text.format(loops="4, 5", order="j, i", k="3 - k")
    assert check(head, original, other).ok
    less = text.format(loops="4, 5", order="j, i", k="k // 2")
    assert check(head, original, less).state == "wrong"


TABLE = """
N = T.alloc_buffer((4, 2), "int32")
for i, j in T.grid(4, 2):
    with T.block("N"):
        v, w = T.axis.remap("SS", [i, j])
        N[v, w] = v * 2 + {w}
for i, j in T.grid(4, 2):
    with T.block("Y"):
        v, w = T.axis.remap("SS", [i, j])
        Y[v * 2 + w] = X[N[v, w]]
"""
PLAIN = nest("i:8", 'with T.block("Y"):\n    v = T.axis.spatial(8, i)\n    Y[v] = X[v]\n')


def test_tables_of_indices() -> None:
    head = "X: 8; Y: 8"
    report = check(head, PLAIN, TABLE.format(w="w"))
    assert report.ok and not report.notes
    assert check(head, PLAIN, TABLE.format(w="(1 - w)")).state == "wrong"
    beyond = check(head, PLAIN, TABLE.format(w="w + 1"))
    assert {v.kind for v in beyond.violations} >= {"out-of-bounds"}
    change = nest("i:4", 'with T.block("M"):\n    v = T.axis.spatial(4, i)\n    N[v, 0] = v\n')
    after = TABLE.format(w="w") + change
    assert check(head, PLAIN, after).ok  # nobody looks at it any more
    table, use = TABLE.format(w="w").split('for i, j in T.grid(4, 2):\n    with T.block("Y"):')
    before = f'{table}{change}for i, j in T.grid(4, 2):\n    with T.block("Y"):{use}'
    assert check(head, PLAIN, before).state == "wrong"


# ---------------------------------------------------------------------------- layouts

SUM = "X: {x}; Y: 6"
ROWS = """
for i, j in T.grid(6, 4):
    with T.block("Y"):
        v, k = T.axis.remap("SR", [i, j])
        with T.init():
            Y[v] = T.float32(0)
        Y[v] = Y[v] + X[{at}]
"""


@pytest.mark.parametrize(
    ("at", "state"),
    [("k, v", "ok"), ("3 - k, v", "ok"), ("k // 2, v", "wrong"), ("k, 5 - v", "wrong")],
)
def test_parameters_in_another_layout(at: str, state: str) -> None:
    original = program("X: 6, 4; Y: 6", ROWS.format(at="v, k"))
    turned = program("X: 4, 6; Y: 6", ROWS.format(at=at))
    layout = IndexMap.from_func(lambda i, j: (j, i))
    report = verify_program(turned, original=original, layouts={0: layout})
    assert report.state == state, report
    assert verify_program(turned, original=original).state == "unknown"


def test_schedules_remember_layouts() -> None:
    sch = Schedule(program("X: 6, 6; Y: 6", ROWS.format(at="v, k")))
    sch.transform_layout("Y", "X", lambda i, j: (j, i))
    sch.transform_layout("Y", "X", lambda i, j: (i // 2, j, i % 2))
    sch.transform_layout("Y", ("write", 0), lambda i: (i // 3, i % 3))
    assert sch.verify().ok
    assert sch.copy().verify().ok
    assert sch.trace is not None
    again = Schedule(program("X: 6, 6; Y: 6", ROWS.format(at="v, k")))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert again.verify().ok


# ---------------------------------------------------------------------------- recurrences

PREFIX = """
A = T.alloc_buffer((13,))
for i in range(13):
    with T.block("A"):
        v = T.axis.opaque(13, i)
        A[v] = T.if_then_else(v == 0, X[0], A[v - 1] * T.float32(0.5) + X[v])
with T.block("Y"):
    Y[0] = A[12]
"""


def test_values_that_depend_on_earlier_ones() -> None:
    """Only the last value is asked for; that it is right for all the others is found on the way."""
    head = "X: 13; Y: 1"
    assert check(head, PREFIX, PREFIX).ok
    cut = PREFIX.replace("for i in range(13)", "for i0, i1 in T.grid(7, 2)").replace(
        "T.axis.opaque(13, i)", "T.axis.opaque(13, i0 * 2 + i1)\n        T.where(i0 * 2 + i1 < 13)"
    )
    assert check(head, PREFIX, cut).ok
    assert not check(head, PREFIX, cut.replace("+ X[v]", "+ X[12 - v]")).ok


def test_accumulators_that_start_over() -> None:
    """The same buffer sums twice; each sum has its own terms."""
    text = """
    S = T.alloc_buffer((1,))
    for i in range(5):
        for j in range({first}):
            with T.block("S"):
                v, k = T.axis.remap("SR", [i, j])
                with T.init():
                    S[0] = T.float32(0)
                S[0] = S[0] + X[v, k]
        with T.block("Y"):
            v = T.axis.spatial(5, i)
            Y[v] = S[0]
    """
    head = "X: 5, 4; Y: 5"
    plain = ROWS.replace("T.grid(6, 4)", "T.grid(5, 4)").format(at="v, k")
    assert check(head, plain, text.format(first=4)).ok
    assert check(head, plain, text.format(first=3)).state == "wrong"
