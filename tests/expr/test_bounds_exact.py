"""Bounds and remainders as good as they can be: exact ends, and the largest modulus that holds."""

from __future__ import annotations

import itertools
from math import gcd
from typing import Any

import pytest

from tileloom.expr import (
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    ModularSet,
    Mul,
    Not,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    cast,
    const,
    const_int_bound,
    evaluate,
    intrin,
    modular_set,
    type_range,
)
from tileloom.expr.bounds import BoundAnalyzer, ConstIntBound
from tileloom.expr.modular import intersect, modular, union

X, Y, P = Var("x"), Var("y"), Var("p", "bool")
INTERVALS = [(-9, -7), (-5, -3), (-4, 0), (-2, 2), (-1, 6), (0, 0), (0, 3), (1, 9), (2, 5), (3, 3)]


def spread(expr: Expr, a: tuple[int, int], b: tuple[int, int]) -> list[int]:
    found: list[int] = []
    for i, j in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
        value = evaluate(expr, {X: i, Y: j})
        found += value if isinstance(value, list) else [int(value)]
    return found


EXACT: list[Any] = [
    X * 3 - 2, 5 - X, X * -2, Min(X, Y), Max(X, Y), X + Y * 2, X * Y, intrin.abs(X),
    intrin.bitwise_not(X), X - Y, cast("int64", X) + 1,
    Ramp(X, const(3), 4), Ramp(X, const(-3), 4), Ramp(X, Y, 3), Broadcast(X - 1, 4),
    Shuffle([Broadcast(X, 2), Broadcast(Y, 2)], [0, 3]), Let(Var("v"), X, X + 1),
    Select(const(True), X, Y), Select(const(False), X, Y), X // 3, X // -3, Div(X, const(3)),
    Div(X, const(-2)), intrin.if_then_else(const(1) > 0, X, Y), Cast("int8", X),
]  # fmt: skip


@pytest.mark.parametrize("expr", EXACT, ids=str)
def test_both_ends_are_reached(expr: Expr) -> None:
    for a, b in itertools.product(INTERVALS, INTERVALS):
        found = const_int_bound(expr, {X: a, Y: b})
        values = spread(expr, a, b)
        assert found == (min(values), max(values)), (a, b)


@pytest.mark.parametrize("by", [1, 2, 3, 4, 8])
def test_remainders_by_a_number(by: int) -> None:
    """Exact within one period, and from 0 to the last one beyond."""
    for low, high in INTERVALS:
        found = const_int_bound(FloorMod(X, const(by)), {X: (low, high)})
        if low // by == high // by:
            assert found == (low % by, high % by)
        elif low >= 0:
            assert found == (0, min(by - 1, high))
        else:
            assert found == (0, by - 1)
        rest = const_int_bound(Mod(X, const(by)), {X: (low, high)})
        values = [low if low < 0 else 0, high if high > 0 else 0]
        assert rest == (max(values[0], 1 - by), min(values[1], by - 1))
        assert const_int_bound(Mod(X, const(-by)), {X: (low, high)}) == rest


@pytest.mark.parametrize(
    ("a", "b", "floor", "trunc"),
    [
        ((0, 9), (3, 5), (0, 4), (0, 4)), ((0, 2), (3, 5), (0, 2), (0, 2)),
        ((1, 2), (3, 5), (1, 2), (0, 2)), ((1, 3), (3, 5), (0, 3), (0, 3)),
        ((-1, 9), (3, 5), (0, 4), (-1, 4)), ((-9, 9), (-5, -3), (-4, 0), (-4, 4)),
        ((0, 9), (-5, 5), (-4, 4), (0, 4)), ((-9, -1), (2, 7), (0, 6), (-6, 0)),
        ((0, 9), (0, 5), (0, 4), (0, 4)), ((5, 9), (0, 0), (0, 0), (0, 0)),
    ],
)  # fmt: skip
def test_remainders_by_several_numbers(a: Any, b: Any, floor: Any, trunc: Any) -> None:
    assert const_int_bound(FloorMod(X, Y), {X: a, Y: b}) == floor
    assert const_int_bound(Mod(X, Y), {X: a, Y: b}) == trunc


@pytest.mark.parametrize("op", [FloorDiv, Div], ids=lambda op: op.__name__)
def test_quotients_by_several_numbers(op: Any) -> None:
    """Zero divides nothing: what its neighbours give is all there is."""
    for a, b in itertools.product(INTERVALS, INTERVALS):
        divisors = [d for d in range(b[0], b[1] + 1) if d]
        found = const_int_bound(op(X, Y), {X: a, Y: b})
        if not divisors:
            assert found == type_range(X.dtype)
            continue
        values = [evaluate(op(X, Y), {X: i, Y: d}) for i in range(a[0], a[1] + 1) for d in divisors]
        assert found == (min(values), max(values))


@pytest.mark.parametrize(
    ("expr", "a", "b", "bound"),
    [
        (intrin.bitwise_and(X, Y), (0, 9), (0, 5), (0, 5)),
        (intrin.bitwise_and(X, Y), (-9, 9), (0, 5), (0, 5)),
        (intrin.bitwise_and(X, Y), (2, 9), (-5, -1), (0, 9)),
        (intrin.bitwise_and(X, Y), (-9, 9), (-1, 5), type_range(X.dtype)),
        (intrin.bitwise_or(X, Y), (2, 9), (1, 4), (2, 15)),
        (intrin.bitwise_or(X, Y), (1, 4), (2, 7), (2, 7)),
        (intrin.bitwise_or(X, Y), (-1, 4), (2, 7), type_range(X.dtype)),
        (intrin.bitwise_or(X, Y), (1, 4), (-2, 7), type_range(X.dtype)),
        (intrin.bitwise_xor(X, Y), (2, 9), (1, 4), (0, 15)),
        (intrin.shift_left(X, Y), (-3, 5), (0, 2), (-12, 20)),
        (intrin.shift_left(X, Y), (2, 5), (1, 31), (4, type_range(X.dtype)[1])),
        (intrin.shift_left(X, Y), (2, 5), (1, 32), type_range(X.dtype)),
        (intrin.shift_left(X, Y), (2, 5), (-1, 3), type_range(X.dtype)),
        (intrin.shift_right(X, Y), (-9, 20), (0, 2), (-9, 20)),
        (intrin.shift_right(X, Y), (8, 20), (1, 2), (2, 10)),
        (intrin.shift_right(X, Y), (8, 20), (0, 32), type_range(X.dtype)),
        (intrin.popcount(X), (0, 9), (0, 0), (0, 32)),
        (intrin.clz(cast("int64", X)), (0, 9), (0, 0), (0, 64)),
        (intrin.abs(X), (-4, 7), (0, 0), (0, 7)),
        (intrin.abs(X), (-9, -4), (0, 0), (4, 9)),
        (cast("uint8", X), (0, 255), (0, 0), (0, 255)),
        (cast("uint8", X), (0, 256), (0, 0), (0, 255)),
        (cast("uint8", X), (-1, 3), (0, 0), (0, 255)),
        (cast("bool", X), (1, 3), (0, 0), (1, 1)),
        (cast("bool", X), (-3, -1), (0, 0), (1, 1)),
        (cast("bool", X), (0, 3), (0, 0), (0, 1)),
        (cast("bool", X), (-3, 0), (0, 0), (0, 1)),
        (X < Y, (0, 3), (5, 6), (0, 1)),
        (cast("int32", cast("float32", X)), (0, 3), (0, 0), type_range(X.dtype)),
    ],
)  # fmt: skip
def test_bounds_of_calls(expr: Any, a: Any, b: Any, bound: Any) -> None:
    assert const_int_bound(expr, {X: a, Y: b}) == bound


@pytest.mark.parametrize(("fact", "bound"), [((0, 0), (1, 1)), ((1, 1), (0, 0)), ((0, 1), (0, 1))])
def test_what_is_known_of_a_condition(fact: Any, bound: Any) -> None:
    known = BoundAnalyzer({P: ConstIntBound(*fact), X: ConstIntBound(2, 3), Y: ConstIntBound(7, 9)})
    assert known.of(Not(P)) == bound
    chosen = {(0, 0): (7, 9), (1, 1): (2, 3), (0, 1): (2, 9)}[fact]
    assert known.of(Select(P, X, Y)) == known.of(intrin.if_then_else(P, X, Y)) == chosen


@pytest.mark.parametrize(
    ("kind", "expr", "ends", "bound"),
    [
        ("int8", lambda v: v + 1, (0, 126), (1, 127)), ("int8", lambda v: v + 1, (0, 127), None),
        ("int8", lambda v: v - 1, (-127, 5), (-128, 4)), ("int8", lambda v: v - 1, (-128, 5), None),
        ("uint8", lambda v: v * 2, (0, 127), (0, 254)), ("uint8", lambda v: v * 2, (0, 128), None),
        ("uint32", lambda v: v - 1, (0, 5), None), ("uint32", lambda v: v - 1, (1, 5), (0, 4)),
        ("int32", lambda v: v + 5, (0, (1 << 31) - 1), (5, (1 << 31) - 1)),
        ("int32", lambda v: v * 4, (-(1 << 31), 3), (-(1 << 31), 12)),
        ("int64", lambda v: v + 5, (0, (1 << 63) - 1), (5, (1 << 63) - 1)),
    ],
)  # fmt: skip
def test_the_ends_of_a_type(kind: str, expr: Any, ends: Any, bound: Any) -> None:
    v = Var("v", kind)
    assert const_int_bound(expr(v), {v: ends}) == (bound or type_range(v.dtype))


def test_intervals() -> None:
    for a, b in itertools.product(INTERVALS, INTERVALS):
        one, other = ConstIntBound(*a), ConstIntBound(*b)
        both = set(range(a[0], a[1] + 1)) & set(range(b[0], b[1] + 1))
        assert one.intersect(other) == ((min(both), max(both)) if both else a)
        assert one.union(other) == (min(a[0], b[0]), max(a[1], b[1]))
        assert (a[0] in one, a[1] in one) == (True, True)
        assert a[0] - 1 not in one and a[1] + 1 not in one


# ---------------------------------------------------------------------------- remainders

SETS = [modular(c, b) for c in (0, 1, 2, 3, 4, 6, 12) for b in (0, 1, 5, -3)]


def members(s: ModularSet) -> list[int]:
    return [v for v in range(-60, 61) if v in s]


@pytest.mark.parametrize("a", sorted(set(SETS)), ids=str)
def test_sums_and_products_of_sets(a: ModularSet) -> None:
    """The largest modulus that all results share; more than that is not known."""
    for b in sorted(set(SETS)):
        for op in (Add, Sub, Mul):
            found = modular_set(op(X, Y), {X: a, Y: b})
            values = [
                int(evaluate(op(X, Y), {X: i, Y: j}))
                for i in members(a)[:7] for j in members(b)[:7]
            ]  # fmt: skip
            step = gcd(*(v - values[0] for v in values))
            assert found == modular(step, values[0]), (a, b, op)
        merged = modular_set(Min(X, Y), {X: a, Y: b})
        assert merged == union(a, b) == modular_set(Max(X, Y), {X: a, Y: b})
        step = gcd(*(v - a.base for v in (*members(a), *members(b))))
        assert merged == modular(step, a.base)
        strong = intersect(a, b)
        assert strong in (a, b)
        if 0 in (a.coeff, b.coeff):
            assert strong.coeff == 0
        else:
            assert strong.coeff == max(a.coeff, b.coeff)


@pytest.mark.parametrize(
    ("expr", "known", "wanted"),
    [
        (X // 4, (8, 5), (2, 1)), (X // 4, (6, 5), (1, 0)), (X // 4, (0, 9), (0, 2)),
        (X // Y, (8, 5), (1, 0)), (X // -4, (8, 5), (1, 0)), (X % 4, (8, 5), (0, 1)),
        (X % 4, (6, 5), (2, 1)), (X % 6, (4, 3), (2, 1)), (X % -4, (8, 5), (1, 0)),
        (X % Y, (8, 5), (1, 0)), (cast("int64", X), (12, 5), (12, 5)),
        (cast("int8", X), (12, 5), (4, 1)), (cast("uint8", X), (0, 300), (256, 44)),
        (cast("float32", X), (12, 5), (1, 0)), (intrin.likely(X < 3), (2, 0), (1, 0)),
        (intrin.if_then_else(Y > 0, X, X + 4), (8, 1), (4, 1)),
        (intrin.shift_left(X, 2), (3, 1), (12, 4)), (intrin.shift_left(X, 32), (3, 1), (1, 0)),
        (intrin.shift_left(X, 31), (1, 0), (1 << 31, 0)),
        (intrin.shift_right(X, 1), (4, 0), (1, 0)),
        (intrin.shift_left(X, Y), (4, 0), (1, 0)), (intrin.bitwise_and(X, 4), (8, 1), (1, 0)),
        (Broadcast(X, 4), (6, 5), (6, 5)), (Ramp(X, const(4), 3), (6, 5), (2, 1)),
        (Ramp(X, const(6), 3), (12, 5), (6, 5)), (Let(Y, X * 2, Y + 1), (3, 1), (6, 3)),
        (Select(Y > 0, X, X + 6), (4, 3), (2, 1)), (intrin.abs(X), (4, 3), (1, 0)),
    ],
)  # fmt: skip
def test_remainders_of_operators(expr: Any, known: Any, wanted: Any) -> None:
    assert modular_set(expr, {X: ModularSet(*known)}) == ModularSet(*wanted)


@pytest.mark.parametrize(
    ("kind", "factor", "coeff"),
    [("uint8", 12, 4), ("int8", 12, 4), ("uint32", 12, 4), ("int32", 12, 12), ("int64", 12, 12)],
)
def test_wrapping_around_keeps_powers_of_two(kind: str, factor: int, coeff: int) -> None:
    v = Var("v", kind)
    assert modular_set(v * factor + 1) == ModularSet(coeff, 1)
    few = Call(kind, "tir.shift_left", (v, const(2, kind)))
    assert modular_set(few) == ModularSet(4, 0)
    wide = modular_set(Add(Mul(v, const(0, kind)), const(5, kind)))
    assert wide == ModularSet(0, 5)
