"""How far results may be from each other."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tileloom.tuner.measure.compare import greatest_error, tolerance

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("expected", "found", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([4.0, 4.0], [5.0, 4.0], 0.25),
        ([1e-9, 2.0], [2e-9, 2.0], 1e-9),  # it cancels out to almost nothing
        ([0.0, 0.0], [0.5, 0.0], 0.5),
        ([NAN, 1.0], [NAN, 1.0], 0.0),
        ([NAN, 1.0], [1.0, 1.0], INF),
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([INF, 1.0], [-INF, 1.0], INF),
        ([NAN, NAN], [NAN, NAN], 0.0),
        ([], [], 0.0),
    ],
)
def test_floats(expected: list[float], found: list[float], error: float) -> None:
    for kind in (np.float64, np.float32, ml_dtypes.bfloat16):
        pair = np.array(expected, kind), np.array(found, kind)
        assert greatest_error(*pair) == pytest.approx(error, rel=1e-2)


def test_integers_are_the_same_or_not() -> None:
    assert greatest_error(np.array([1, 2]), np.array([1, 5])) == 3
    assert greatest_error(np.array([2**60]), np.array([2**60 + 1])) == 1
    assert greatest_error(np.array([True]), np.array([False])) == 1
    assert greatest_error(np.array([0], "uint8"), np.array([255], "uint8")) == 255


def test_coarser_types_are_allowed_more() -> None:
    kinds = ("int32", "float64", "float32", "float16", "bfloat16", "float8_e4m3fn")
    allowed = [tolerance(kind) for kind in kinds]
    assert allowed == sorted(allowed) and allowed[0] == 0 and allowed[-1] < 1


def test_long_sums_of_floats_are_allowed_more() -> None:
    """One after another in float32, or by halves, as schedules may do."""
    terms = np.random.default_rng(1).random(1 << 18, "float32")
    in_turn = np.add.accumulate(terms)[-1:]
    error = greatest_error(in_turn, terms.sum(keepdims=True))
    assert 0 < error < tolerance("float32", terms.size)
    assert tolerance("float32", 512) == tolerance("float32") and tolerance("int32", 1 << 18) == 0
