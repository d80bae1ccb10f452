"""Quotients of one size: tiles, and groups of tiles, against counting."""

from __future__ import annotations

import random

import pytest

from tileloom.expr import Max, Min, Var
from tileloom.expr.analyzer import Analyzer
from tileloom.expr.evaluate import evaluate

S = Var("s")


def test_groups_of_tiles_hold_all_tiles() -> None:
    tiles, groups = (S + 31) // 32, (S + 255) // 256
    known = Analyzer()
    assert known.can_prove(tiles <= groups * 8) and known.can_prove(tiles > groups * 8 - 8)
    assert not known.can_prove((S + 31) // 32 <= (S + 254) // 256 * 8)  # not for 255
    assert not known.can_prove(tiles >= groups * 8 - 6)  # not for 1
    assert known.simplify(Min(groups * 256 - 1, tiles * 32 - 1)) is known.simplify(tiles * 32 - 1)
    assert known.simplify(Max(groups * 8, tiles)) is known.simplify(groups * 8)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_proved_holds(seed: int) -> None:
    rng, known, proved = random.Random(seed), Analyzer(), 0
    for _ in range(120):
        c, n, k = rng.randint(1, 6), rng.randint(2, 5), rng.choice([-2, -1, 1, 2])
        fine, coarse = (S + rng.randint(-10, 10)) // c, (S + rng.randint(-20, 20)) // (c * n)
        factor = -k * n if rng.random() < 0.7 else rng.randint(-6, 6)
        value = fine * k + coarse * factor + rng.randint(-8, 8)
        if known.can_prove(value < 0):
            proved += 1
            period = range(-c * n, c * n)  # where the value repeats, or moves one way
            far = (-1000, 1000) if factor != -k * n else ()
            assert all(evaluate(value, {S: s}) < 0 for s in (*period, *far))
    assert proved > 20
