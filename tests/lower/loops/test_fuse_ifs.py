"""Branches that go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lower.gpu_programs import check_gpu
from tileloom.expr import Expr, Var, as_expr, const, logical_not
from tileloom.lower.loops.fuse_ifs import fuse_ifs
from tileloom.script import tir as T
from tileloom.tir import (
    Buffer,
    BufferStore,
    IfThenElse,
    PrimFunc,
    Stmt,
    collect,
    make_buffer,
    run,
    seq,
    structural_equal,
)

A, B = make_buffer((4,), "int32", "A"), make_buffer((4,), "int32", "B")
N, M = Var("n"), Var("m")


def function(*stmts: Stmt, noalias: bool = True) -> PrimFunc:
    p, q = Var("p", "handle"), Var("q", "handle")
    attrs = {"tir.noalias": True} if noalias else {}
    return PrimFunc((p, q, N, M), seq(*stmts), {p: A, q: B}, attrs)


def when(condition: Expr, *stmts: Stmt, other: Stmt | None = None) -> IfThenElse:
    return IfThenElse(condition, seq(*stmts), other)


def put(value: int, at: int = 0, buffer: Buffer = B) -> Stmt:
    return BufferStore(buffer, as_expr(value), (const(at),))


def branches(func: PrimFunc) -> int:
    return len(collect(func.body, IfThenElse))


def check(func: PrimFunc, expected: int) -> PrimFunc:
    """So many branches are left, which do the same as before for many values."""
    fused = fuse_ifs(func)
    assert branches(fused) == expected, str(fused)
    for n in range(-1, 3):
        for m in range(-1, 3):
            results = []
            for version in (func, fused):
                a, b = np.arange(4, dtype="i") - 1, np.zeros(4, "i")
                run(version, a, b, n, m)
                results.append((a.tolist(), b.tolist()))
            assert results[0] == results[1]
    assert structural_equal(fuse_ifs(fused), fused)
    return fused


def test_branches_in_a_row() -> None:
    func = function(when(N > 0, put(1)), when(N > 0, put(2, 1)), when(N > 0, put(3, 2)))
    want = function(when(N > 0, put(1), put(2, 1), put(3, 2)))
    assert structural_equal(check(func, 1), want)


def test_two_sides() -> None:
    func = function(
        when(N > 0, put(1), other=put(2)), when(N > 0, put(3, 1), other=put(4, 1)),
        when(N > 0, put(5, 2)),
    )  # fmt: skip
    check(func, 1)


@pytest.mark.parametrize(
    "opposite", [logical_not(N < 2), N >= 2, const(2) <= N], ids=["not", "mirror", "constant"]
)
def test_opposites(opposite: Expr) -> None:
    fused = check(function(when(N < 2, put(1)), when(opposite, put(2))), 1)
    (stmt,) = collect(fused.body, IfThenElse)
    assert stmt.else_case is not None


def test_no_opposites_of_numbers_that_are_none() -> None:
    """Neither a < b nor a >= b where one of them is no number."""
    x = make_buffer((2,), "float32", "x")
    p, q = Var("p", "handle"), Var("q", "handle")
    less, not_less = x[0] < x[1], x[0] >= x[1]
    body = seq(IfThenElse(less, put(1)), IfThenElse(not_less, put(2)))
    func = PrimFunc((p, q), body, {p: x, q: B}, {"tir.noalias": True})
    assert branches(fuse_ifs(func)) == 2
    body = seq(IfThenElse(less, put(1)), IfThenElse(logical_not(less), put(2)))
    func = fuse_ifs(PrimFunc((p, q), body, {p: x, q: B}, {"tir.noalias": True}))
    assert branches(func) == 1
    b = np.zeros(4, "i")
    run(func, np.array([np.nan, 1], "f"), b)
    assert b[0] == 2


def test_nests() -> None:
    check(function(when(N > 0, when(M > 0, when(N > M, put(1))))), 1)
    check(function(when(N > 0, when(M > 0, put(1)), put(2))), 2)
    check(function(when(N > 0, when(M > 0, put(1), other=put(3)))), 2)
    check(function(when(N > 0, when(M > 0, put(1)), other=put(3))), 2)


def test_inside_of_what_was_fused() -> None:
    func = function(when(N > 0, when(M > 0, put(1))), when(N > 0, when(M > 0, put(2, 1))))
    check(func, 1)


def test_conditions_that_must_not_be_evaluated_early() -> None:
    check(function(when(N > 0, when(A[N - 1] > 0, put(1)))), 2)  # reads
    check(function(when(N > 0, when(M // N > 0, put(1)))), 2)  # divides


def test_conditions_that_the_branch_changes() -> None:
    check(function(when(A[0] < 0, put(5, 0, A)), when(A[0] < 0, put(1))), 2)
    check(function(when(A[0] < 0, put(5, 1, A)), when(A[0] < 0, put(1))), 2)
    check(function(when(A[0] < 0, put(5)), when(A[0] < 0, put(1, 1))), 1)
    other = function(when(A[0] < 0, put(5)), when(A[0] < 0, put(1, 1)), noalias=False)
    check(other, 2)  # B may be A


def test_what_stands_in_between() -> None:
    check(function(when(N > 0, put(1)), put(2), when(N > 0, put(3))), 2)
    check(function(when(N > 0, put(1)), when(M > 0, put(3))), 2)
    check(function(put(2)), 0)


def test_a_barrier_keeps_branches_apart() -> None:
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")) -> None:
        with T.block("root"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for t in T.thread_binding(8, thread="threadIdx.x"):
                if t < 4:
                    S[t] = X[t]
                if t < 4:
                    Y[t] = S[3 - t]
                if t < 4:
                    Y[t] = Y[t] + S[t]

    def reference(X: np.ndarray[Any, Any], Y: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [np.concatenate([X[3::-1] + X[:4], Y[4:]])]

    flat = check_gpu(func, reference)
    assert branches(flat) == 2
