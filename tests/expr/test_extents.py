"""Extents that are not known yet: what is known of them, and digits of such bases."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from tileloom.expr import (
    Analyzer,
    Expr,
    Range,
    Var,
    const,
    detect_iter_map,
    evaluate,
    inverse_affine_iter_map,
)
from tileloom.expr.extents import EXTENT, is_number, known_extent, limits, usual


@dataclass(frozen=True)
class Open:
    """An extent between bounds."""

    low: int
    high: int

    @property
    def limits(self) -> tuple[int, int]:
        return self.low, self.high

    @property
    def usual(self) -> int:
        return (self.low + self.high) // 2

    def __mul__(self, other: int) -> Open:
        return Open(self.low * other, self.high * other)


def size(name: str, low: int = 1, high: int = 100) -> Var:
    var = Var(name)
    var.memo[EXTENT] = Open(low, high)
    return var


def test_what_is_known_of_an_extent() -> None:
    n = size("n", 2, 8)
    one: Any = known_extent(n)
    three: Any = known_extent(n * 3)
    assert limits(one) == (2, 8) and usual(one) == 5 and limits(three) == (6, 24)
    assert known_extent(const(7)) == usual(7) == 7 and limits(7) == (7, 7)
    assert known_extent(Var("m")) is None and known_extent(n * Var("m")) is None
    assert is_number(3) and not is_number(one)


def test_domains_tell_of_the_extents_in_them() -> None:
    i, n = Var("i"), size("n", 2, 8)
    analyzer = Analyzer({i: Range(0, n * 4)})
    assert analyzer.can_prove(i < 32) and analyzer.can_prove(n * 4 >= 8)
    assert not Analyzer({i: Range(0, Var("m") * 4)}).can_prove(i < 32)


def test_digits_of_open_bases() -> None:
    v, n, m, k = Var("v"), size("n"), size("m"), size("k")
    analyzer = Analyzer({v: Range(0, k * n * m)})
    for condition in (v % m < m, v // m < k * n, v // m // n < k, v // m % n < n, v // m % n <= n):
        assert analyzer.can_prove(condition), condition
    few = Analyzer({v: Range(0, m * 4)})
    assert few.simplify(v // m % 4 * m + v % m) is v and few.can_prove(v // m // 4 < 1)
    tiles, w = (n + 15) // 16, Var("w")
    tiled = Analyzer({v: Range(0, tiles * 3), w: Range(0, 16)})
    assert tiled.can_prove(v // 3 * 16 + w < tiles * 16)
    assert not tiled.can_prove(v // 3 * 16 + w < n)
    for condition in (v % m < n, v // m < n, v // m // n < k - 1, v % m < m - 1):
        assert not analyzer.can_prove(condition), condition
    nothing = Var("nothing")  # may be 0 or less: then a remainder is no less
    assert not Analyzer({v: Range(0, n)}).can_prove(v % nothing < nothing)


def test_products_of_open_sizes() -> None:
    v, n, m = Var("v"), size("n"), size("m")
    rows, columns = (m + 127) // 128, (n + 255) // 256
    analyzer = Analyzer({v: Range(0, rows * columns)})
    assert analyzer.can_prove(columns <= rows * columns)
    assert not analyzer.can_prove(columns < rows * columns)
    assert not analyzer.can_prove(columns * 2 <= rows * columns)
    assert analyzer.simplify((m * n + n - 1) // n) is m
    assert analyzer.simplify((m * n - 1) % n) is analyzer.simplify(n - 1)
    assert detect_iter_map([v // columns, v % columns], {v: Range(0, rows * columns)})


def test_digits_add_up_again() -> None:
    v, n, m, k = Var("v"), size("n"), size("m"), size("k")
    analyzer = Analyzer({v: Range(0, k * n * m)})
    low, middle, high = v % m, v // m % n, v // m // n
    wholes = (
        (high * n + middle) * m + low,
        high * n * m + middle * m + low,
        (v // m // 64 * 64 + v // m % 64) * m + low,
        (high * n + middle) * m * 3 + low * 3,
    )
    for whole, factor in zip(wholes, (1, 1, 1, 3), strict=True):
        assert analyzer.simplify(whole) is analyzer.simplify(v * factor), whole
    for part in (high * n * m + middle * m, (high * n + middle) * k + low, middle * m + low):
        simple = analyzer.simplify(part)
        for values in product(range(0, 60, 7), (1, 3), (1, 2, 5), (2, 4)):
            env = dict(zip((v, n, m, k), values, strict=True))
            assert evaluate(simple, env) == evaluate(part, env)


def test_the_way_back_from_a_number() -> None:
    i, j, k, n, m = Var("i"), Var("j"), Var("k"), size("n"), size("m")
    domains = {i: Range(0, 3), j: Range(0, n), k: Range(0, m)}
    found = detect_iter_map([(i * n + j) * m + k], domains, check_level="bijective")
    v = Var("v")
    back: dict[Var, Expr] = inverse_affine_iter_map(found.indices, [v])
    for sizes in ((1, 1), (2, 3), (5, 1), (4, 7)):
        env = dict(zip((n, m), sizes, strict=True))
        places = product(range(3), range(sizes[0]), range(sizes[1]))
        for number, place in enumerate(places):
            assert tuple(evaluate(back[x], {**env, v: number}) for x in (i, j, k)) == place


def test_a_digit_that_may_be_the_whole_number() -> None:
    """`i % 32` where `i` may not reach 32: it tells the place, in an unknown range."""
    i, n = Var("i"), size("n", 16, 64)
    domains = {i: Range(0, n)}
    assert not detect_iter_map([i // 32, i % 32], domains)
    found = detect_iter_map([i // 32, i % 32], domains, check_level="none")
    a, b = Var("a"), Var("b")
    (back,) = inverse_affine_iter_map(found.indices, [a, b]).values()
    assert all(evaluate(back, {a: x // 32, b: x % 32}) == x for x in range(64))
