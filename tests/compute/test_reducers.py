"""Reducers: combiners, identities, and the mistakes they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tileloom import compute as te
from tileloom.base.errors import DTypeError, UserError
from tileloom.expr import FloatImm, IntImm, Reduce, const, substitute


def over(kind: str = "float32") -> tuple[Any, ...]:
    source = te.placeholder((4, 8), kind, "A")
    return source, te.reduce_axis((0, 8), "k")


def test_equal_reductions_are_one_expression() -> None:
    A, k = over()
    assert te.sum(A[0, k], axis=k) is te.sum(A[0, k], axis=[k])
    assert te.sum(A[0, k], axis=k) is not te.max(A[0, k], axis=k)


@pytest.mark.parametrize(
    ("reducer", "kind", "identity"),
    [
        (te.sum, "float32", 0.0), (te.prod, "int32", 1), (te.max, "float16", -math.inf),
        (te.min, "bfloat16", math.inf), (te.max, "int8", -128), (te.min, "uint8", 255),
        (te.max, "uint32", 0), (te.any, "bool", 0), (te.all, "bool", 1), (te.max, "bool", 0),
    ],
)  # fmt: skip
def test_identities(reducer: te.Reducer, kind: str, identity: float) -> None:
    neutral: Any = reducer.combiner(kind).identity[0]
    assert neutral.dtype == kind and neutral.value == identity


def test_where_and_init_are_kept() -> None:
    A, k = over()
    part = te.sum(A[0, k], axis=k, where=k.var < 3, init=1.0)
    assert isinstance(part, Reduce)
    assert str(part.condition) == "k < 3" and part.init == (const(1.0),)


def combine(reducer: te.Reducer, kind: str, x: tuple[int, ...], y: tuple[int, ...]) -> Any:
    comb = reducer.combiner("int32", kind)
    make = FloatImm if kind.startswith("float") else IntImm
    values = {
        comb.lhs[0]: const(x[0]), comb.lhs[1]: make(kind, x[1]),
        comb.rhs[0]: const(y[0]), comb.rhs[1]: make(kind, y[1]),
    }  # fmt: skip
    return [substitute(part, values) for part in comb.result]


def test_argmax_is_a_pair_of_selects() -> None:
    A, k = over("int32")
    index, value = te.argmax((k.var, A[0, k]), axis=k)
    assert (index.value_index, value.value_index) == (0, 1)
    first, second = combine(te.argmax, "int32", (0, 5), (1, 7))
    assert (str(first.true_value), str(second.false_value)) == ("0", "7")


def test_sum_of_bool_and_any_of_float_are_refused() -> None:
    A, k = over("bool")
    with pytest.raises(DTypeError, match="sum of bool"):
        te.sum(A[0, k], axis=k)
    B, j = over()
    with pytest.raises(DTypeError, match="any needs bool values, got float32"):
        te.any(B[0, j], axis=j)


def test_a_reducer_of_ones_own() -> None:
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]),
        lambda s, t: (const(0, s), const(1, t)),
    )
    A, k = over()
    added, multiplied = te.compute((4,), lambda i: pair((A[i, k], A[i, k]), axis=k), name="B")
    assert added.op is multiplied.op
    assert [part.value_index for part in added.op.body] == [0, 1]


def test_a_combiner_must_return_what_it_takes() -> None:
    A, k = over()
    wrong = te.comm_reducer(lambda x, y: x < y, lambda t: const(0, t), "wrong")
    with pytest.raises(DTypeError, match="'wrong' makes"):
        wrong(A[0, k], axis=k)
    short = te.comm_reducer(lambda x, y: x[0], lambda s, t: const(0, s), "short")
    with pytest.raises(UserError, match="'short' of 2 values"):
        short((A[0, k], A[1, k]), axis=k)
