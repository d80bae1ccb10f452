"""Combinations of several values: what they compute, and where they are recognised."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tileloom.expr import Call, Select, Var, const, evaluate
from tileloom.expr.combiners import (
    match_combination,
    moments,
    neutral,
    of_one,
    online_softmax,
    recognise,
)

KIND = "float64"
M, S, X, Y, Z = (Var(name, KIND) for name in "msxyz")


def combined(combine: Any, old: list[float], new: list[float]) -> list[float]:
    """What a combination makes of numbers."""
    variables = [Var(f"v{k}", KIND) for k in range(len(old) * 2)]
    values = combine(variables[: len(old)], variables[len(old) :])
    env: dict[Any, Any] = dict(zip(variables, map(np.float64, [*old, *new])))
    with np.errstate(all="ignore"):
        return [float(evaluate(value, env)) for value in values]


def start(combine: Any) -> list[float]:
    return [float(evaluate(value, {})) for value in neutral(combine, KIND)]


def single(combine: Any, value: float) -> list[float]:
    return [float(evaluate(part, {X: np.float64(value)})) for part in of_one(combine, X)]


def reduced(combine: Any, values: list[float], pick: random.Random) -> list[float]:
    """Values combined in a random tree."""
    parts = [single(combine, value) for value in values] + [start(combine)]
    while len(parts) > 1:
        k = pick.randrange(len(parts) - 1)
        parts[k : k + 2] = [combined(combine, parts[k], parts[k + 1])]
    return parts[0]


def test_softmax_of_values_in_any_order() -> None:
    pick = random.Random(1)
    for count in (1, 2, 3, 5, 8):
        values = [pick.uniform(-9, 9) for _ in range(count)]
        most, total = reduced(online_softmax, values, pick)
        assert most == max(values)
        assert math.isclose(total, sum(math.exp(x - most) for x in values), rel_tol=1e-12)


def test_softmax_of_infinite_values() -> None:
    low = float("-inf")
    assert combined(online_softmax, [low, 0.0], [low, 0.0]) == [low, 0.0]
    assert combined(online_softmax, [low, 1.0], [3.0, 2.0]) == [3.0, 2.0]
    assert combined(online_softmax, [3.0, 2.0], [low, 1.0]) == [3.0, 2.0]
    assert combined(online_softmax, [2.0, 1.5], [2.0, 2.5]) == [2.0, 4.0]


def test_moments_of_values_in_any_order() -> None:
    pick = random.Random(2)
    for count in (1, 2, 3, 5, 8):
        values = [pick.uniform(-9, 9) for _ in range(count)]
        number, total, squares = reduced(moments, values, pick)
        assert number == count
        assert math.isclose(total, sum(values), rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(squares, float(np.var(values)) * count, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("combine", [online_softmax, moments])
def test_neutral_values_change_nothing(combine: Any) -> None:
    some = [2.0, 3.0, 4.0][: len(start(combine))]
    assert combined(combine, start(combine), some) == some
    assert combined(combine, some, start(combine)) == some


OLD = {online_softmax: [M, S], moments: [M, S, Z]}


@pytest.mark.parametrize("combine", [online_softmax, moments])
def test_what_is_combined_in_is_found(combine: Any) -> None:
    old = OLD[combine]
    for new in (of_one(combine, X), of_one(combine, X * Y), [X, Y, X + Y][: len(old)]):
        found = recognise(combine(old, new), old)
        assert found is not None
        assert found[0] is combine
        assert all(a is b for a, b in zip(found[1], new, strict=True))


@pytest.mark.parametrize("combine", [online_softmax, moments])
def test_other_values_are_no_combination(combine: Any) -> None:
    old = OLD[combine]
    values = combine(old, of_one(combine, X))
    for k in range(len(values)):
        for other in (values[k] + 1.0, old[k], const(0, KIND)):
            changed = [*values[:k], other, *values[k + 1 :]]
            assert recognise(changed, old) is None
    assert recognise(values[::-1], old) is None
    assert recognise(values, old[::-1]) is None
    assert recognise(values[:1], old[:1]) is None
    narrow = [Var(v.name, "float32") for v in old]
    assert recognise(values, narrow) is None
    assert match_combination(combine, narrow, values, list(of_one(combine, X))) is None


def test_one_hole_stands_for_one_value() -> None:
    """The parts must agree on what is combined in."""
    a, b = (
        online_softmax([M, S], of_one(online_softmax, X)),
        online_softmax([M, S], of_one(online_softmax, Y)),
    )
    assert recognise([a[0], b[1]], [M, S]) is None
    assert match_combination(online_softmax, [M, S], a) is None
    assert match_combination(online_softmax, [M, S], a, of_one(online_softmax, Z)) is not None


def test_operands_of_sums_and_products_may_be_swapped() -> None:
    most, total = online_softmax([M, S], [X, Y])
    assert isinstance(total, Select)
    swapped = Select(
        total.condition,
        type(total.true_value)(*reversed(total.true_value.children)),
        total.false_value,
    )
    found = recognise([most, swapped], [M, S])
    assert found is not None and found[1] == [X, Y]
    other = Call(KIND, "tir.exp2", (X,))
    assert recognise([most, other], [M, S]) is None
