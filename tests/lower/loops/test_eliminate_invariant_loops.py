"""Loops whose iterations are all the same."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.expr import Call, Expr, ExprLike, StringImm, Var, as_expr, const
from tileloom.lower import lower
from tileloom.lower.blocks.lower_opaque_block import allocate
from tileloom.lower.loops.eliminate_invariant_loops import eliminate_invariant_loops
from tileloom.script import tir as T
from tileloom.tir import (
    Buffer,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    collect,
    make_buffer,
    run,
    seq,
)

A, B = make_buffer((4,), "int32", "A"), make_buffer((4,), "int32", "B")
N, I, J = Var("n"), Var("i"), Var("j")


def function(body: Stmt, noalias: bool = True) -> PrimFunc:
    p, q = Var("p", "handle"), Var("q", "handle")
    attrs = {"tir.noalias": True} if noalias else {}
    return PrimFunc((p, q, N), body, {p: A, q: B}, attrs)


def loop(var: Var, extent: ExprLike, *body: Stmt, kind: str = "serial") -> For:
    return For(
        var, const(0), const(extent) if isinstance(extent, int) else extent, kind, seq(*body)
    )


def put(value: Expr, at: ExprLike = 0, buffer: Buffer = B) -> Stmt:
    return BufferStore(buffer, as_expr(value), (const(at) if isinstance(at, int) else at,))


def check(func: PrimFunc, expected: int) -> PrimFunc:
    """So many loops are left, which do the same as before."""
    changed = eliminate_invariant_loops(func)
    assert len(collect(changed.body, For)) == expected, str(changed)
    for n in (-3, 0, 1, 4):
        results = []
        for version in (func, changed):
            a, b = np.arange(4, dtype="i") + 5, np.zeros(4, "i")
            run(version, a, b, n)
            results.append((a.tolist(), b.tolist()))
        assert results[0] == results[1]
    assert eliminate_invariant_loops(changed) is changed
    return changed


def test_once_is_enough() -> None:
    check(function(loop(I, 7, put(A[0] + 1))), 0)
    check(function(loop(I, 7, loop(J, 4, put(A[J], J)))), 1)
    check(function(loop(J, 4, loop(I, 7, put(A[J], J)))), 1)
    check(function(loop(I, 7, loop(J, 3, put(A[0] + 1)))), 0)


@pytest.mark.parametrize("kind", ["serial", "parallel", "unrolled"])
def test_kinds(kind: str) -> None:
    check(function(loop(I, 3, put(A[1]), kind=kind)), 0)


def test_extents_that_may_be_nothing() -> None:
    changed = check(function(loop(I, N, put(A[0]))), 0)
    assert len(collect(changed.body, IfThenElse)) == 1
    check(function(loop(I, N + 1, put(A[0]))), 0)
    zero = function(loop(I, 0, put(A[0])))
    assert eliminate_invariant_loops(zero) is zero  # a loop of nothing is another pass's


def test_its_own_memory() -> None:
    own = make_buffer((1,), "int32", "own")
    body = allocate(own, seq(put(A[0] * 2, 0, own), put(own[0] + 1)))
    check(function(loop(I, 5, body)), 0)
    outside = allocate(own, loop(I, 5, put(A[0] * 2, 0, own), put(own[0] + 1)))
    check(function(outside), 1)  # it reads what it writes; that it writes first is not looked for


def test_where_iterations_differ() -> None:
    check(function(loop(I, 4, put(A[0] + I))), 1)
    check(function(loop(I, 4, put(B[0] + 1))), 1)
    check(function(loop(I, 4, put(A[0]), put(B[0], 0, A))), 1)
    check(function(loop(I, 4, put(A[0], I))), 1)


def test_buffers_that_may_be_one() -> None:
    check(function(loop(I, 4, put(A[0] + 1)), noalias=False), 1)
    check(function(loop(I, 4, put(const(1))), noalias=False), 0)


def test_calls_that_do_something() -> None:
    call = Evaluate(Call("int32", "tir.call_extern", (StringImm("tick"),)))
    func = function(loop(I, 4, call))
    assert eliminate_invariant_loops(func) is func


def test_in_the_pipeline() -> None:
    @T.prim_func
    def func(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")) -> None:
        T.func_attr({"tir.noalias": True})
        for _r in range(100):
            for i in range(8):
                Y[i] = X[i] * T.float32(2)

    flat = lower(func)
    assert len(collect(flat.body, For)) == 1
    x, y = np.array([np.nan, np.inf, -0.0, *range(5)], "f"), np.zeros(8, "f")
    run(flat, x, y)
    np.testing.assert_array_equal(y, x * 2)
