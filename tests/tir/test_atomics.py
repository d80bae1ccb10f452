"""What is wrong with atomic calls, and what they touch."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.errors import VerifyError
from tileloom.expr import Broadcast, Call, StringImm, Var, const
from tileloom.expr.atomic_ops import ATOMIC_ORDERS, ATOMIC_VALUES
from tileloom.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    LetStmt,
    make_buffer,
    seq,
)
from tileloom.tir.atomics import (
    atomic_buffers,
    atomic_calls,
    atomic_complaints,
    atomic_order,
    atomic_parts,
    atomic_place,
    atomic_values,
    has_atomic,
    written_pointers,
)

A = make_buffer((8,), "int32", "A")
F = make_buffer((8,), "float32", "F")
M = make_buffer((4, 8), "int32", "M")
V = make_buffer((8,), "int32x4", "V")
W = make_buffer((8,), "int32x2", "W")


def address(buffer: Any, *indices: int) -> Call:
    load = BufferLoad(buffer, [const(i) for i in indices])
    return Call("handle", "tir.address_of", [load])


def atomic(name: str, *args: Any, kind: str = "int32") -> Call:
    parts = [StringImm(a) if isinstance(a, str) else a for a in args]
    return Call(kind, f"tir.atomic_{name}", parts)


ONE, HALF = const(1), const(0.5, "float32")


@pytest.mark.parametrize("op", sorted(ATOMIC_VALUES))
def test_calls_in_any_order_are_right(op: str) -> None:
    values = [const(k) for k in range(ATOMIC_VALUES[op])]
    plain = Call("int32", op, [address(A, 2), *values])
    assert not list(atomic_complaints(plain))
    assert (atomic_order(plain), len(atomic_values(plain))) == ("relaxed", len(values))
    for order in ATOMIC_ORDERS:
        call = Call("int32", op, [address(A, 2), *values, StringImm(order)])
        assert not list(atomic_complaints(call)) and atomic_order(call) == order


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (atomic("add", address(A, 0)), "takes a pointer and 1 values, got 1 arguments"),
        (atomic("add", address(A, 0), ONE, "relaxed", ONE), "takes a pointer and 1 values, got 4"),
        (atomic("add", ONE, ONE), "takes a pointer to an element first, not 1"),
        (atomic("add", address(A, 0), ONE, "soon"), "is ordered by one of"),
        (atomic("add", address(A, 0), ONE, ONE), "is ordered by one of"),
        (atomic("add", address(A, 0), HALF), "of a int32 takes a int32, got float32"),
        (atomic("add", address(A, 0), ONE, kind="int64"), "gives a int32, not a int64"),
        (atomic("add", address(V, 0), Broadcast(ONE, 4), kind="int32x4"), "takes single elements"),
        (atomic("min", address(W, 0), Broadcast(ONE, 2), kind="int32x2"), "takes single elements"),
        (atomic("and", address(F, 0), HALF, kind="float32"), "atomic_and needs integers, got f"),
        (
            atomic("or", address(F, 0), HALF, kind="float32"),
            "atomic_or needs integers, got f",
        ),
        (atomic("xor", address(F, 0), HALF, kind="float32"), "atomic_xor needs integers, got f"),
        (atomic("load", address(A, 0), ONE), "is ordered by one of"),
        (atomic("load", address(A, 0), ONE, ONE), "takes a pointer and 0 values, got 3"),
        (atomic("cas", address(A, 0), ONE), "takes a pointer and 2 values, got 2"),
        (atomic("cas", address(A, 0), ONE, HALF), "of a int32 takes a int32, got float32: T.float"),
        (atomic("cas", address(A, 0), HALF, ONE), "of a int32 takes a int32, got float32: T.float"),
        (atomic("exchange", address(F, 0), HALF), "of a float32 gives a float32, not a int32"),
    ],
)
def test_complaints(call: Call, text: str) -> None:
    (found,) = atomic_complaints(call)
    assert text in found


def test_stores_give_nothing() -> None:
    assert not list(atomic_complaints(atomic("store", address(A, 0), ONE, kind="handle")))


def test_places() -> None:
    flat, deep = atomic("add", address(A, 3), ONE), atomic("add", address(M, 1, 2), ONE)
    assert atomic_place(flat).index == const(3) and atomic_place(deep).index is None
    assert atomic_parts(deep) == (const(1), const(2), ONE)
    kind = Call("int32", "tir.type_annotation", [])
    pointer = Call("handle", "tir.tvm_access_ptr", [kind, A.data, const(5), const(1), const(3)])
    place = atomic_place(atomic("add", pointer, ONE))
    assert (place.data, place.dtype, place.index, place.load) == (A.data, "int32", const(5), None)
    assert atomic_parts(atomic("add", pointer, ONE)) == (const(5), ONE)
    with pytest.raises(VerifyError, match="takes a pointer to an element first"):
        atomic_place(atomic("add", A.data, ONE))
    assert has_atomic(flat + 1) and not has_atomic(Var("x") + 1) and not has_atomic(ONE)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op", ["add", "min", "max", "exchange"])
def test_floats_are_added_and_compared(op: str, kind: str) -> None:
    place = address(make_buffer((8,), kind, "H"), 0)
    assert not list(atomic_complaints(atomic(op, place, const(1.0, kind), kind=kind)))


def test_calls_inside_of_others_come_first() -> None:
    inner = atomic("exchange", address(A, 1), ONE)
    middle = atomic("add", address(A, 0), inner + 2)
    outer = atomic("cas", address(A, 2), middle, inner)
    assert list(atomic_calls(outer * 3)) == [inner, middle, inner, outer]
    assert list(atomic_calls(Var("x") + 1)) == []


def test_what_is_touched_by_atomic_calls_alone() -> None:
    add = atomic("add", address(A, 0), ONE)
    nested = atomic("add", Call("handle", "tir.address_of", [BufferLoad(A, [add])]), ONE)
    read = atomic("load", address(M, 0, 1))
    both = seq(Evaluate(add), BufferStore(F, HALF, (const(0),)))
    for stmt, found, written in [
        (Evaluate(add), {A}, {A}),
        (Evaluate(nested), {A}, {A}),
        (Evaluate(read), {M}, set()),
        (Evaluate(atomic("store", address(A, 0), read)), {A, M}, {A}),
        (both, {A}, {A, F}),
        (seq(both, Evaluate(BufferLoad(A, [ONE]))), set(), {A, F}),
        (seq(Evaluate(add), BufferStore(A, ONE, (const(0),))), set(), {A}),
        (LetStmt(Var("x"), add, Evaluate(BufferLoad(F, [ONE]))), {A}, {A}),
        # An index of the place itself is read as anything else.
        (Evaluate(atomic("add", Call("handle", "tir.address_of",
                                     [BufferLoad(A, [BufferLoad(M, [ONE, ONE])])]), ONE)),
         {A}, {A}),
        (Evaluate(atomic("add", address(A, 0), BufferLoad(A, [ONE]))), set(), {A}),
    ]:  # fmt: skip
        assert atomic_buffers(stmt) == found
        assert written_pointers(stmt) == {buffer.data for buffer in written}
    index = BufferLoad(A, [ONE])
    declared = Block((), (BufferRegion.point(A, [index]),), (), "b", Evaluate(add))
    assert atomic_buffers(BlockRealize((), const(True), declared)) == {A}
