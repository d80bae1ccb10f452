"""Functions far from zero, where the textbook's formula would lose all digits or overflow."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tileloom.expr import Var, evaluate, intrin

X = Var("x", "float64")


def gelu_tanh(x: float) -> float:
    """x / (1 + exp(-2 u)) is x times (1 + tanh(u)) / 2, without the difference."""
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FORMS = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "gelu_tanh": gelu_tanh,
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("value", [-9.0, -5.5, -2.0, -0.5, 0.0, 0.25, 1.0, 4.0, 12.0])
def test_small_results_have_all_their_digits(name: str, value: float) -> None:
    found: Any = evaluate(getattr(intrin, name)(X), {X: value})
    assert found == pytest.approx(FORMS[name](value), rel=1e-12, abs=0)


@pytest.mark.parametrize("name", FORMS)
def test_ends(name: str) -> None:
    made = getattr(intrin, name)(X)
    assert evaluate(made, {X: -math.inf}) == 0
    assert evaluate(made, {X: math.inf}) == (1 if name == "sigmoid" else math.inf)
    assert evaluate(made, {X: -1e5}) == 0
    assert evaluate(made, {X: 1e5}) == (1 if name == "sigmoid" else 1e5)
