"""How large sizes may be: against all values that their variables may have."""

from __future__ import annotations

import itertools

import pytest

from tileloom.expr import Expr, Var, as_expr, const
from tileloom.expr.evaluate import evaluate
from tileloom.expr.extents import is_number
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan.sizes import USUAL, Sizes

N, M = Var("n", "int32"), Var("m", "int32")
BOUNDS = {N: (2, 9), M: (0, 5)}


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [
        (N, 2, 9),
        (M, 0, 5),
        (N * 3, 6, 27),
        (N + M, 2, 14),
        (N * M, 0, 45),
        (N // 2, 1, 4),
        (N * 2 + 1, 5, 19),
        (M - 1, 0, 4),  # a size is not below 0
        (const(7), 7, 7),
        (const(0), 0, 0),
    ],
)
def test_least_and_most(size: Expr, least: int, most: int) -> None:
    sizes = Sizes(BOUNDS)
    values = [
        max(0, int(evaluate(size, {N: n, M: m})))
        for n, m in itertools.product(range(2, 10), range(6))
    ]
    assert (min(values), max(values)) == (least, most)
    assert (sizes.least(size), sizes.most(size)) == (least, most)
    assert sizes.guess(size) == (size.value if size in (const(7), const(0)) else max(2, most))  # type: ignore[attr-defined]
    assert sizes.number(size) == sizes.guess(size)


K = Var("k", "int32")


@pytest.mark.parametrize(
    ("size", "least", "guess"),
    [
        (K, 0, USUAL),
        (K * 2 + 1, 1, 2 * USUAL + 1),
        (M, 3, USUAL),
        (M + 1, 4, USUAL + 1),
        (M * K, 0, USUAL * USUAL),
        (N, 700, 700),  # more than what is usual
    ],
)
def test_sizes_that_may_be_anything(size: Expr, least: int, guess: int) -> None:
    sizes = Sizes({M: (3, None), N: (700, None), K: (0, None)})
    assert sizes.most(size) is None and sizes.most(size * 2) is None
    assert (sizes.least(size), sizes.guess(size)) == (least, guess)
    assert Sizes().most(size) is None


def test_small_guesses_are_two() -> None:
    assert Sizes({N: (0, 1)}).guess(N) == 2 and Sizes({N: (0, 0)}).guess(N * 5) == 2
    assert Sizes({N: (1, 3)}).guess(N - 2) == 2 and Sizes({N: (1, 3)}).guess(N) == 3


def test_sizes_that_count_as_numbers_know_their_limits() -> None:
    """Also where no bounds are given, and after what was decided."""
    space = Space()
    n = symbol(space, "n", 3, 700, 5)
    size, less = as_expr(n * 2), as_expr(n - 5)
    sizes = Sizes()
    assert (sizes.least(size), sizes.most(size)) == (6, 1400)
    assert (sizes.least(less), sizes.most(less)) == (0, 695), "a size is not below 0"
    assert sizes.number(size) == n * 2
    assert 6 <= sizes.guess(size) <= 1400 and not is_number(sizes.number(size))
    assert sizes.guess(as_expr(symbol(space, "one", 0, 1, 1))) == 2
    low, high = (3, 99) if n < 100 else (100, 700)
    assert (sizes.least(size), sizes.most(size)) == (2 * low, 2 * high)
