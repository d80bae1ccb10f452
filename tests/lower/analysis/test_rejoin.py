"""Quotients and remainders that are put together again stand for the same element."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tileloom.expr import Expr, FloorDiv, FloorMod, Var, as_expr, cast, evaluate
from tileloom.lower.analysis.rejoin import PositionTerm, rejoined

X, N, M, K = Var("x"), Var("n"), Var("m"), Var("k")
L, J = Var("l"), Var("j")


def parts_of(*pairs: tuple[Expr | int, Expr | int]) -> list[PositionTerm]:
    return [PositionTerm(as_expr(index), as_expr(stride)) for index, stride in pairs]


def total(parts: Sequence[PositionTerm]) -> Expr:
    result: Expr = as_expr(0)
    for part in parts:
        result = result + cast("int32", part.index) * cast("int32", part.stride)
    return result


@pytest.mark.parametrize(
    ("parts", "indices"),
    [
        (parts_of((X // 5, 5), (X % 5, 1)), "[0, x]"),
        (parts_of((X // 5 + K - 1, 10), (X % 5 + J, 2)), "[k - 1, x + j]"),
        (parts_of((X // N, N), (X % N, 1)), "[0, x]"),
        (parts_of((J, N * 7), (X // N + K, N), (X % N - 1, 1)), "[j, k, x - 1]"),
        (parts_of((X // 35, 35), (X % 35 // 5, 5), (X % 5, 1)), "[0, 0, x]"),
        (parts_of((X // (N * M), N * M), (X % (N * M) // N, N), (X % N, 1)), "[0, 0, x]"),
        # A panel of 32 columns, 98 of which are an image of 56 x 56.
        (
            parts_of((J // 98, 3136), ((J % 98 * 32 + L) // 56, 56), ((J * 32 + L) % 56, 1)),
            "[j // 98, 0, j % 98 * 32 + l]",
        ),
        (parts_of((cast("int64", X // N), cast("int64", N)), (X % N, 1)), None),
    ],
)
def test_what_belongs_together(parts: list[PositionTerm], indices: str | None) -> None:
    made = rejoined(parts)
    assert indices is None or str([part.index for part in made]) == indices


@pytest.mark.parametrize(
    "parts",
    [
        parts_of((X // 5, 6), (X % 5, 1)),  # another stride: rows with room behind them
        parts_of((X // 5, 5), (J % 5, 1)),
        parts_of((X // 5, 5), (X % 6, 1)),
        parts_of((X // N, M), (X % N, 1)),
        parts_of((X % 34 // 5, 5), (X % 5, 1)),  # 34 is no multiple of 5
        parts_of((X % M // N, N), (X % N, 1)),
        parts_of((J - X // 5, 5), (X % 5, 1)),  # the quotient is subtracted
        parts_of((X // 5 * 2, 5), (X % 5, 1)),
        parts_of((X % 5, 1), (X // 5, 5)),  # the other way round: not how memory goes
    ],
)
def test_what_does_not(parts: list[PositionTerm]) -> None:
    assert [part.index for part in rejoined(parts)] == [part.index for part in parts]


def test_the_element_is_the_same() -> None:
    rng = random.Random(4)
    for _ in range(300):
        n, m, step = rng.randint(2, 7), rng.randint(2, 7), rng.randint(1, 3)
        width: Expr = rng.choice([as_expr(n), N])
        row = X * rng.randint(1, 9) + J
        parts = [
            PositionTerm(row // (width * m) + K, width * m * step),
            PositionTerm(row % (width * m) // width - L, width * step),
            PositionTerm(row % width + L, as_expr(step)),
        ]
        made = rejoined(parts)
        assert all(part.index is not old.index for part, old in zip(made, parts, strict=True))
        for _ in range(5):
            given = {var: rng.randint(-40, 40) for var in (X, J, K, L)} | {N: n}
            assert evaluate(total(made), given) == evaluate(total(parts), given)


def test_a_remainder_of_zero_belongs_to_nothing() -> None:
    zero = as_expr(0)
    parts = parts_of((FloorDiv(X + J, zero), zero), (FloorMod(X, zero), 1))
    assert rejoined(parts) == parts
