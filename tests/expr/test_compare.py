"""Comparisons: what is decided, and the one form of what is not, held against all small values."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tileloom.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Analyzer,
    Expr,
    IntImm,
    Not,
    Range,
    Var,
    cast,
    const,
    evaluate,
)

X, Y, Z, P = Var("x"), Var("y"), Var("z"), Var("p", "bool")
#: z is a digit of base 4, the others may be anything.
DIGIT = Analyzer({Z: Range(0, 4)})
KINDS = (LT, LE, GT, GE, EQ, NE)
ENDS = {X: (-3, 5), Y: (0, 6), Z: (2, 4)}
SMALL = Analyzer({v: Range(low, high - low + 1) for v, (low, high) in ENDS.items()})


def holds(condition: Expr) -> list[bool]:
    """The condition at all small values."""
    runs = [range(low, high + 1) for low, high in ENDS.values()]
    points = (dict(zip(ENDS, at, strict=True)) for at in itertools.product(*runs))
    return [bool(evaluate(condition, point)) for point in points]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_affine_sums_are_decided_wherever_they_can_be(kind: Any, seed: int) -> None:
    """Each variable stands on one side once, so the bounds of the sides say all there is."""
    pick = random.Random(seed)

    def part(var: Var) -> Expr:
        made: Expr = var * const(pick.choice([-6, -4, -3, -2, -1, 1, 1, 2, 3, 4, 6]))
        return made

    a = part(X) + pick.randint(-12, 12)
    b = pick.choice([part(Y), part(Y) + part(Z), const(0)]) + pick.randint(-20, 20)
    condition = kind(a, b)
    found, truths = SMALL.simplify(condition), holds(condition)
    assert holds(found) == truths
    if len(set(truths)) == 1 and kind not in (EQ, NE):
        assert isinstance(found, IntImm) and bool(found.value) is truths[0]


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (X > 5, "5 < x"), (X >= 5, "4 < x"), (X < 5, "x < 5"), (X <= 5, "x < 6"),
        (const(5) > X, "x < 5"), (const(5) <= X, "4 < x"), (-X < 5, "-5 < x"), (-X >= 5, "x < -4"),
        (X + 2 < 5, "x < 3"), (X - Y < 1, "x <= y"), (X - Y < 0, "x < y"), (X <= Y, "x <= y"),
        (X - Y > 2, "y + 2 < x"), (X - Y < 3, "x < y + 3"), (X + 7 < Y + 4, "x + 3 < y"),
        (X + Y < 3, "x + y < 3"), (X + 1 <= Y, "x < y"), (X + 2 <= Y, "x + 1 < y"),
        (X * 2 < Y * 4 + 3, "x < y * 2 + 2"), (X * 2 < Y * 4 - 3, "x + 1 < y * 2"),
        (X * 3 < 7, "x < 3"), (X * 3 > 7, "2 < x"), (X * -3 < 7, "-3 < x"), (X * 3 <= 9, "x < 4"),
        (X * 4 + Z < 8, "x < 2"), (X * 4 + Z < 11, "x * 4 + z < 11"), (X * 4 + Z > 3, "0 < x"),
        (X * 4 + Z <= Y * 4 + 3, "x <= y"), (X * 4 + Z < Y * 4, "x < y"),
        (X * 8 + Y * 4 + Z < 12, "x * 2 + y < 3"),
        (X // 4 < 3, "x < 12"), (X // 4 <= 3, "x < 16"), (X // 4 > 3, "15 < x"),
        (X // 4 >= 3, "11 < x"), (X // 4 < -1, "x < -4"), (2 - X // 4 < 0, "11 < x"),
        ((X + 3) // 4 < 3, "x < 9"), ((X + Y) // 4 >= 1, "3 < x + y"),
        (X // 4 * 2 < 6, "x < 12"), (X // 4 < Y, "x // 4 < y"), (X // 4 == 3, "x // 4 == 3"),
        (X % 4 < 4, "True"), (X % 4 < 3, "x % 4 < 3"), (X % 4 >= 0, "True"), (Z < 4, "True"),
        (Z > 3, "False"), (Z >= 4, "False"), (Z <= 3, "True"), (Z < 3, "z < 3"),
        (X * 2 == 6, "x == 3"), (X * 2 == 5, "False"), (X * 2 != 5, "True"), (Z == 4, "False"),
        (Z != 4, "True"), (Z == 3, "z == 3"), (-X == 3, "x == -3"), (X - X == 0, "True"),
        (X - X != 0, "False"), (X * 4 + Y * 6 == 3, "False"), (X * 4 + 2 == Y * 8, "False"),
        (X * 2 + 4 == Y * 6, "x == y * 3 - 2"), (X == Y, "x == y"), (Y == X, "x == y"),
        (Y - X == 3, "x == y - 3"), (X - Y != 3, "x != y + 3"), (3 - X == Y, "x + y == 3"),
        (X % 4 == 5, "False"), ((X * 6 + 1) % 4 == 2, "False"), ((X * 4 + 1) % 4 == 1, "True"),
        (X < X, "False"), (X <= X, "True"), (X < X + 1, "True"),
        (cast("int32", P) == 1, "p"), (cast("int32", P) == 0, "not p"),
        (cast("int32", P) != 1, "not p"), (cast("int32", P) < 1, "not p"),
        (cast("int32", P) > 0, "p"), (cast("int32", P) == 2, "False"),
        (cast("int32", P) < 2, "True"),
        (cast("int32", P) * 3 < 2, "not p"), (cast("int32", P) * 3 > 2, "p"),
        (cast("int32", P) * 3 > 3, "False"), (cast("int32", P) * -3 < -2, "p"),
    ],
)  # fmt: skip
def test_forms(condition: Any, text: str) -> None:
    found = DIGIT.simplify(condition)
    assert {"True": "T.bool(True)", "False": "T.bool(False)"}.get(text, text) == str(found)
    opposite = DIGIT.simplify(Not(condition))
    both = Analyzer({Z: Range(0, 4)}).simplify
    for x, y, z, p in itertools.product(
        (-5, -4, -1, 0, 2, 3, 12, 16), (-2, 0, 1, 5), range(4), (0, 1)
    ):
        env = {X: x, Y: y, Z: z, P: p}
        assert bool(evaluate(found, env)) is bool(evaluate(condition, env))
        assert bool(evaluate(both(opposite), env)) is not bool(evaluate(condition, env))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("side", [-1, 1])
def test_numbers_out_of_the_type_are_no_neighbours(kind: Any, side: int) -> None:
    """Nothing lies beyond the ends of the type, and the ends themselves are compared."""
    last = (1 << 31) - 1 if side > 0 else -(1 << 31)
    condition = Analyzer().simplify(kind(X, const(last)))
    for value in (last, last - side, last - 2 * side, 0):
        expected = evaluate(kind(const(value), const(last)), {})
        assert bool(evaluate(condition, {X: value})) is bool(expected)


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        (X // Y * Y < X + 1, False), (X % Y < Y, True), (X % Y < Y + 1, True),
        (X % Y < Y - 1, False),
        (X % Y <= Y - 1, True), (X % Y >= 0, True), (X % Y * 2 < Y * 2, True),
        (X % Y + Z < Y, False),
    ],
)  # fmt: skip
def test_remainders_of_open_bases(condition: Any, known: bool) -> None:
    for low in (1, 5):
        analyzer = Analyzer({Y: Range(low, 100), X: Range(0, 1000)})
        assert analyzer.can_prove(condition) is known or not known
    assert not Analyzer({Y: Range(0, 100)}).can_prove(X % Y < Y)
