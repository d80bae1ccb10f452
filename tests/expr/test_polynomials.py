"""Bounds of sums with products, against all values."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from tileloom.expr import Analyzer, Expr, Var, as_expr, const_int_bound, evaluate
from tileloom.expr.polynomials import bounds_of_products, has_product, products_of

N, M, K = Var("n"), Var("m"), Var("k")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (N * M, True),
        (N * 3 + M, False),
        (K - (N + 1) * M, True),
        ((N * M) * 2, True),
        (N * M // 2, False),
        (as_expr(7), False),
    ],
)
def test_which_sums_have_products(expr: Expr, expected: bool) -> None:
    assert has_product(expr) is expected


def test_multiplied_out() -> None:
    assert products_of((N + 2) * (M - 3) - N * M) == {(M,): 2, (N,): -3, (): -6}
    assert products_of((N - M) * (N + M) + M * M - N * N) == {}
    assert products_of(N // 2 + 1) == {(N // 2,): 1, (): 1}
    many = as_expr(1)
    for i in range(5):
        many = many * (Var(f"a{i}") + Var(f"b{i}"))
    assert products_of(many) is None


def test_the_interior_of_an_image_is_not_negative() -> None:
    known = Analyzer()
    known.bind_bounds({N: (3, 1 << 20), M: (3, 1 << 20)})
    inner = N * M - N * 2 - M * 2 + 3
    assert known.can_prove(inner >= 0)
    assert known.can_prove(inner // 16 * 16 + 16 >= 16)
    assert not known.can_prove(inner >= 1)
    assert known.can_prove(N * M - N - M > 0)
    known = Analyzer()
    known.bind_bounds({N: (1, 100), M: (3, 100)})
    assert not known.can_prove(inner >= 0)


def test_bounds_hold_for_all_values() -> None:
    rng = random.Random(11)
    variables = (N, M, K)
    for _ in range(200):
        expr: Expr = as_expr(rng.randint(-9, 9))
        for _ in range(rng.randint(2, 5)):
            term: Expr = as_expr(rng.randint(-4, 4))
            for var in rng.sample(variables, rng.randint(1, 3)):
                term = term * (var + rng.randint(-1, 1))
            expr = expr + term
        lows = [rng.randint(-3, 3) for _ in variables]
        ranges = {v: (low, low + rng.randint(0, 3)) for v, low in zip(variables, lows, strict=True)}
        values = [
            evaluate(expr, dict(zip(variables, at, strict=True)))
            for at in product(*(range(a, b + 1) for a, b in ranges.values()))
        ]
        bound = const_int_bound(expr, ranges)
        assert bound.min_value <= min(values) and max(values) <= bound.max_value
        products = products_of(expr)
        found = (
            bounds_of_products(products, dict[Any, Any](ranges).__getitem__) if products else None
        )
        assert found is None or (found[0] <= min(values) and max(values) <= found[1])
