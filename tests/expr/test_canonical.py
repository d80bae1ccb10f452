"""Divisions, remainders and minima of sums: the one form that each comes to, and its values."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.expr import (
    Analyzer,
    Div,
    Expr,
    Max,
    Min,
    Mod,
    Range,
    Var,
    cast,
    const,
    evaluate,
)

#: i is in [0, 100), j in [0, 64), k in [0, 8), s in [-20, 20], n in [1, 100]; the others are open.
I, J, K, S, N = (Var(name) for name in "ijksn")
X, Y, Z, M = (Var(name) for name in "xyzm")
DOMAINS = {
    I: Range(0, 100), J: Range(0, 64), K: Range(0, 8), S: Range(-20, 41), N: Range(1, 100),
}  # fmt: skip
SAMPLES = {
    I: (0, 1, 7, 99), J: (0, 3, 62, 63), K: (0, 1, 6, 7), S: (-20, -3, 0, 20), N: (1, 2, 5, 100),
    X: (-13, -1, 0, 5, 48), Y: (-7, 0, 2, 9), Z: (-4, 0, 3), M: (-2, 1, 3),
}  # fmt: skip

FORMS: list[tuple[Any, str]] = [
    # A modulo inside that makes no difference goes.
    ((X % 8 + Y) % 4, "(x + y) % 4"),
    ((X % 8 * 3 + Y) % 4, "(x * 3 + y) % 4"),
    ((X % 6 + Y) % 4, "(x % 6 + y) % 4"),
    ((X % 6 * 2 + Y) % 4, "(x * 2 + y) % 4"),
    ((X % 8 + Y) % 8, "(x + y) % 8"),
    ((X % 12 * 2 + Y) % 8, "(x * 2 + y) % 8"),
    ((X % N + Y) % 4, "(x % n + y) % 4"),
    # Terms that cancel are drawn into a minimum, times any factor.
    (Min(X - Y, Z) * 2 + Y * 2, "T.min(y + z, x) * 2"),
    (Max(X - Y, Z) * 3 + Y * 3 - Z * 3, "T.max(x - z, y) * 3"),
    (Min(X - Y, Z) * 2 + Y * 4, "y * 4 + T.min(x - y, z) * 2"),
    (Min(X - Y, Z) * 2 + Y * 3, "y * 3 + T.min(x - y, z) * 2"),
    (Min(X - Y, Z) + Y * 2, "y * 2 + T.min(x - y, z)"),
    (Min(X * 2 - Y, Z) * -1 - Y, "T.min(x * 2, y + z) * -1"),
    (Min(X, Y) * 2 + Max(X, Y) * 2, "x * 2 + y * 2"),
    (Min(X, Y) * 2 + Max(X, Y), "T.min(x, y) * 2 + T.max(x, y)"),
    (Min(X, Y) + Max(X, Z), "T.max(x, z) + T.min(x, y)"),
    (Max(X, Y) + Min(X, Y) + Z, "x + y + z"),
    (Min(X + Y, X + Z) - X, "T.min(y, z)"),
    (Max(X - Y, const(0)) + Y, "T.max(x, y)"),
    (Min(N - I * 8, const(8)) + I * 8, "T.min(i * 8 + 8, n)"),
    (Max(X, Y) + X * 2, "x * 2 + T.max(x, y)"),
    # The pieces of one number come together again.
    (X % 8 // 2 + X // 8 * 4, "x // 2"),
    (X % 8 // 2 * 3 + X // 8 * 12, "x // 2 * 3"),
    (X % 8 // 2 * 3 + X // 8 * 4, "x // 8 * 4 + x % 8 // 2 * 3"),
    (X % 24 // 2 + X % 48 // 24 * 12, "x % 48 // 2"),
    (X % 24 // 2 + X % 40 // 24 * 12, "x % 40 // 24 * 12 + x % 24 // 2"),
    (X % 24 // 2 + X // 24 * 12, "x // 2"),
    (X % 6 // 2 + X // 6 * 3, "x // 2"),
    (X % 6 // 2 + Y // 6 * 3, "y // 6 * 3 + x % 6 // 2"),
    (X // 4 % 3 + X // 12 * 3, "x // 4"),
    (X % 8 * 5 + X // 8 * 40, "x * 5"),
    (X % 8 * 5 - X * 5, "x // 8 * -40"),
    (X - X % 8, "x // 8 * 8"),
    (X * 3 - X % 8 * 3, "x // 8 * 24"),
    (X * 2 - X % 8 * 3, "x * 2 - x % 8 * 3"),
    ((X + 3) - (X + 3) % 8, "(x + 3) // 8 * 8"),
    (X - X // 8 * 8, "x % 8"),
    (X * 2 - X // 8 * 16, "x % 8 * 2"),
    (X - X // 8 * 4, "x - x // 8 * 4"),
    (Y - X // 8 * 8 + X, "x % 8 + y"),
    (X % N + X // N * N, "x"),
    (X % N * 2 + X // N * N * 2, "x * 2"),
    (X % N * 2 + X // N * N, "x % n * 2 + x // n * n"),
    (X % N * M + X // N * N * M, "x * m"),
    (X % N * M * 3 + X // N * N * M * 3, "x * m * 3"),
    (X % (N * M) + X // (N * M) * (N * M), "x"),
    # Divisions of sums, by what divides some of the terms.
    ((I * 8 + K) // 8, "i"),
    ((I * 8 + K + 8) // 8, "i + 1"),
    ((I * 8 + K + 1) // 8, "(k + 1) // 8 + i"),
    ((I * 8 - K) // 8, "k * -1 // 8 + i"),
    ((I * 8 + K - 8) % 8, "k"),
    ((I * 12 + K) // 4, "i * 3 + k // 4"),
    ((I * 12 + K) % 6, "k % 6"),
    ((I * 12 + J * 4 + K % 4) // 4 % 3, "j % 3"),
    ((I * 64 + J) // 16, "i * 4 + j // 16"),
    ((I * 64 + J) % 16, "j % 16"),
    ((-I * 8 - K - 1) // 8, "i * -1 - 1"),
    ((-I * 8 - K - 1) % 8, "7 - k"),
    (-I // -8, "i // 8"),
    (-I % -8, "i % 8 * -1"),
    ((I * 8 + K) // -8, "k * -1 // 8 - i"),
    ((I * 8 + K) % -8, "k * -1 % 8 * -1"),
    (X // 3 // 5, "x // 15"),
    ((X // 3 + 1) // 5, "(x + 3) // 15"),
    ((X // 3 - 1) % 5, "(x + 12) % 15 // 3"),
    (X // 3 % 5 * 3 + X % 3, "x % 15"),
    (X % 15 // 3, "x % 15 // 3"),
    (X % 14 // 3, "x % 14 // 3"),
    ((X * 4 + 2) // 4, "x"),
    ((X * 4 + 2) % 4, "2"),
    ((X * 4 - 1) // 4, "x - 1"),
    ((X * 4 + 6) // 8, "(x + 1) // 2"),
    ((X * 6 + 3) // 9, "(x * 2 + 1) // 3"),
    ((X * 6 + 3) % 9, "(x * 2 + 1) % 3 * 3"),
    ((X * 6 + 4) // 9, "(x * 2 + 1) // 3"),
    ((X * 6 + 4) % 9, "(x * 2 + 1) % 3 * 3 + 1"),
    ((X * 4 + Y * 6 + 3) // 2, "y * 3 + x * 2 + 1"),
    ((X * 4 + Y * 6 + 3) % 2, "1"),
    # Divisors that are open.
    ((I * N + J) // N, "j // n + i"),
    ((I * N) // N, "i"),
    ((I * N + N) // N, "i + 1"),
    ((I * N + N * J) % N, "0"),
    ((I * N * M + J * M) // M, "i * n + j"),
    ((I * N * M + J * M) % M, "0"),
    (X * Y // Y, "x"),
    # Products of sums.
    (X * (Y + 1) - X * Y, "x"),
    ((X + 1) * (Y + 1) * (Z + 1), "x * y * z + x * y + x * z + y * z + x + y + z + 1"),
    ((X + Y) * (X - Y), "x * x - y * y"),
    ((X + 2) * (Y - 3), "y * 2 + x * y - x * 3 - 6"),
    ((X + Y + Z + I) * (J + K + S + N), "(i + x + y + z) * (j + k + s + n)"),
    (X * Y * Z - Z * Y * X, "0"),
    # Truncated division, where the signs are known and where they are not.
    (Div(X * 6, const(3)), "x * 2"),
    (Div(X * 6 + 1, const(3)), "T.truncdiv(x * 6 + 1, 3)"),
    (Mod(X * 6, const(3)), "0"),
    (Mod(X * 6 + 1, const(3)), "T.truncmod(x * 6 + 1, 3)"),
    (Div(X * 6 + 9, const(-3)), "x * -2 - 3"),
    (Div(S - 30, const(4)), "(2 - s) // 4 * -1 - 7"),
    (Mod(S - 30, const(4)), "(2 - s) % 4 * -1"),
    (Div(S - 20, const(4)), "s * -1 // 4 * -1 - 5"),
    (Mod(S - 20, const(4)), "s * -1 % 4 * -1"),
    (Div(S - 19, const(4)), "T.truncdiv(s - 19, 4)"),
    (Mod(S + 19, const(4)), "T.truncmod(s + 19, 4)"),
    (Div(S + 20, const(4)), "s // 4 + 5"),
    (Div(S - 30, const(-4)), "(2 - s) // 4 + 7"),
    (Mod(I, const(-7)), "i % 7"),
    (Div(I, const(-7)), "i // 7 * -1"),
    (Div(I, N), "i // n"),
    (Mod(I, N), "i % n"),
    (Div(I, N - 1), "i // (n - 1)"),
    (Div(I, M), "T.truncdiv(i, m)"),
    (Mod(I, M), "T.truncmod(i, m)"),
    (Div(S, N), "T.truncdiv(s, n)"),
    (Mod(S, N), "T.truncmod(s, n)"),
    # Minima without needless operands, what they share outside.
    (Min(Min(X, Y), Min(Y, Z)), "T.min(T.min(x, y), z)"),
    (Max(Max(X, Y), Min(X, Y)), "T.max(x, y)"),
    (Min(X + 1, X), "x"),
    (Max(X + 1, X), "x + 1"),
    (Min(X + 1, Y + 1), "T.min(x, y) + 1"),
    (Min(X * 4, Y * 6), "T.min(x * 2, y * 3) * 2"),
    (Min(X * 4 + 2, Y * 6 + 4), "T.min(x * 2 + 1, y * 3 + 2) * 2"),
    (Min(X * 4 + 2, Y * 6 + 5), "T.min(x * 4 + 2, y * 6 + 5)"),
    (Min(I, const(99)), "i"),
    (Min(I, const(98)), "T.min(i, 98)"),
    (Max(I, const(0)), "i"),
    (Max(I, const(1)), "T.max(i, 1)"),
    (Max(I, const(99)), "99"),
    (Min(I, const(0)), "0"),
    (Max(Min(X, Y), X), "x"),
    (Min(Max(X, Y), X), "x"),
    (Min(X, Y) + Z - Min(Y, X), "z"),
    (Min(I * 8 + K, I * 8 + 7), "i * 8 + k"),
    (Min(I * 8 + K, I * 8 + 6), "i * 8 + T.min(k, 6)"),
    (Max(I * 8 + K, I * 8), "i * 8 + k"),
    # Casts to a wider type go inside, to a narrower one stay.
    (cast("int64", X + 1) - cast("int64", X), "T.int64(1)"),
    (cast("int64", X * 2 + Y) // 2, 'T.Cast("int64", y) // T.int64(2) + T.Cast("int64", x)'),
    (cast("int64", I) % 100, 'T.Cast("int64", i)'),
    (cast("int32", cast("int64", I) * 2), "i * 2"),
    (cast("int32", cast("int64", X) * 2), 'T.Cast("int32", T.Cast("int64", x) * T.int64(2))'),
    (cast("int8", I), 'T.Cast("int8", i)'),
]


@pytest.fixture(scope="module")
def analyzer() -> Analyzer:
    """One that knows the ranges."""
    return Analyzer(DOMAINS)


def value_or_none(expr: Expr, env: Any) -> Any:
    try:
        return evaluate(expr, env)
    except UserError:
        return None  # a division by zero


@pytest.mark.parametrize(("expr", "text"), FORMS, ids=[str(expr) for expr, _ in FORMS])
def test_forms(expr: Any, text: str, analyzer: Analyzer) -> None:
    made = analyzer.simplify(expr)
    assert str(made) == text
    assert analyzer.simplify(made) is made
    points = zip(*(itertools.cycle(values) for values in SAMPLES.values()), range(12))
    for *values, _ in points:
        env = dict(zip(SAMPLES, values, strict=True))
        wanted = value_or_none(expr, env)
        assert wanted is None or evaluate(made, env) == wanted
