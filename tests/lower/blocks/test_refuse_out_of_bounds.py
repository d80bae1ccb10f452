"""Programs that certainly leave a buffer are refused before there is code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom import build, te
from tileloom.base.errors import OutOfBoundsError
from tileloom.expr import EQ, Expr, Var, const
from tileloom.expr import intrin as T_
from tileloom.lower.blocks.refuse_out_of_bounds import refuse_out_of_bounds
from tileloom.schedule import Schedule
from tileloom.script import parse
from tileloom.script import tir as T
from tileloom.tir import IRModule, PrimFunc

Index = Callable[[Expr], Expr]


def mapped(index: Index, out: int = 10, n: int = 10) -> PrimFunc:
    """Z[i] = A[index(i)], with n elements in A."""
    a = te.placeholder((n,), name="A")
    return te.create_prim_func([a, te.compute((out,), lambda i: a[index(i)], name="Z")])


def guarded(guard: Callable[[Expr], Expr], index: Index, out: int) -> PrimFunc:
    a = te.placeholder((10,), name="A")

    def element(i: Expr) -> Expr:
        return T_.if_then_else(guard(i), a[index(i)], 0.0)

    return te.create_prim_func([a, te.compute((out,), element, name="Z")])


def split(func: PrimFunc, *steps: int) -> IRModule:
    sch = Schedule(func)
    loops = sch.split(sch.get_loops("Z")[0], [None, *steps])
    sch.parallel(loops[0])
    return sch.mod


OUTSIDE = [
    ("one behind", lambda: mapped(lambda i: i + 1), "runs from 1 to 10, and A has 10 elements"),
    ("one before", lambda: mapped(lambda i: i - 1), "runs from -1 to 8"),
    ("far", lambda: mapped(lambda i: i + 10**9), "runs from 1000000000 to 1000000009"),
    ("split with a rest", lambda: split(mapped(lambda i: i + 1), 8), "runs from 1 to 10"),
    ("split twice", lambda: split(mapped(lambda i: i + 1, 37, 37), 4, 3), "runs from 1 to 37"),
    ("too weak a guard", lambda: guarded(lambda i: i < 11, lambda i: i, 12), "runs from 0 to 10"),
    ("a guard of the other side", lambda: guarded(lambda i: i >= 4, lambda i: i, 12), "4 to 11"),
    ("reversed", lambda: mapped(lambda i: 10 - i), "runs from 1 to 10"),
    ("divided", lambda: mapped(lambda i: (i + 2) // 2, 20), "runs from 1 to 10"),
    ("one element", lambda: mapped(lambda i: i * 0 + 10, 1), "is 10, and A has 10"),
]
INSIDE = [
    ("all", lambda: mapped(lambda i: i)),
    ("split with a rest", lambda: split(mapped(lambda i: i), 8)),
    ("split twice", lambda: split(mapped(lambda i: i, 37, 37), 4, 3)),
    ("nothing is run", lambda: mapped(lambda i: i + 100, 0)),
    ("clamped", lambda: mapped(lambda i: T_.min(i, 9), 20)),
    ("modulo", lambda: mapped(lambda i: i % 10, 20)),
    ("padded", lambda: guarded(lambda i: T_.all(i >= 1, i < 11), lambda i: i - 1, 12)),
    ("padded and split", lambda: split(guarded(lambda i: i < 10, lambda i: i, 12), 5)),
    ("not or", lambda: guarded(lambda i: ~T_.any(i < 2, i > 11), lambda i: i - 2, 20)),
    ("never", lambda: guarded(lambda i: i < 0, lambda i: i + 100, 20)),
    ("halves", lambda: guarded(lambda i: EQ(i % 2, const(0)), lambda i: i // 2, 20)),
]


@pytest.mark.parametrize(("make", "text"), [c[1:] for c in OUTSIDE], ids=[c[0] for c in OUTSIDE])
def test_what_is_certainly_outside_is_refused(make: Callable[..., Any], text: str) -> None:
    with pytest.raises(OutOfBoundsError, match=text) as caught:
        build(make())
    assert "Z[" in str(caught.value)


@pytest.mark.parametrize("make", [c[1] for c in INSIDE], ids=[c[0] for c in INSIDE])
def test_what_is_inside_is_built(make: Callable[..., Any]) -> None:
    build(make())


def test_unknown_sizes() -> None:
    n = Var("n")
    a = te.placeholder((n,), name="A")
    may, must = (
        te.create_prim_func([a, te.compute((n,), lambda i, by=by: a[i + by], name="Z")])
        for by in (1, n)
    )
    build(may)
    with pytest.raises(OutOfBoundsError, match="is never below that, and A has n elements"):
        build(must)


def test_the_statement_is_shown() -> None:
    @T.prim_func
    def func(A: T.Buffer((4, 64), "float32"), B: T.Buffer((3, 64), "float32")) -> None:
        for i, j in T.grid(3, 64):
            B[i, j] = A[i, j + 1]

    with pytest.raises(OutOfBoundsError) as caught:
        build(func)
    text = str(caught.value)
    assert "A[i, j + 1] is out of bounds: the index j + 1 of axis 1 runs from 1 to 64" in text
    assert "B[i, j] = A[i, j + 1]\n" in text
    assert "^^^^^" in text


def test_a_store_is_an_access() -> None:
    @T.prim_func
    def func(B: T.Buffer((4,), "float32")) -> None:
        for i in range(8):
            if i % 2 == 0:
                B[i] = T.float32(1)

    with pytest.raises(OutOfBoundsError, match=r"B\[i\] is out of bounds"):
        refuse_out_of_bounds(func)


def test_threads_of_gpus() -> None:
    @T.prim_func
    def func(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")) -> None:
        b = T.launch_thread("blockIdx.x", 4)
        t = T.launch_thread("threadIdx.x", 32)
        B[b * 32 + t] = A[b * 32 + t]

    with pytest.raises(OutOfBoundsError, match="runs from 0 to 127"):
        build(func, "cuda", device="emulator")


def test_what_depends_on_data_is_not_refused() -> None:
    """Nobody knows whether it is run; branches, masks, loops and `while` alike."""

    @T.prim_func
    def func(n: T.int32, A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")) -> None:
        if A[0] > 3:
            B[7] = 1
        if n > 3:
            B[8] = 1
        B[1] = T.if_then_else(A[1] > 0, A[9], 0)
        for i in range(A[2]):
            B[i] = A[i]
        B[A[3]] = A[n]

    build(func)


def test_a_condition_says_nothing_of_memory_that_changes() -> None:
    """The element that was below 4 is not when it is used."""

    @T.prim_func
    def func(n: T.Buffer((1,), "int32"), A: T.Buffer((4,), "int32")) -> None:
        if n[0] < 0:
            n[0] = 2
            A[n[0]] = 1

    build(func)


def test_names_and_vectors() -> None:
    @T.prim_func
    def named(A: T.Buffer((8,), "int32")) -> None:
        for i in range(4):
            with T.LetStmt(i * 2 + 1) as j:
                A[j + 1] = 1

    @T.prim_func
    def vectors(A: T.Buffer((8,), "int32")) -> None:
        A[4:12] = T.Broadcast(T.int32(1), 8)

    for func in (named, vectors):
        with pytest.raises(OutOfBoundsError):
            build(func)


MASKED = """
@T.prim_func
def masked(A: T.Buffer((5,), "float32"), B: T.Buffer((8,), "float32")):
    B.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 1, 8)]PREDICATE))
"""


def test_lanes_that_are_masked() -> None:
    mask = ", predicate=T.Ramp(0, 1, 8) < T.Broadcast(5, 8)"
    refuse_out_of_bounds(parse(MASKED.replace("PREDICATE", mask)))
    with pytest.raises(OutOfBoundsError, match="A has 5 elements"):
        refuse_out_of_bounds(parse(MASKED.replace("PREDICATE", "")))
