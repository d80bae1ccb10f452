"""Functions of scripts called by hand: what they build and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.base.errors import DTypeError
from tileloom.expr import Call, Var, const
from tileloom.script.atomics import _atomic
from tileloom.script.builders import access_ptr, if_then_else
from tileloom.tir import BufferLoad, make_buffer

X, P = Var("x"), Var("p", "bool")
A = make_buffer((4, 6), "float32", "A")
MOVED = make_buffer((8,), "int8", "M", elem_offset=Var("o"))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (access_ptr(A, "r"),
         'T.tvm_access_ptr(T.type_annotation(), A, 0, 24, 1)'),
        (access_ptr(A, "w"), 'T.tvm_access_ptr(T.type_annotation(), A, 0, 24, 2)'),
        (access_ptr(A, "rw"), 'T.tvm_access_ptr(T.type_annotation(), A, 0, 24, 3)'),
        (access_ptr(A, "rwr"), 'T.tvm_access_ptr(T.type_annotation(), A, 0, 24, 3)'),
        (access_ptr(A, 2), 'T.tvm_access_ptr(T.type_annotation(), A, 0, 24, 2)'),
        (access_ptr(A, "r", offset=5), 'T.tvm_access_ptr(T.type_annotation(), A, 5, 19, 1)'),
        (access_ptr(A, "r", offset=5, extent=3),
         'T.tvm_access_ptr(T.type_annotation(), A, 5, 3, 1)'),
        (access_ptr(MOVED, "r"), 'T.tvm_access_ptr(T.type_annotation(), M, o, 8, 1)'),
        (access_ptr(MOVED, "r", offset=X),
         'T.tvm_access_ptr(T.type_annotation(), M, o + x, 8 - x, 1)'),
    ],
)  # fmt: skip
def test_pointers_into_buffers(made: Any, text: str) -> None:
    assert str(made) == text and made.dtype == "handle"


def test_types_that_pointers_name() -> None:
    kinds = [access_ptr(A, "r", content_lanes=n).args[0].dtype for n in (1, 2, 4)]  # type: ignore[attr-defined]
    assert kinds == ["float32", "float32x2", "float32x4"]


def test_choices() -> None:
    assert if_then_else(True, X, 0) is X and if_then_else(False, X, X + 1) is X + 1
    made: Any = if_then_else(P, X, 1.5)
    assert (made.op, made.dtype) == ("tir.if_then_else", "float32")
    for bad in (X, const(1.0)):
        with pytest.raises(DTypeError, match=f"a condition must be bool, got {bad.dtype}"):
            if_then_else(bad, X, 0)


def test_operands_of_atomic_calls_take_the_type_of_the_place() -> None:
    add, store = _atomic("atomic_add"), _atomic("atomic_store")
    for place in (A[1, 2], Call("handle", "tir.address_of", (BufferLoad(A, [X, X]),))):
        made: Any = add(place, 1)
        assert made.dtype == "float32" and str(made.args[1]) == "T.float32(1.0)"
        assert str(made.args[0]) == str(Call("handle", "tir.address_of", (place,))) or (
            made.args[0] is place
        )
    ordered: Any = add(access_ptr(A, "w"), 1, "release")
    plain: Any = add(A[0, 0], 1, "release")
    assert str(ordered.args[2]) == str(plain.args[2]) == '"release"'
    # Another pointer does not say what it points to: the operand does.
    for pointer in (A.data, Call("handle", "tir.call_extern", (X,)), Call("handle", "tir.f", ())):
        assert add(pointer, 1).dtype == "int32" and add(pointer, 1.5).dtype == "float32"
        assert add(pointer, const(1, "int64")).dtype == "int64"
    assert store(A[0, 0], 1).dtype == "int32" and add(A.data, 1, dtype="int8").dtype == "int8"
