"""What the interpreter refuses, and the arrays and numbers at the edge of what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.base.errors import ArgumentError, UnsupportedError, UserError, VerifyError
from tileloom.expr import (
    SPATIAL,
    Call,
    Cast,
    IterVar,
    ProducerLoad,
    Ramp,
    Range,
    Var,
    const,
)
from tileloom.tir import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    MatchBufferRegion,
    Stmt,
    make_buffer,
)
from tileloom.tir.run import run
from tir.programs import func, load, store

A = make_buffer((4, 6), "int32", "A")
X, P = Var("x"), Var("p", "handle", ("int32", "global"))


def view(low: Any, height: int, width: int = 6) -> Stmt:
    """A block over a region of `A` under another name."""
    part = make_buffer(
        (height, width), "int32", "part", strides=(Var("s"), 1), elem_offset=Var("o")
    )
    region = BufferRegion(A, (Range(low, height), Range(const(0), width)))
    match = (MatchBufferRegion(part, region),)
    block = Block((), (), (), "b", store(part, (0, 0), 7), match_buffers=match)
    return BlockRealize((), const(True), block)


PLAIN = Block((), (), (), "b", store(A, (0, 0), 1))
BAD: list[tuple[Stmt, type[UserError], str]] = [
    (PLAIN, VerifyError, "block 'b' is not realised"),
    (store(A, (0, 0), const(1.0)), VerifyError, "a float32 is stored into buffer 'A' of int32"),
    (BufferStore(A, const(1), (const(0),)), VerifyError, "'A' has 2 dimensions, got 1 indices"),
    (store(A, (0, 0), BufferLoad(A, [X])), VerifyError, "'A' has 2 dimensions, got 1 indices"),
    (store(A, (0, 0), BufferLoad(A, [Ramp(X, const(1), 2)])), VerifyError, "wrong number of ind"),
    (AttrStmt(X, "thread_extent", const(2), store(A, (0, 0), 1)), VerifyError,
     "'thread_extent' needs an iteration variable, got x"),
    (AttrStmt(X, "virtual_thread", const(2), store(A, (0, 0), 1)), VerifyError,
     "'virtual_thread' needs an iteration variable, got x"),
    (store(make_buffer((2,), "int32", "B", data=Var("q", "handle")), (0,), 1), VerifyError,
     "buffer 'B' is used where it has no memory"),
    (Evaluate(Call("int32", "tir.shift_left", (const(1), X - 9))), UserError, "shift by -1"),
    (view(X - 9, 2), VerifyError, r"the region of 'A' covers \[-1, 1\) of axis 0, which has 4"),
    (view(X - 5, 2), VerifyError, r"the region of 'A' covers \[3, 5\) of axis 0, which has 4"),
]  # fmt: skip


@pytest.mark.parametrize(("stmt", "kind", "message"), BAD, ids=[m[:40] for *_, m in BAD])
def test_programs_that_mean_nothing(stmt: Stmt, kind: type[UserError], message: str) -> None:
    with pytest.raises(kind, match=message):
        run(func((A, X), stmt), np.zeros((4, 6), "int32"), 8)


@pytest.mark.parametrize(("low", "row"), [(0, 0), (2, 2)])
def test_views_at_the_ends(low: int, row: int) -> None:
    out = np.zeros((4, 6), "int32")
    run(func((A, X), view(X, 2)), out, low)
    assert out[row, 0] == 7 and out.sum() == 7


def test_threads_have_iteration_variables() -> None:
    t = Var("t")
    axis = IterVar(Range(0, 3), t, SPATIAL, "threadIdx.x")
    out = np.zeros((4, 6), "int32")
    run(func((A,), AttrStmt(axis, "thread_extent", const(3), store(A, (t, 0), t + 1))), out)
    assert out[:, 0].tolist() == [1, 2, 3, 0]


def test_expressions_of_formulas_have_no_value() -> None:
    with pytest.raises(UnsupportedError, match="the interpreter does not know ProducerLoad"):
        run(func((), Evaluate(ProducerLoad(te.placeholder((4,), name="A"), (const(0),)))))


def test_arguments() -> None:
    lanes = make_buffer((3,), "float32x4", "L")
    with pytest.raises(ArgumentError, match=r"an array whose last axis has 4 elements, got .*3, 2"):
        run(func((lanes,), Evaluate(const(0))), np.zeros((3, 2), "float32"))
    hidden = make_buffer((4,), "int32", "H", elem_offset=Var("o") * 2)
    with pytest.raises(ArgumentError, match="do not tell the value of o"):
        run(func((hidden,), store(hidden, (0,), 1)), np.zeros(4, "int32"))
    flat = make_buffer((24,), "int32", "flat", data=P)
    with pytest.raises(UserError, match="has no flat view"):
        run(func((P,), store(flat, (0,), 1)), np.zeros((4, 6), "int32")[::-1])


def test_pointers_take_the_memory_of_arrays() -> None:
    flat = make_buffer((8,), "int32", "flat", data=P)
    memory = np.zeros(8, "int32")
    run(func((P,), store(flat, (3,), load(flat, 2) + 5)), memory)
    assert memory.tolist() == [0, 0, 0, 5, 0, 0, 0, 0]


@pytest.mark.parametrize("value", [(1 << 53) + 1, (1 << 63) - 1, -(1 << 63), -(1 << 53) - 1])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_casts_of_large_integers_round_once(value: int, kind: str) -> None:
    v, out = Var("v", "int64"), make_buffer((1,), kind, "out")
    result = np.zeros(1, kind)
    with np.errstate(over="ignore"):
        run(func((out, v), store(out, (0,), Cast(kind, v))), result, value)
        assert result[0] == np.int64(value).astype(kind)
    unsigned = Var("u", "uint64")
    if value > 0 and kind != "float16":
        run(
            func((out, unsigned), store(out, (0,), Cast(kind, unsigned))), result, value + (1 << 63)
        )
        assert result[0] == np.uint64(value + (1 << 63)).astype(kind)


def test_threads_beyond_an_array_are_told() -> None:
    short, t = make_buffer((7,), "int32", "short"), Var("t")
    axis = IterVar(Range(0, 8), t, SPATIAL, "threadIdx.x")
    body = AttrStmt(axis, "thread_extent", const(8), store(short, (t,), 1))
    with pytest.raises(VerifyError, match="short"):
        run(func((short,), body), np.zeros(7, "int32"))


@pytest.mark.parametrize("offset", [None, const(0), Var("o")])
def test_arrays_whose_offset_is_nothing(offset: Any) -> None:
    plain = make_buffer((2, 3), "int32", "plain", elem_offset=offset)
    out = np.zeros((2, 3), "int32")
    run(func((plain,), store(plain, (1, 2), 5)), out)
    assert out[1, 2] == 5 == out.sum()


def test_arrays_with_an_offset_are_given_as_memory() -> None:
    part = make_buffer((2, 3), "int32", "part", elem_offset=const(4))
    out = np.zeros(12, "int32")
    run(func((part,), store(part, (1, 2), 5)), out)
    assert out.nonzero()[0].tolist() == [9]
    with pytest.raises(ArgumentError):
        run(func((part,), store(part, (1, 2), 5)), np.zeros((2, 3), "int32"))


def test_statements_that_nobody_knows() -> None:
    class Odd(AttrStmt):
        """A statement of another project."""

    with pytest.raises(UnsupportedError, match="the interpreter does not know Odd"):
        run(func((), Odd(X, "key", const(0), Evaluate(const(0)))))
