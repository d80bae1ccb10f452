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
