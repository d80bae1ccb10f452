"""What is known of sizes, against all values that they can have."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tileloom.base.polynomial import Number, Polynomial, value_of
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol

B, S = range(1, 7), range(2, 10)
SIZES = [{"b": b, "s": s} for b, s in itertools.product(B, S)]


def made() -> tuple[Space, Polynomial, Polynomial]:
    """A space of two symbols, all of whose sizes are in SIZES."""
    space = Space()
    return space, space.add("b", B[0], B[-1], 3), space.add("s", S[0], S[-1], 5)


def terms(seed: int, b: Polynomial, s: Polynomial) -> Iterator[Polynomial]:
    """Formulas of one or two products and a number."""
    chance = random.Random(seed)
    parts = [b, s, b * s, b * b, s // 2, s // 3, b * 2 + s, (b + s) // 4, s % 3]
    while True:
        found = chance.choice([-3, -1, 1, 2, 4]) * chance.choice(parts) + chance.randint(-12, 12)
        if chance.random() < 0.4:
            found = found + chance.choice([-2, 1, 3]) * chance.choice(parts)
        if isinstance(found, Polynomial):
            yield found


def values(number: Number, sizes: list[dict[str, int]] = SIZES) -> list[int]:
    return [value_of(number, at) for at in sizes]


@pytest.mark.parametrize("seed", range(4))
def test_bounds_and_verdicts_are_right(seed: int) -> None:
    space, b, s = made()
    for number in itertools.islice(terms(seed, b, s), 60):
        found = values(number)
        for low, high in (space.between(number), space.between_sizes(number)):
            assert low <= min(found) and high >= max(found)
        verdict = space.holds(number)
        assert verdict is None or {value >= 0 for value in found} == {verdict}


@pytest.mark.parametrize("seed", range(5))
def test_bounds_and_verdicts_under_facts_are_right(seed: int) -> None:
    space, b, s = made()
    numbers = terms(100 + seed, b, s)
    for _ in range(15):
        facts = [f for f in itertools.islice(numbers, 2) if max(values(f)) >= 0]
        left = [at for at in SIZES if all(value_of(f, at) >= 0 for f in facts)]
        if not left:
            continue
        with space.assuming(*facts):
            for number in [b, s, *facts, *itertools.islice(numbers, 12)]:
                found = values(number, left)
                low, high = space.between(number)
                assert low <= min(found) and high >= max(found), (facts, number)
                verdict = space.holds(number)
                assert verdict is None or {value >= 0 for value in found} == {verdict}
        assert space.between(b) == (B[0], B[-1]) and space.between(s) == (S[0], S[-1])


@pytest.mark.parametrize("factor", [-3, -1, 1, 2])
@pytest.mark.parametrize("offset", range(-20, 21, 5))
def test_facts_about_one_product_make_bounds_as_tight_as_can_be(factor: int, offset: int) -> None:
    space, b, s = made()
    for part in (b, s, b * s, b * b, s * s * s):
        fact = factor * part + offset
        left = [at for at in SIZES if value_of(fact, at) >= 0]
        if not isinstance(fact, Polynomial) or not left:
            continue
        with space.assuming(fact):
            for name, size in (("b", b), ("s", s)):
                mine = [at[name] for at in left]
                assert space.between_sizes(size) == (min(mine), max(mine)), (fact, name)


@pytest.mark.parametrize("factor", [-2, -1, 1, 3])
@pytest.mark.parametrize("by", [2, 3, 5])
def test_facts_about_quotients_bound_the_dividend(factor: int, by: int) -> None:
    space, _, s = made()
    for offset in range(-8, 9, 2):
        fact = factor * (s // by) + offset
        mine = [at["s"] for at in SIZES if value_of(fact, at) >= 0]
        if not isinstance(fact, Polynomial) or not mine:
            continue
        with space.assuming(fact):
            assert space.between_sizes(s) == (min(mine), max(mine)), fact


@pytest.mark.parametrize("scale", [-6, -2, -1, 1, 2, 6])
@pytest.mark.parametrize("offset", [-5, 0, 4])
def test_a_fact_bounds_its_multiples(scale: int, offset: int) -> None:
    """Of b + s >= 9: what that makes of scale * (b + s) + offset, whole numbers only."""
    space, b, s = made()
    fact: Any = 2 * b + 2 * s - 18
    number = scale * (b + s) + offset
    left = [at for at in SIZES if value_of(fact, at) >= 0]
    with space.assuming(fact):
        found = values(number, left)
        assert space.between(number) == (min(found), max(found))


@pytest.mark.parametrize("limit", [1, 2, 4, 8])
def test_a_way_that_holds_is_right(limit: int) -> None:
    space, b, s = made()
    tests = [b - 3, s - 2 * b, s - 5]

    def make() -> tuple[bool, ...]:
        return tuple(space.decide(test) for test in tests)

    found = space.variants(make, limit)
    assert len(found) <= max(limit, 1)
    guards = list(space.guards)
    for at in SIZES:
        if any(guard.value(at) < 0 for guard in guards):
            continue
        here = [made for way, made in found if all(number.value(at) >= 0 for number in way)]
        assert set(here) == {tuple(value_of(test, at) >= 0 for test in tests)}, (at, found)
        assert len(here) == 1 or guards
    assert bool(guards) == (limit < 8)


def test_what_is_decided_by_the_hint_becomes_a_guard() -> None:
    space, b, s = made()
    assert space.decide(b - 2) and not space.decide(s - 6)
    assert list(space.guards) == [b - 2, 5 - s]
    assert space.between(b) == (2, 6) and space.between(s) == (2, 5)
    assert space.decide(b - 1) and not space.decide(b - 7)
    assert len(space.guards) == 2, "what is proven needs none"
    assert space.decide(3) and not space.decide(-1) and space.decide(0)


def test_what_becomes_a_guard_inside_stays() -> None:
    space, b, s = made()
    with space.assuming(b - 4):  # type: ignore[arg-type]
        assert not space.decide(s - 6)
    assert space.between(b) == (1, 6) and space.between(s) == (2, 5)


def test_fixed_sizes_are_the_same_as_their_values() -> None:
    space, b, s = made()
    assert not space.same(b, 3) and space.same(b, b) and not space.same(b, s)
    assert space.fix(b) == 3
    assert space.between(b) == (3, 3)
    assert space.same(b, 3) and space.same(b + 2, 5) and not space.same(b, 4)
    assert not space.same(s, 5) and not space.same(b + s, 8)
    assert all(guard.value({"b": 3, "s": 9}) >= 0 for guard in space.guards)
    for other in (2, 4):
        assert any(guard.value({"b": other, "s": 9}) < 0 for guard in space.guards)


def test_estimates_go_by_typical_sizes() -> None:
    space = Space()
    for name, low, high in (("a", 1, 10), ("b", 1, 1000), ("c", 500, 1000)):
        symbol(space, name, low, high, low)
    assert space.typical == {"a": 10, "b": 256, "c": 500}
    assert space.hints == {"a": 1, "b": 1, "c": 500}
