"""Expressions as functions over integer points, held against their values at each point."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tileloom.expr import (
    And,
    Broadcast,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Not,
    Or,
    Select,
    Var,
    cast,
    const,
    evaluate,
    intrin,
)  # fmt: skip
from tileloom.expr.nodes import EQ, NE
from tileloom.schedule.integer_sets import Integers, Space, TooHardError

pytest.importorskip("islpy")
I, J, K, X = Var("i"), Var("j"), Var("k"), Var("x", "float32")
POINTS = [dict(zip((I, J), values)) for values in product(range(-5, 6), (-3, 0, 1, 4))]

NUMBERS: list[Expr] = [
    I + J, I - J * 2, Min(I, J), Max(I, J), I * 3, const(-2) * J, I // 3, I % 3, Div(I, const(3)),
    Mod(I, const(3)), FloorDiv(I, const(-3)), FloorMod(I, const(-3)), Div(I, const(-3)),
    Mod(I, const(-3)), Select(I < J, I, J * 2), intrin.if_then_else(And(I > 0, J > 0), I, J),
    intrin.if_then_else(I < 0, I + J, I - J) + 1, cast("int32", I < J), cast("int64", I + J),
    I << 2, I >> 1, I & 3, I & 0, Let(K, I + 1, K * 2 - J),
    Select(Select(I < 0, J < 1, J > 0), I, J),
]  # fmt: skip
CONDITIONS: list[Expr] = [
    I < J,
    I <= J,
    I > J,
    I >= J,
    EQ(I, J),
    NE(I, J),
    And(I < J, I > 0),
    Or(I < J, I > 2),
    Not(I < J),
    And(I < J, Not(Or(J > 0, I > 2))),
    intrin.likely(I < 2),
    I * 2 < J * 3 - 1,
    EQ(I < 0, J < 1),
    NE(I < 0, J < 1),
    EQ(I % 2, J % 2),
    const(True),
    const(False),
    Select(I < 0, J < 1, J > 0),
    intrin.if_then_else(I < 0, J < 1, J > 0),
    cast("bool", I),
    Let(K, I * 2, K < J),
    And(I < J, const(True)),
    Or(const(False), I > J),
]
UNKNOWN: list[Expr] = [
    I * J,
    I // J,
    I % J,
    Div(I, const(0)),
    Min(I * J, J),
    J + I * J,
    I * J << 1,
    I & 5,
    Select(I * J < 1, I, J),
    Select(I < 1, I * J, J),
    Select(I < 1, J, I * J),
    I | 1,
    cast("int8", I),
    cast("int32", I * J < 3),
    I ^ 1,
    cast("int32", X),
    Let(K, I * J, K + 1),
]
UNSURE: list[Expr] = [
    I * J < 1,
    EQ(I, I * J),
    And(I < 1, I * J < 1),
    And(I * J < 1, I < 1),
    Or(I * J < 1, I < 1),
    Or(I < 1, I * J < 1),
    Not(I * J < 1),
    X < 1.0,
    EQ(I < 1, I * J < 1),
    NE(I * J < 1, I < 1),
    cast("bool", X),
    cast("bool", I * J),
]


@pytest.fixture(scope="module")
def space() -> Space:
    return Integers().space([I, J])


def value_at(function: Any, space: Space, point: dict[Var, int]) -> int:
    """A function's value at one point."""
    return int(function.eval(_isl_point(space, point)).to_python())


def _isl_point(space: Space, point: dict[Var, int]) -> Any:
    return space.integers.set(f"{{ [{point[I]}, {point[J]}] }}").sample_point()


@pytest.mark.parametrize("expr", NUMBERS, ids=str)
def test_numbers(expr: Expr, space: Space) -> None:
    function = space.number(expr)
    assert function is not None
    for point in POINTS:
        assert value_at(function, space, point) == evaluate(expr, point), point


@pytest.mark.parametrize("expr", CONDITIONS, ids=str)
def test_conditions(expr: Expr, space: Space) -> None:
    where = space.condition(expr)
    assert where is not None
    for point in POINTS:
        there = space.integers.set(f"{{ [{point[I]}, {point[J]}] }}").is_subset(where)
        assert there == bool(evaluate(expr, point)), point


@pytest.mark.parametrize("expr", UNKNOWN, ids=str)
def test_numbers_that_are_not_affine(expr: Expr, space: Space) -> None:
    assert space.number(expr) is None


@pytest.mark.parametrize("expr", UNSURE, ids=str)
def test_conditions_that_are_not_affine(expr: Expr, space: Space) -> None:
    assert space.condition(expr) is None


def test_what_is_repeated_for_lanes(space: Space) -> None:
    function, where = space.number(Broadcast(I, 4)), space.condition(Broadcast(I < J, 4))
    assert function is not None and function.is_equal(space.number(I))
    assert where is not None and where.is_equal(space.condition(I < J))


def test_boxes_and_ranges() -> None:
    n = Var("n")
    integers = Integers([n])
    box: Any = integers.box([const(3), n])
    assert box.is_equal(integers.set("[p0] -> { [x, y] : 0 <= x < 3 and 0 <= y < p0 }"))
    assert integers.box([n * Var("m")]) is None
    space = integers.space([I])
    part: Any = space.between(const(2), space.number(I), n)
    assert part.is_equal(integers.set("[p0] -> { [i] : 2 <= i < p0 + 2 }"))
    assert space.between(n * n, space.number(I), n) is None
    assert space.between(n, space.number(I), n * n) is None
    given, at = integers.point(integers.set("[p0] -> { [i] : i = p0 and p0 = 7 }"))
    assert (given, at) == ({n: 7}, (7,))
    assert integers.point(integers.set("{ [4, 5] }")) == ({}, (4, 5))


@pytest.mark.parametrize("number", [0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 63) - 1])
def test_large_numbers(number: int) -> None:
    integers = Integers()
    assert integers.value(number).to_python() == number
    assert (
        integers.space([I])
        .constant(number)
        .eval(integers.set("{ [0] }").sample_point())
        .to_python()
        == number
    )


def test_functions_as_maps(space: Space) -> None:
    made = space.map([space.number(I + 1), space.number(J * 2)])
    assert made.is_equal(space.integers.map("{ [i, j] -> [i + 1, 2j] }"))


def test_what_is_not_known_may_be_told() -> None:
    integers = Integers()
    integers.resolve = lambda space, expr: space.number(I)
    space: Any = integers.space([I])
    assert space.number(Cast("int8", I)).is_equal(space.number(I))
    assert space.number(I * I) is None  # a product is not asked for


def test_hard_questions_are_given_up() -> None:
    integers = Integers(max_operations=1)
    with pytest.raises(TooHardError), integers.limited():
        integers.set("{ [i, j, k] : i + j < 3k and 5i > j + k and i * 7 < 9 + k }").lexmin()
