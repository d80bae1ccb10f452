"""Statements of all kinds in two programs: what is proven of them, held against what they give."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.verify.programs import program
from tileloom.schedule.verify import verify_program
from tileloom.tir import PrimFunc, run

pytest.importorskip("islpy")

TEXT = """
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        BODY
"""


def stores(body: str) -> PrimFunc:
    """A program that stores B; statements are separated by semicolons."""
    text = TEXT.replace("BODY", body.replace("; ", "\n        "))
    return program("A: 8; I: 8 int32; B: 8", text)


def results(func: PrimFunc) -> np.ndarray:
    a = np.array([0.5, -3.0, 7.25, 1.75, -0.25, 2.5, 11.0, -6.5], "float32")
    b = np.zeros(8, "float32")
    run(func, a, np.array([3, 1, 4, 1, 5, 7, 2, 6], "int32"), b)
    return b


SAME = [
    ("x: T.float32 = A[v] + 1.0; B[v] = x * x", "B[v] = (A[v] + 1.0) * (A[v] + 1.0)"),
    ("x: T.int32 = v * 2; B[v] = T.Cast('float32', x)", "B[v] = T.Cast('float32', v * 2)"),
    (
        "if v < 4:;     B[v] = A[v]; else:;     B[v] = 2.0",
        "B[v] = T.if_then_else(v < 4, A[v], T.float32(2))",
    ),
    (
        "if v < 4:;     B[v] = A[v]; else:;     B[v] = 2.0",
        "B[v] = T.if_then_else(v >= 4, T.float32(2), A[v])",
    ),
    ("assert v < 8, 'x'; B[v] = A[v]", "B[v] = A[v]"),
    ("with T.attr(v, 'm', 1):;     B[v] = A[v]", "B[v] = A[v]"),
    ("T.evaluate(0); B[v] = A[v]", "B[v] = A[v]"),
    ("T.evaluate(A[v]); B[v] = A[v]", "B[v] = A[v]"),
    ("B[v] = A[7 - v]", "B[v] = A[7 - v]"),
    ("B[v] = T.exp(A[v])", "B[v] = T.exp(A[v])"),
    ("B[v] = A[v] + 1.0; B[v] = A[v]", "B[v] = A[v]"),
    ("B[v] = A[I[v]]", "B[v] = A[I[v]]"),
    (
        "B[v] = T.Select(v < 3, A[v], T.float32(1))",
        "B[v] = T.if_then_else(v < 3, A[v], T.float32(1))",
    ),
    (
        "B[v] = T.Select(A[v] < 3.0, A[v], T.float32(1))",
        "B[v] = T.Select(A[v] < 3.0, A[v], T.float32(1))",
    ),
    ("B[v] = T.if_then_else(v < 9, A[v], T.float32(2))", "B[v] = A[v]"),
    ("for j in range(1):;     B[v + j] = A[v]", "B[v] = A[v]"),
    ("for j in range(8):;     B[v] = A[j]", "B[v] = A[7]"),
    ("B[v] = A[v // 2]", "B[v] = A[T.shift_right(v, 1)]"),
    ("B[v] = A[v % 4]", "B[v] = A[T.bitwise_and(v, 3)]"),
]


@pytest.mark.parametrize(("before", "after"), SAME, ids=str)
def test_the_same_is_proven(before: str, after: str) -> None:
    report = verify_program(stores(after), original=stores(before))
    assert report.state == "ok", report
    np.testing.assert_array_equal(results(stores(after)), results(stores(before)))


#: Where elements come from is known to the last, what is computed of them is compared as it stands.
WRONG = [
    (
        "x: T.float32 = A[v] + 1.0; B[v] = x * x",
        "B[v] = (A[v] + 1.0) * (A[v] + 2.0)",
    ),
    ("x: T.int32 = v * 2; B[v] = T.Cast('float32', x)", "B[v] = T.Cast('float32', v * 3)"),
    ("B[v] = A[7 - v]", "B[v] = A[v]"),
    ("B[v] = A[v] * 3.0", "B[v] = A[v] * 4.0"),
    ("B[v] = A[I[v]]", "B[v] = A[I[7 - v]]"),
    ("for j in range(8):;     B[v] = A[j]", "B[v] = A[6]"),
    ("B[v] = A[v % 4]", "B[v] = A[T.bitwise_and(v, 7)]"),
]


@pytest.mark.parametrize(("before", "after"), WRONG, ids=str)
def test_what_differs_is_shown(before: str, after: str) -> None:
    report = verify_program(stores(after), original=stores(before))
    assert report.state == "wrong", report
    assert {violation.kind for violation in report.violations} == {"different"}
    assert (results(stores(after)) != results(stores(before))).any()


#: Nobody says what other operations make of their operands: that is in doubt.
DOUBTED = [
    (
        "if v < 4:;     B[v] = A[v]; else:;     B[v] = 2.0",
        "B[v] = T.if_then_else(v < 5, A[v], T.float32(2))",
    ),
    (
        "if I[v] < 4:;     B[v] = A[v]; else:;     B[v] = 2.0",
        "B[v] = T.if_then_else(I[v] < 5, A[v], T.float32(2))",
    ),
    ("B[v] = T.exp(A[v])", "B[v] = T.cos(A[v])"),
    ("B[v] = A[v] - 1.0", "B[v] = 1.0 - A[v]"),
    ("B[v] = T.max(A[v], T.float32(0))", "B[v] = T.min(A[v], T.float32(0))"),
    (
        "B[v] = T.Select(A[v] < 2.5, A[v], T.float32(1))",
        "B[v] = T.Select(A[v] <= 2.5, A[v], T.float32(1))",
    ),
    ("B[v] = T.if_then_else(v < 4, A[v], T.float32(2))", "B[v] = A[v]"),
    (
        "B[v] = T.Cast('float32', T.Cast('int32', A[v]))",
        "B[v] = A[v]",
    ),
    ("while B[v] < A[v]:;     B[v] = B[v] + 1.0", "B[v] = A[v]"),
]


@pytest.mark.parametrize(("before", "after"), DOUBTED, ids=str)
def test_what_differs_is_never_proven(before: str, after: str) -> None:
    for one, other in ((before, after), (after, before)):
        report = verify_program(stores(one), original=stores(other))
        assert report.state in ("unknown", "wrong"), report
    assert (results(stores(after)) != results(stores(before))).any()
