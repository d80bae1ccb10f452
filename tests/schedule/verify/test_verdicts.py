"""Verdicts that hang on one comparison: kinds of reductions, lanes, layouts, numbers."""

from __future__ import annotations

import pytest

from schedule.verify.programs import program
from tileloom.base.errors import UserError
from tileloom.expr import Add, Cast, IndexMap, Max, Min, Mul, Sub, Var, const
from tileloom.schedule.verify import verify_program
from tileloom.schedule.verify.fingerprints import _fold
from tileloom.tir import PrimFunc

pytest.importorskip("islpy")


def reduction(start: str, combined: str, signature: str = "A: 6, 5; C: 6") -> PrimFunc:
    return program(
        signature,
        f"""
        for i, k in T.grid(6, 5):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = {start}
                C[vi] = {combined}
        """,
    )


SUM = ("T.float32(0)", "C[vi] + A[vi, vk]")
KINDS = {
    "sum": SUM,
    "product": ("T.float32(1)", "C[vi] * A[vi, vk]"),
    "max": ("T.min_value('float32')", "T.max(C[vi], A[vi, vk])"),
    "min": ("T.max_value('float32')", "T.min(C[vi], A[vi, vk])"),
    "another start": ("T.float32(2)", "C[vi] + A[vi, vk]"),
    "backwards": ("T.float32(0)", "C[vi] + A[vi, 4 - vk]"),
    "twice": ("T.float32(0)", "C[vi] + A[vi, vk // 2 * 2]"),
    "squares": ("T.float32(0)", "C[vi] + A[vi, vk] * A[vi, vk]"),
}
SAME = {("sum", "backwards")}


@pytest.mark.parametrize("now", KINDS)
@pytest.mark.parametrize("before", ["sum", "max"])
def test_reductions_of_one_kind_are_compared(before: str, now: str) -> None:
    """The same elements added up and their maximum are not the same."""
    report = verify_program(reduction(*KINDS[now]), original=reduction(*KINDS[before]))
    same = before == now or (before, now) in SAME
    assert report.ok == same, report
    assert same or report.state in ("wrong", "unknown")


@pytest.mark.parametrize(
    ("loops", "index", "race"),
    [
        ("for k in range(3):\n    for i in T.vectorized(4):", "k * 4 + i", False),
        ("for k in range(3):\n    for i in T.vectorized(4):", "i", False),  # after each other
        ("for k in range(3):\n    for i in T.vectorized(4):", "k", True),
        ("for k in range(3):\n    for i in T.vectorized(4):", "i // 2", True),
        ("for k in T.parallel(3):\n    for i in range(4):", "k", False),
        ("for k in T.parallel(3):\n    for i in range(4):", "k * 4 + i", False),
        ("for k in T.parallel(3):\n    for i in range(4):", "i", True),
        ("for k in T.parallel(3):\n    for i in range(4):", "k + i", True),
    ],
)
def test_who_meets_in_an_element(loops: str, index: str, race: bool) -> None:
    """Lanes of one statement meet at one time; workers at any."""
    first, second = loops.split("\n")
    func = program(
        "A: 3, 4; C: 12",
        f"""
        {first}
        {second}
                with T.block("C"):
                    vk, vi = T.axis.remap("SS", [k, i])
                    C[{index.replace("k", "vk").replace("i", "vi")}] = A[vk, vi]
        """,
    )
    report = verify_program(func)
    assert ("race" in {violation.kind for violation in report.violations}) == race, report


def test_layouts_that_are_not_affine_are_refused() -> None:
    func = reduction(*SUM)
    i, j = Var("i"), Var("j")
    for layout, fits in ((IndexMap([i, j], [i, j]), True), (IndexMap([i, j], [i * j, j]), False)):
        if fits:
            assert verify_program(func, original=func, layouts={0: layout}).ok
            continue
        with pytest.raises(UserError, match="is not affine"):
            verify_program(func, original=func, layouts={0: layout})


X, TWO, HALF = Var("x"), const(2), const(0.5, "float32")


def number(value: float) -> tuple[object, ...]:
    return ("number", const(value))


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (number(3), 3),
        (("number", HALF), 0.5),
        (("number", X), None),
        (("op", Add(X, TWO), number(3), number(4)), 7),
        (("op", Sub(X, TWO), number(3), number(4)), -1),
        (("op", Mul(X, TWO), number(3), number(4)), 12),
        (("op", Max(X, TWO), number(3), number(4)), 4),
        (("op", Min(X, TWO), number(3), number(4)), 3),
        (("op", Add(X, TWO), number(3), ("more",)), None),
        (("op", Add(X, TWO), ("more",), number(3)), None),
        (("op", Add(X, TWO), ("more",), ("more",)), None),
        (("op", Cast("float32", X), number(3)), 3),
        (("op", Cast("float32", X), ("more",)), None),
        (("op", X // TWO, number(3), number(4)), None),
        (("reduction", "Add", "G0"), None),
        (("more",), None),
    ],
)
def test_outlines_that_are_numbers(shape: tuple[object, ...], value: float | None) -> None:
    assert _fold(shape) == value
