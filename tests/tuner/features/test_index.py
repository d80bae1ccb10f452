"""By how much a variable moves an index, as TVM tells it."""

from __future__ import annotations

import pytest

from tileloom.expr import Expr, Var
from tileloom.lower.analysis.linear import linear
from tileloom.tuner.features.index import coefficients

X, Y, Z = Var("x"), Var("y"), Var("z")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (X, {X: 1}),
        (X * 32 + Y * 4 + Z, {X: 4, Y: 4, Z: 1}),  # the last product counts for all before it
        (X // 2, {X: 1}),
        (X // 2 * 8, {X: 8}),
        (X // 2 * 8 + Y, {X: 8, Y: 1}),
        (X // 2 + Y, {X: 1, Y: 1}),
        (X // 8 * 4 + X % 8, {X: 2}),  # it is found again behind the product
        (7 - X * 2, {X: 2}),
        (Y - X * 2, {X: 2, Y: 2}),
        (Y + 1 - X * 2, {X: 2, Y: 1}),
    ],
    ids=lambda value: str(value),
)
def test_coefficients(expr: Expr, expected: dict[Var, int]) -> None:
    assert coefficients(linear(expr)) == expected
