"""Bounds and modular sets of every operator, on all small intervals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tileloom.base import dtype
from tileloom.base.errors import UserError
from tileloom.expr import (
    Add,
    Call,
    Cast,
    ConstIntBound,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    ModularSet,
    Mul,
    Ramp,
    Select,
    SizeVar,
    Sub,
    Var,
    const,
    const_int_bound,
    evaluate,
    intrin,
    modular_set,
    type_range,
)

OPERATORS = [Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max]
CALLS = ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"]
INTERVALS = [(-5, -3), (-4, 0), (-2, 2), (0, 0), (0, 3), (2, 5), (3, 3), (-1, 6)]


def tight(values: Sequence[int], bound: ConstIntBound) -> bool:
    return min(values) == bound[0] and max(values) == bound[1]


@pytest.mark.parametrize("kind", ["int32", "int8"])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_operators(op: Any, kind: str) -> None:
    x, y = Var("x", kind), Var("y", kind)
    inexact = 0
    for a, b in itertools.product(INTERVALS, INTERVALS):
        expr = op(x, y)
        bound = const_int_bound(expr, {x: a, y: b})
        values = []
        for i, j in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
            try:
                values.append(evaluate(expr, {x: i, y: j}))
            except UserError:
                continue
        if values:
            assert bound[0] <= min(values) <= max(values) <= bound[1]
            inexact += not tight(values, bound)
    # Interval arithmetic is exact but for remainders, whose operands hang together.
    assert inexact == 0 if op not in (FloorMod, Mod) else inexact < 40


@pytest.mark.parametrize("kind", ["int32", "int8", "uint8"])
@pytest.mark.parametrize("op", CALLS)
def test_bit_operations(op: str, kind: str) -> None:
    x, y = Var("x", kind), Var("y", kind)
    expr = Call(kind, f"tir.{op}", (x, y))
    for a, b in itertools.product(INTERVALS, INTERVALS):
        if (kind == "uint8" and (a[0] < 0 or b[0] < 0)) or ("shift" in op and b[0] < 0):
            continue
        bound = const_int_bound(expr, {x: a, y: b})
        for i, j in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1)):
            assert evaluate(expr, {x: i, y: j}) in bound


def test_wrap_around_is_respected() -> None:
    u, s, i = Var("u", "uint8"), Var("s", "int8"), Var("i")
    assert const_int_bound(u + 1) == (0, 255)
    assert const_int_bound(u + 1, {u: (0, 254)}) == (1, 255)
    assert const_int_bound(u - 1, {u: (1, 9)}) == (0, 8)
    assert const_int_bound(s * 2, {s: (0, 63)}) == (0, 126)
    assert const_int_bound(s * 2, {s: (0, 64)}) == (-128, 127)
    assert const_int_bound(i + 1) == (-(1 << 31) + 1, (1 << 31) - 1)
    assert const_int_bound(intrin.bitwise_not(u), {u: (1, 3)}) == (252, 254)
    assert const_int_bound(intrin.abs(s)) == (-128, 127)


def test_other_nodes() -> None:
    x, n = Var("x"), SizeVar("n")
    assert const_int_bound(n)[0] == 0
    assert const_int_bound(Select(x < 3, const(1), const(7))) == (1, 7)
    assert const_int_bound(Cast("uint8", x), {x: (3, 9)}) == (3, 9)
    assert const_int_bound(Cast("uint8", x), {x: (-1, 9)}) == (0, 255)
    assert const_int_bound(Cast("int32", Var("f", "float32"))) == type_range(dtype("int32"))
    assert const_int_bound(Ramp(x, const(-2), 4), {x: (0, 5)}) == (-6, 5)
    assert const_int_bound(intrin.popcount(x)) == (0, 32)
    assert const_int_bound(x < 3) == (0, 1)
    assert ConstIntBound(0, 3).union(ConstIntBound(5, 6)) == (0, 6)
    assert 3 in ConstIntBound(0, 3)
    assert 4 not in ConstIntBound(0, 3)


MODULAR = [
    (lambda x, y: x * 4 + y * 6, ModularSet(2, 0)),
    (lambda x, y: x * 4 + 3, ModularSet(4, 3)),
    (lambda x, y: (x * 4 + 3) * (y * 6 + 1), ModularSet(2, 1)),
    (lambda x, y: (x * 8 + 5) // 4, ModularSet(2, 1)),
    (lambda x, y: (x * 8 + 5) % 4, ModularSet(0, 1)),
    (lambda x, y: (x * 6 + 5) % 4, ModularSet(2, 1)),
    (lambda x, y: intrin.min(x * 4, y * 4 + 2), ModularSet(2, 0)),
    (lambda x, y: Select(x < y, x * 6, x * 6 + 4), ModularSet(2, 0)),
    (lambda x, y: intrin.shift_left(x, 3), ModularSet(8, 0)),
    (lambda x, y: const(7) + x * 0, ModularSet(0, 7)),
]


@pytest.mark.parametrize(("build", "expected"), MODULAR)
def test_modular_sets(build: Callable[..., Any], expected: ModularSet) -> None:
    x, y = Var("x"), Var("y")
    expr = build(x, y)
    assert modular_set(expr) == expected
    for i, j in itertools.product(range(-6, 7), range(-6, 7)):
        assert evaluate(expr, {x: i, y: j}) in expected


def test_modular_sets_under_wrap_around() -> None:
    u = Var("u", "uint8")
    assert modular_set(u * 6) == ModularSet(2, 0)
    assert modular_set(u * 4 + 3) == ModularSet(4, 3)
    for value in range(256):
        assert evaluate(u * 6, {u: value}) in modular_set(u * 6)
