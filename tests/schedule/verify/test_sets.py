"""Expressions as quasi-affine functions and sets agree with their values at every point."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expr.random_exprs import Generator, value_or_none
from tileloom.expr import EQ, Add, Call, Cast, Expr, FloorDiv, IntImm, Mul, Var
from tileloom.schedule.integer_sets import Integers, Space, TooHardError

pytest.importorskip("islpy")

I, J, N = Var("i"), Var("j"), Var("n")
POINTS = [
    dict(zip((I, J, N), point)) for point in itertools.product((-5, -1, 0, 3), (-2, 0, 7), (0, 5))
]


def space() -> Space:
    return Integers([N]).space([I, J])


def at(where: Any, point: dict[Var, int]) -> Any:
    """The set of one point."""
    result = where.universe
    for var, value in point.items():
        result = result.intersect(where.number(var).eq_set(where.constant(value)))
    return result


@given(st.integers(0, 10**9))
@settings(max_examples=150)
def test_random_expressions(seed: int) -> None:
    maker, where = Generator(seed, (I, J, N)), space()
    number, condition = maker.integer(5), maker.condition(4)
    function, holds = where.number(number), where.condition(condition)
    for point in POINTS:
        value = value_or_none(number, point)
        if function is not None and value is not None:
            same = function.eq_set(where.constant(int(value)))
            assert at(where, point).is_subset(same), (str(number), point, value)
        truth = value_or_none(condition, point)
        if holds is not None and truth is not None:
            assert at(where, point).is_subset(holds) == bool(truth), (str(condition), point)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (FloorDiv(I, IntImm("int32", 4)), "{ [i0, i1] -> [(floor((i0)/4))] }"),
        (Call("int32", "tir.shift_left", (I, IntImm("int32", 3))), "{ [i0, i1] -> [(8i0)] }"),
        (
            Call("int32", "tir.bitwise_and", (I, IntImm("int32", 7))),
            "{ [i0, i1] -> [((i0) mod 8)] }",
        ),
        (Cast("int64", I), "{ [i0, i1] -> [(i0)] }"),
    ],
)
def test_readings(expr: Expr, text: str) -> None:
    assert str(space().number(expr)).removeprefix("[p0] -> ") == text


@pytest.mark.parametrize(
    "expr",
    [
        Mul(I, J),
        Mul(I, N),
        FloorDiv(I, J),
        FloorDiv(I, IntImm("int32", 0)),
        Cast("int8", I),
        Call("int32", "tir.bitwise_and", (I, IntImm("int32", 5))),
        Call("int32", "tir.popcount", (I,)),
        Add(I, Var("unknown")),
    ],
)
def test_what_is_not_affine_is_not_read(expr: Expr) -> None:
    assert space().number(expr) is None


def test_points() -> None:
    integers = Integers([N])
    where = integers.space([I, J])
    found = where.condition(EQ(I, N + 2))
    assert found is not None
    params, (i, _) = integers.point(found)
    assert i == params[N] + 2


def test_work_is_limited() -> None:
    integers = Integers(max_operations=10)
    with pytest.raises(TooHardError), integers.limited():
        where: Any = integers.space([I, J])
        where.condition(FloorDiv(I * 3 + J, IntImm("int32", 7)) < J).is_empty()
