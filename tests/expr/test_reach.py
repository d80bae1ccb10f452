"""How far expressions reach in exact arithmetic, and constants that do not fit."""

from __future__ import annotations

import random
from math import inf

import pytest

from tileloom.base import dtype
from tileloom.base.errors import DTypeError
from tileloom.expr import (
    Broadcast,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Var,
    binary,
    cast,
    const,
    simplify,
)
from tileloom.expr.evaluate import evaluate
from tileloom.expr.reach import UNKNOWN, Reach, beyond_int32
from tileloom.script import tir as T

OPERATORS = (
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b,
    lambda a, b: binary(Min, a, b), lambda a, b: binary(Max, a, b),
)  # fmt: skip
DIVISIONS = (FloorDiv, FloorMod, Div, Mod)


def formula(chance: random.Random, leaves: list[Expr], depth: int) -> Expr:
    """A random expression of int64 variables, whose values do not overflow."""
    if depth == 0 or chance.random() < 0.1:
        return chance.choice([*leaves, const(chance.randint(-9, 9), "int64")])
    a = formula(chance, leaves, depth - 1)
    if chance.random() < 0.3:
        return binary(chance.choice(DIVISIONS), a, const(chance.randint(1, 9), "int64"))
    if chance.random() < 0.1:
        return Select(a > 3, formula(chance, leaves, depth - 1), a)
    return chance.choice(OPERATORS)(a, formula(chance, leaves, depth - 1))


@pytest.mark.parametrize("seed", range(20))
def test_every_value_is_within(seed: int) -> None:
    chance = random.Random(seed)
    i, j = Var("i", "int64"), Var("j", "int64")
    ends = {v: sorted(chance.choices(range(-20, 21), k=2)) for v in (i, j)}
    reach = Reach({v: (low, high) for v, (low, high) in ends.items()})
    for _ in range(20):
        expr = formula(chance, [i, j], 3)
        low, high = reach.of(expr)
        for _ in range(20):
            values = {v: chance.randint(*ends[v]) for v in (i, j)}
            assert low <= evaluate(expr, values) <= high, (expr, values)


def test_nothing_is_cut_at_the_ends_of_the_type() -> None:
    i, n = Var("i"), Var("n")
    reach = Reach({i: (0, 99999)})
    assert reach.of(i * 100000 + 7) == (7, 9999900007)
    assert reach.of(i * 100000 // 100000) == (0, 99999)
    assert reach.of(n + i) == UNKNOWN
    assert reach.of(binary(Min, n, 9) * 3) == (-inf, 27)
    assert reach.of(Ramp(i, const(1 << 20), 4)) == (0, 99999 + 3 * (1 << 20))
    assert reach.of(Broadcast(i, 4)) == (0, 99999)
    assert reach.of(Cast(dtype("int8"), i)) == UNKNOWN
    assert not beyond_int32(reach.of(n * 4))


X, Y, Z, ANY, UP = (Var(name) for name in ("x", "y", "z", "any", "up"))
KNOWN = {X: (3, 20), Y: (-7, 5), Z: (-9, -2), UP: (4, inf)}
EXACT = [
    (X + Y, (-4, 25)),
    (X - Y, (-2, 27)),
    (X * Y, (-140, 100)),
    (Z * Z, (4, 81)),
    (UP * 0, (0, 0)),
    (UP * -2, (-inf, -8)),
    (UP + Y, (-3, inf)),
    (Y - UP, (-inf, 1)),
    (Y // 4, (-2, 1)),
    (UP // 4, (1, inf)),
    (binary(Div, Y, const(4)), (-2, 1)),
    (binary(Div, Z, const(4)), (-3, 0)),
    (Y // X, UNKNOWN),
    (Y // -2, UNKNOWN),
    (X // 1, (3, 20)),
    (X % 7, (0, 6)),
    (X % 21, (0, 20)),
    (X % 20, (0, 19)),
    (Y % 4, (0, 3)),
    (UP % 4, (0, 3)),
    (binary(Mod, Y, const(4)), (-3, 3)),
    (binary(Mod, X, const(30)), (0, 20)),
    (X % Y, UNKNOWN),
    (binary(Min, X, Y), (-7, 5)),
    (binary(Max, X, Y), (3, 20)),
    (binary(Max, ANY, X), (3, inf)),
    (Select(ANY > 2, X, Z), (-9, 20)),
    (T.if_then_else(ANY > 2, Z, X), (-9, 20)),
    (Ramp(X, const(2), 4), (3, 26)),
    (Ramp(X, const(-2), 4), (-3, 20)),
    (Ramp(X, Y, 3), (-11, 30)),
    (Cast(dtype("int8"), X), (3, 20)),
    (Cast(dtype("int8"), X * 6 + 7), (25, 127)),
    (Cast(dtype("int8"), X * 6 + 8), UNKNOWN),
    (Cast(dtype("int8"), Z * 14 - 2), (-128, -30)),
    (Cast(dtype("int8"), Z * 14 - 3), UNKNOWN),
    (Cast(dtype("int32"), Var("b", "int8")), (-128, 127)),
    (Cast(dtype("int32"), Var("b", "uint8")), (0, 255)),
    (Cast(dtype("int32"), Var("b", "bool")), (0, 1)),
    (Cast(dtype("int64"), Var("b", "int32")), UNKNOWN),
    (Cast(dtype("uint8"), X), UNKNOWN),
    (Cast(dtype("int32"), Var("b", "float32")), UNKNOWN),
]


@pytest.mark.parametrize(("expr", "interval"), EXACT, ids=str)
def test_intervals(expr: Expr, interval: tuple[float, float]) -> None:
    assert Reach(KNOWN).of(expr) == interval


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_ends_of_32_bits(sign: int) -> None:
    end = (1 << 31) - (sign == 1)
    for low, high, beyond in (
        (sign * end, sign * end, False),
        (sign * (end + 1), 0, True),
        (0, sign * (end + 1), True),
        (-inf, inf, False),
        (-inf, sign * (end + 1), True),
    ):
        assert beyond_int32((low, high)) == beyond


def test_a_new_range_counts_from_then_on() -> None:
    i = Var("i")
    reach = Reach({i: (0, 3)})
    assert reach.of(i * 2) == (0, 6)
    reach.bind(i, (0, 7))
    assert reach.of(i * 2) == (0, 14)


@pytest.mark.parametrize(("kind", "value"), [("int32", 1 << 31), ("int32", -(1 << 31) - 1),
                                             ("int64", 1 << 63)])  # fmt: skip
def test_constants_of_indices_do_not_wrap(kind: str, value: int) -> None:
    for make in (IntImm, lambda kind, value: const(value, kind)):
        with pytest.raises(DTypeError, match=f"{value} does not fit {kind}"):
            make(kind, value)
    with pytest.raises(DTypeError, match="does not fit"):
        getattr(T, kind)(value)


def test_constants_are_folded_into_a_type_that_holds_them() -> None:
    side = const(131072)
    assert side * side is const(1 << 34, "int64")
    assert side * 131072 is const(1 << 34, "int64")
    assert const(-(1 << 31)) - 1 is const(-(1 << 31) - 1, "int64")
    assert (const(1 << 30) + 1).dtype is dtype("int32")
    most = const((1 << 63) - 1, "int64")
    assert str((most + 1).dtype) == "int64" and not isinstance(most + 1, IntImm)
    assert const(200, "uint8") + const(100, "uint8") is const(44, "uint8")
    assert cast("int32", const((1 << 31) + 7, "int64")) is const(7 - (1 << 31))


def test_rewriting_keeps_types() -> None:
    """What is written in int32 stays so when its parts turn out to be constants."""
    product = Mul(const(1 << 20), const(1 << 20) + 1)
    assert simplify(product) is const(1 << 20)
    i = Var("i")
    assert simplify(Mul(i, const(1 << 20)) * (1 << 11)).dtype is dtype("int32")
