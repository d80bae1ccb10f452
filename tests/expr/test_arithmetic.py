"""Sums that are divided, cast or compared: the value for every value, and how far it goes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.expr import (
    Analyzer,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Range,
    Var,
    const,
    evaluate,
)

X, Y, D = Var("x"), Var("y"), Var("d")
W, B, U = Var("w", "int64"), Var("b", "int8"), Var("u", "uint8")
SUMS = [
    X,
    -X,
    X * 6,
    X * 6 + 3,
    X * 6 - 4,
    X * 4 + Y,
    X * 4 - Y * 2,
    X * 3 + Y * 6 + 9,
    X - Y,
    -X - 7,
]
POINTS = [{X: x, Y: y} for x in (-7, -5, -2, -1, 0, 1, 3, 6) for y in (-4, -1, 0, 2, 3)]


def analyzers() -> list[Analyzer]:
    """What knows nothing of the variables, and what knows that they are small, or of one sign."""
    ranges: list[Any] = [
        {}, {X: Range(-7, 14), Y: Range(-4, 8)}, {X: Range(0, 7), Y: Range(0, 4)},
        {X: Range(-7, 8), Y: Range(-4, 5)},
    ]  # fmt: skip
    return [Analyzer(each) for each in ranges]


def holds(known: int, point: dict[Var, int]) -> bool:
    x, y = point[X], point[Y]
    return known < 2 or (x >= 0 and y >= 0 if known == 2 else x <= 0 and y <= 0)


def check(expr: Expr) -> None:
    for number, known in enumerate(analyzers()):
        found = known.simplify(expr)
        for point in POINTS:
            if holds(number, point):
                assert evaluate(found, point) == evaluate(expr, point), (expr, found, point)


@pytest.mark.parametrize("op", [Div, Mod, FloorDiv, FloorMod])
def test_divided_sums_keep_their_values(op: Any) -> None:
    for total, divisor in itertools.product(SUMS, (1, -1, 2, 3, -3, 4, 6)):
        check(op(total, const(divisor)))


@pytest.mark.parametrize(("kind", "other"), [(Min, Max), (Max, Min)])
def test_extrema_keep_their_values(kind: Any, other: Any) -> None:
    both = kind(X, Y)
    for one, two in itertools.product(
        (X, both, both * 2 + 1, -both, both * -2, other(X, Y), X + both, both - other(X, Y)),
        (const(0), const(3), X * 2, Y - 1, -X, both + 1, both * -1),
    ):
        check(kind(one, two))
        check(kind(two, one) - two)


def bounded(low: int, high: int, divisor: tuple[int, int] = (1, 4)) -> Analyzer:
    known = Analyzer()
    known.bind_bounds({X: (low, high), D: divisor, Y: (-9, 9)})
    return known


@pytest.mark.parametrize(
    ("low", "high", "divisor", "quotient", "rest"),
    [
        (0, 9, (1, 4), "x // d", "x % d"),
        (0, 9, (-1, 4), "T.truncdiv(x, d)", "T.truncmod(x, d)"),
        (-1, 9, (1, 4), "T.truncdiv(x, d)", "T.truncmod(x, d)"),
        (0, 9, (3, 3), "x // 3", "x % 3"),
        (1, 9, (3, 3), "x // 3", "x % 3"),
        (-1, 9, (3, 3), "T.truncdiv(x, 3)", "T.truncmod(x, 3)"),
        (-9, 0, (3, 3), "x * -1 // 3 * -1", "x * -1 % 3 * -1"),
        (-9, 1, (3, 3), "T.truncdiv(x, 3)", "T.truncmod(x, 3)"),
        (0, 9, (-3, -3), "x // 3 * -1", "x % 3"),
        (0, 2, (3, 3), "0", "x"),
        (0, 3, (3, 3), "x // 3", "x % 3"),
        (5, 5, (3, 3), "1", "2"),
        (-5, -5, (3, 3), "-1", "-2"),
    ],
)
def test_when_truncation_is_floor(
    low: int, high: int, divisor: tuple[int, int], quotient: str, rest: str
) -> None:
    known = bounded(low, high, divisor)
    assert str(known.simplify(Div(X, D))) == quotient
    assert str(known.simplify(Mod(X, D))) == rest


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Cast("int64", X + 3), 'T.Cast("int64", x) + T.int64(3)'),
        (Cast("int32", Cast("int64", X) * 3 + 1), "x * 3 + 1"),
        (Cast("int8", X), 'T.Cast("int8", x)'),
        (Cast("int32", W + 5), 'T.Cast("int32", w + T.int64(5))'),
        (Cast("int32", Cast("int64", X) + W), 'T.Cast("int32", T.Cast("int64", x) + w)'),
        (Cast("int8", Cast("int32", B) * 2), 'T.Cast("int8", T.Cast("int32", b) * 2)'),
        (Cast("int8", Cast("int32", B) + 1), 'T.Cast("int8", T.Cast("int32", b) + 1)'),
        (Cast("int8", Cast("int32", U)), 'T.Cast("int8", T.Cast("int32", u))'),
        (Cast("int64", const(-3)), "T.int64(-3)"),
    ],
    ids=str,
)
def test_casts_of_sums(expr: Expr, text: str) -> None:
    assert str(bounded(-9, 9).simplify(expr)) == text
