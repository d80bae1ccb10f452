"""Random numbers: the generator is minstd, and what is drawn from it is all that may be drawn."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from math import prod

import pytest

from tileloom import UserError
from tileloom.schedule.random import Random, factorize

LAST = 2**31 - 1


def test_the_generator_is_minstd() -> None:
    """The C++ standard says what the ten thousandth number is."""
    stream = Random(1)
    for _ in range(10_000):
        last = stream.next()
    assert last == 399268537


@pytest.mark.parametrize("seed", [0, -2, LAST + 1])
def test_seeds_that_are_none(seed: int) -> None:
    with pytest.raises(UserError, match=f"a seed is -1 or from 1 to {LAST}, got {seed}"):
        Random(seed)


def test_the_first_and_the_last_seed() -> None:
    assert Random(1).next() == 48271
    assert Random(LAST).next() == 48271  # 0 would stay 0
    assert Random(LAST - 1).next() == LAST - 48271
    assert len({Random().state for _ in range(8)}) > 1


def test_copies_go_on_alone() -> None:
    stream = Random(5)
    other = stream.copy()
    ahead = [stream.next() for _ in range(3)]
    assert [other.next() for _ in range(3)] == ahead
    stream.seed(5)
    assert stream.next() == ahead[0]


def test_a_seed_for_another_stream() -> None:
    stream = Random(5)
    assert Random(5).fork_seed() == stream.next() * 32767 % 1999999973


def test_numbers_between() -> None:
    stream = Random(7)
    counts = Counter(stream.integer(-2, 3) for _ in range(1000))
    assert set(counts) == {-2, -1, 0, 1, 2} and min(counts.values()) > 140
    state = stream.state
    assert stream.integer(4, 5) == 4 and stream.state == state  # nothing to draw
    for low, high in [(3, 3), (4, 3)]:
        with pytest.raises(UserError, match=rf"no integer to sample in \[{low}, {high}\)"):
            stream.integer(low, high)


def test_draws_that_would_be_unfair_are_thrown_away() -> None:
    """With a count of more than half of all numbers, the rest of them is drawn again."""
    count = (LAST - 1) * 2 // 3
    stream, other = Random(11), Random(11)
    for _ in range(50):
        draw = other.next()
        while draw >= count:
            draw = other.next()
        assert stream.integer(0, count) == draw


def test_fractions() -> None:
    stream, other = Random(3), Random(3)
    for _ in range(20):
        first, second = other.next(), other.next()
        value = stream.uniform()
        assert 0 <= value < 1
        assert value == pytest.approx((second + first / LAST) / LAST, rel=1e-15)


@pytest.mark.parametrize(
    ("weights", "possible"),
    [([1.0], {0}), ([], {0}), ([0.0, 2.0], {1}), ([2.0, 0.0], {0}), ([1, 0, 1], {0, 2})],
)
def test_categories(weights: list[float], possible: set[int]) -> None:
    stream = Random(9)
    assert {stream.categorical(weights) for _ in range(60)} == possible


def test_categories_in_proportion() -> None:
    stream = Random(9)
    counts = Counter(stream.categorical([10, 20, 70]) for _ in range(2000))
    assert [round(counts[k] / 2000, 1) for k in range(3)] == [0.1, 0.2, 0.7]


@pytest.mark.parametrize(("count", "picks"), [(4, 1), (4, 2), (4, 3), (3, 3), (5, 4)])
def test_choices_are_different_and_all_occur(count: int, picks: int) -> None:
    stream = Random(2)
    found = {tuple(stream.choose(count, picks)) for _ in range(1500)}
    assert found == set(permutations(range(count), picks))


def factors(extent: int, n: int) -> set[tuple[int, ...]]:
    divisors = [k for k in range(1, extent + 1) if extent % k == 0]
    return {tile for tile in product(divisors, repeat=n) if prod(tile) == extent}


@pytest.mark.parametrize(("extent", "n"), [(1, 3), (7, 1), (7, 3), (12, 2), (36, 3), (16, 4)])
def test_all_tiles_occur(extent: int, n: int) -> None:
    stream = Random(6)
    found = {tuple(stream.perfect_tile(extent, n)) for _ in range(1500)}
    assert found == factors(extent, n)


@pytest.mark.parametrize("limit", [1, 2, 3, 12])
def test_the_innermost_factor_has_a_limit(limit: int) -> None:
    stream = Random(6)
    found = {tuple(stream.perfect_tile(12, 2, limit)) for _ in range(300)}
    assert found == {tile for tile in factors(12, 2) if tile[-1] <= limit}


@pytest.mark.parametrize(("position", "factor"), [(0, 1), (0, 4), (1, 4), (2, 3), (1, 1)])
def test_inner_parts_are_divisible(position: int, factor: int) -> None:
    stream = Random(6)
    found = {tuple(stream.partitioned_tile(12, 3, position, factor)) for _ in range(600)}
    assert found == {tile for tile in factors(12, 3) if prod(tile[position:]) % factor == 0}


@pytest.mark.parametrize(("extent", "n"), [(0, 2), (-4, 2), (4, 0), (4, -1), (0, 1)])
def test_what_cannot_be_split(extent: int, n: int) -> None:
    with pytest.raises(UserError, match=f"cannot split an extent of {extent} into {n} factors"):
        Random(1).perfect_tile(extent, n)


def test_prime_factors() -> None:
    primes = [p for p in range(2, 400) if all(p % q for q in range(2, p))]
    for number in range(1, 400):
        found = factorize(number)
        assert prod(prime**count for prime, count in found) == number
        assert [prime for prime, _ in found] == [p for p in primes if number % p == 0]
