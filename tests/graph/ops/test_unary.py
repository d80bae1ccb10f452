"""Functions of one number: values, special values, types refused, formulas against references."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError
from tileloom.graph import ops

NAN, INF = math.nan, math.inf
FLOATS = ["float16", ml_dtypes.bfloat16, "float32", "float64"]
ANYWHERE = [
    "neg", "abs", "sign", "square", "relu", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan",
    "sinh", "cosh", "tanh", "asinh", "erf", "sigmoid", "floor", "ceil", "round", "trunc", "isnan",
    "isinf", "isfinite",
]  # fmt: skip
POSITIVE = ["reciprocal", "rsqrt", "sqrt", "log", "log2", "log10", "log1p"]
INSIDE = ["asin", "acos", "atanh"]
SPECIAL = [0.0, -0.0, INF, -INF, NAN, 1e-30, -1e-30, 0.5, 1.5, 2.5, -0.5, -1.5]


def sample(kind: Any, low: Any, high: Any) -> Any:
    line = np.linspace(low, high, 7).reshape(1, 7, 1)
    return line.astype(kind)


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("name", ANYWHERE + POSITIVE + INSIDE + ["acosh"])
def test_formula_agrees(name: Any, kind: Any) -> None:
    low, high = (0.1, 3) if name in POSITIVE else (-0.9, 0.9) if name in INSIDE else (-2.2, 1.9)
    if name == "acosh":
        low, high = 1.1, 4
    check(getattr(ops, name), sample(kind, low, high))


@pytest.mark.parametrize("name", ANYWHERE + POSITIVE + INSIDE + ["acosh"])
def test_special_values(name: Any) -> None:
    check(getattr(ops, name), np.array(SPECIAL, "float32"))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint64"])
@pytest.mark.parametrize("name", ["neg", "abs", "sign", "square", "relu", "floor", "round"])
def test_integers(name: str, kind: str) -> None:
    limits = np.iinfo(kind)
    x = np.array([limits.min, limits.max, 0, 1, 5, 100], kind)
    check(getattr(ops, name), x)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_integers_are_finite(name: str) -> None:
    result = check(getattr(ops, name), np.array([1, 2]))
    assert result.dtype == bool and result.all() == (name == "isfinite")


@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "int64"])
def test_bits_and_logic(kind: str) -> None:
    x = np.array([0, 1, 1, 0]).astype(kind)
    assert (check(ops.bitwise_invert, x) == ~x).all()
    if kind == "bool":
        assert (check(ops.logical_not, x) == ~x).all()


def test_halves_round_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5], "float32")
    assert check(ops.round, x).tolist() == [0, 2, 2, -0.0, -2]


def test_erf_and_sigmoid_against_python() -> None:
    x = np.array([-3.0, -0.1, 0.0, 0.7, 90.0, -90.0])
    np.testing.assert_allclose(values(ops.erf, x), [math.erf(v) for v in x], rtol=1e-15)
    expected = [1 / (1 + math.exp(-v)) for v in x]
    np.testing.assert_allclose(values(ops.sigmoid, x), expected, rtol=1e-14)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_shapes_without_and_with_one_element(shape: tuple[int, ...]) -> None:
    assert check(ops.exp, np.zeros(shape, "float32")).shape == shape


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("exp", "int32", "exp: the operand must have a floating-point type, got int32"),
        ("neg", "bool", "neg: the operand must have a numeric type"),
        ("logical_not", "float32", "logical_not: the operand must have a bool type"),
        ("bitwise_invert", "float16", "integer or bool"),
    ],
)
def test_types_refused(name: str, kind: str, words: str) -> None:
    with pytest.raises(DTypeError, match=words):
        values(getattr(ops, name), np.zeros(2, kind))
