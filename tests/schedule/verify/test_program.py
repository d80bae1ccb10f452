"""Right programs are proven right; what cannot be known is said to be unknown."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from schedule.verify.oracle import judge
from schedule.verify.programs import MATMUL, ORIGINAL_STAGES, matmul, nest, program, stages
from schedule.verify.texts import GATHER, MATMULS, RIGHT
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.schedule import Schedule
from tileloom.schedule.verify import verify_program
from tileloom.script import from_source
from tir.programs import softmax

pytest.importorskip("islpy")


@pytest.mark.parametrize("name", MATMULS)
def test_right_matmuls(name: str) -> None:
    func = matmul(MATMULS[name])
    if name != "nested":  # the oracle knows no match_buffer
        assert judge(func).sound
    report = verify_program(func)
    assert report.ok, report
    report = verify_program(func, original=MATMUL)
    assert report.ok, report


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs(name: str) -> None:
    func = program(*RIGHT[name])
    report = verify_program(func, original=func)
    assert report.ok, report
    assert bool(report.notes) == (name in ("gather", "threads that share", "reduced over threads"))


@pytest.mark.parametrize(
    "func",
    [
        stages(),
        stages(kind="T.parallel"),
        stages(5, extra="T.where(i0 * 2 + ax < 8)"),
        stages(8, "0"),
        stages(8, "0", "T.parallel"),
    ],
)
def test_producers_computed_where_they_are_used(func: Any) -> None:
    report = verify_program(func, original=ORIGINAL_STAGES)
    assert report.ok, report


def test_rolling_regions_are_right_in_order_only() -> None:
    """Each tile computes two elements anew and finds two from the tile before."""
    rolled = ("T.if_then_else(i0 == 0, 0, i0 * 2 + 2)", "T.where(i0 == 0 or ax < 2)")
    assert verify_program(stages(4, rolled[0], "range", rolled[1]), original=ORIGINAL_STAGES).ok
    report = verify_program(stages(4, rolled[0], "T.parallel", rolled[1]))
    assert {v.kind for v in report.violations} == {"uncovered"}


def test_softmax() -> None:
    func = softmax(5, 7)
    assert verify_program(func, original=func).ok


SYMBOLIC = """
from tileloom.script import tir as T

@T.prim_func
def main(x: T.handle, y: T.handle, n: T.int32):
    X = T.match_buffer(x, (n,))
    Y = T.match_buffer(y, (n,))
    for i0 in T.parallel((n + 3) // 4):
        for i1 in T.vectorized(4):
            with T.block("Y"):
                v = T.axis.spatial(n, i0 * 4 + i1)
                T.where(i0 * 4 + i1 < {bound})
                Y[v] = X[v] * T.float32(2)
"""


def test_symbolic_sizes() -> None:
    from tileloom.script import parse

    right: Any = parse(SYMBOLIC.format(bound="n"))
    assert verify_program(right, original=right).ok
    (short,) = verify_program(parse(SYMBOLIC.format(bound="n - 1"))).violations
    assert short.kind == "missing"
    assert short.witness.iters == {"v": short.witness.params["n"] - 1}
    long = verify_program(parse(SYMBOLIC.format(bound="n + 1")))
    assert {v.kind for v in long.violations} == {"over-run", "out-of-bounds"}
    assert all(v.witness.params["n"] % 4 for v in long.violations)


# ---------------------------------------------------------------------------- doubts, errors

DOUBTFUL = {
    "scatter": ("X: 5; I: 5 int32; Y: 9", GATHER.replace("Y[v] = X[I[v]]", "Y[I[v]] = X[v]")),
    "product of variables": (
        "X: 5; Y: 17",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n    Y[v * v] = X[v]\n'),
    ),
    "condition on data": (
        "X: 5; Y: 5",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n'
             "    if X[v] > T.float32(0):\n        Y[v] = X[v]\n"),
    ),
    "opaque call": (
        "X: 5; Y: 5",
        nest("i:5", 'with T.block("Y"):\n    v = T.axis.spatial(5, i)\n'
             "    T.reads(X[v])\n    T.writes(Y[v])\n"
             '    T.evaluate(T.call_extern("int32", "f", Y.data, X.data))\n'),
    ),
    "reduction that keeps the last": (
        "X: 5, 3; Y: 5",
        nest("i:5, j:3", 'with T.block("Y"):\n    v, k = T.axis.remap("SR", [i, j])\n'
             "    Y[v] = X[v, k]\n"),
    ),
    "while": (
        "X: 5; Y: 5 int32",
        'with T.block("Y"):\n    Y[0] = 0\n    while Y[0] < 5:\n        Y[0] = Y[0] + 1\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_known_is_unknown(name: str) -> None:
    report = verify_program(program(*DOUBTFUL[name]))
    assert report.state == "unknown", report
    assert not report.ok and report.unknown


def test_gathered_from_an_unfinished_buffer() -> None:
    func = program(
        "X: 9; I: 5 int32; Y: 5",
        """
        B = T.alloc_buffer((9,))
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = X[v]
        for i in range(5):
            with T.block("Y"):
                v = T.axis.spatial(5, i)
                Y[v] = B[I[v]]
        """,
    )
    assert verify_program(func).state == "unknown"


def test_effort_is_limited() -> None:
    report = verify_program(matmul(MATMULS["tiled"]), max_operations=50)
    assert report.state == "unknown" and "too hard" in report.unknown[-1]


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "islpy", None)
    with pytest.raises(UnsupportedError, match=r"tileloom\[poly\]"):
        verify_program(MATMUL)


def test_only_functions_are_checked() -> None:
    with pytest.raises(UserError, match="PrimFunc"):
        verify_program("C")


def test_a_tiled_matmul_is_checked_within_a_second() -> None:
    func = program(
        "A: 512, 512; B: 512, 512; C: 512, 512",
        nest("i0:8:parallel, j0:8, k0:16, i1:8, j1:8, k1:8, i2:8, k2:4, j2:8:vectorized",
             'with T.block("C"):\n    vi = T.axis.spatial(512, i0 * 64 + i1 * 8 + i2)\n'
             "    vj = T.axis.spatial(512, j0 * 64 + j1 * 8 + j2)\n"
             "    vk = T.axis.reduce(512, k0 * 32 + k1 * 4 + k2)\n"
             "    with T.init():\n        C[vi, vj] = T.float32(0)\n"
             "    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]\n"),
    )  # fmt: skip
    report = verify_program(func)
    assert report.ok, report


# ---------------------------------------------------------------------------- schedules


def test_a_schedule_verifies_itself() -> None:
    schedule = Schedule(MATMUL)
    i, j, k = schedule.get_loops("C")
    i0, i1 = schedule.split(i, [None, 4])
    k0, k1 = schedule.split(k, [None, 2])
    schedule.reorder(i0, k0, j, k1, i1)
    assert schedule.verify().ok
    assert schedule.copy().verify("main").ok
    with pytest.raises(UserError, match="name the function"):
        schedule.verify("other")


@pytest.mark.parametrize(("guard", "state"), [("i * i < 25", "unknown"), ("i < 5", "ok")])
def test_a_guard_that_is_not_affine_proves_nothing_wrong(guard: str, state: str) -> None:
    func: Any = from_source(f"""
from tileloom.script import tir as T

@T.prim_func
def main(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(5, i)
            T.where({guard})
            B[v] = A[v]
""")
    assert verify_program(func).state == state
    assert verify_program(from_source(str(func).replace(guard, "i < 6"))).state == "wrong"
