"""Reductions against NumPy: axes, empty axes, narrow types, ties and NaN."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops

AXES = [None, 0, -1, (0, 2), (1,), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_numbers(name: str, axis: Any, keepdims: bool, rng: np.random.Generator) -> None:
    x = rng.integers(-4, 5, (3, 4, 5), dtype="int32")
    result = check(lambda t: getattr(ops, name)(t, axis, keepdims), x)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(result, expected.astype("int32"))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["any", "all", "max", "min"])
def test_bools(name: str, axis: Any, rng: np.random.Generator) -> None:
    x = rng.random((2, 3, 4)) < 0.5
    result = check(lambda t: getattr(ops, name)(t, axis), x)
    np.testing.assert_array_equal(result, getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16, "float32", "float64"], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_floats(name: str, kind: Any, rng: np.random.Generator) -> None:
    x = (rng.random((2, 7)) + 0.5).astype(kind)
    assert check(lambda t: getattr(ops, name)(t, 1), x).dtype == x.dtype


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16], ids=str)
def test_narrow_floats_are_summed_in_float32(kind: Any) -> None:
    # Summed in the type itself, the total would stop growing long before.
    assert float(check(ops.sum, np.ones(4099, kind))) == pytest.approx(4099, rel=4e-3)


def test_narrow_integers_wrap() -> None:
    assert check(ops.sum, np.full(3, 100, "int8")) == np.int8(44)


def test_nan_and_infinities() -> None:
    x = np.array([[1, np.nan, 3], [-np.inf, 2, np.inf]], "float32")
    for name in ("max", "min"):
        result = check(lambda t, f=name: getattr(ops, f)(t, 1), x)
        np.testing.assert_array_equal(result, getattr(np, name)(x, axis=1))


def test_empty_axes() -> None:
    x = np.zeros((0, 3), "float32")
    assert check(lambda t: ops.sum(t, 0), x).tolist() == [0, 0, 0]
    assert check(lambda t: ops.prod(t, 0), x).tolist() == [1, 1, 1]
    assert check(lambda t: ops.max(t, 1), x).shape == (0,)
    for name in ("max", "min"):
        with pytest.raises(ShapeError, match=rf"{name}: float32\[0, 3\] has no elements"):
            values(lambda t, f=name: getattr(ops, f)(t, 0), x)
        worst = check(lambda t, f=name: getattr(ops, f)(t, 0, empty_ok=True), x)
        assert worst.tolist() == [-np.inf if name == "max" else np.inf] * 3
    assert check(lambda t: ops.all(t, 0), np.zeros((0, 2), bool)).tolist() == [True, True]
    for kind in ("int8", "uint16", "int64"):
        for name, worst in (("max", np.iinfo(kind).min), ("min", np.iinfo(kind).max)):
            nothing = np.zeros((2, 0), kind)
            found = check(lambda t, f=name: getattr(ops, f)(t, 1, empty_ok=True), nothing)
            assert found.tolist() == [worst] * 2 and found.dtype == kind
    for name in ("max", "min", "argmax", "argmin"):
        assert check(lambda t, f=name: getattr(ops, f)(t, 0), np.zeros((3, 0))).shape == (0,)
    half = check(lambda t: ops.sum(t), np.zeros((0,), "float16"))
    assert half.dtype == np.float16 and half == 0


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg(name: str, axis: int | None, keepdims: bool, rng: np.random.Generator) -> None:
    x = rng.integers(0, 3, (4, 3, 5)).astype("float32")
    result = check(lambda t: getattr(ops, name)(t, axis, keepdims), x)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, getattr(np, name)(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "float16", ml_dtypes.bfloat16], ids=str)
def test_arg_of_all_types(kind: Any) -> None:
    x = np.array([3, 1, 3, 1]).astype(kind)
    assert check(ops.argmax, x) == 0 and check(ops.argmin, x) == 1
    assert check(lambda t: ops.argmax(t, 0, last=True), x) == 2
    assert check(lambda t: ops.argmin(t, 0, last=True), x) == 3


def test_arg_of_nan_and_of_infinities() -> None:
    x = np.array([1, np.nan, 5, np.nan], "float32")
    assert check(ops.argmax, x) == 1 and check(ops.argmin, x) == 1
    worst = np.full(3, -np.inf, "float32")
    assert check(ops.argmax, worst) == 0
    assert check(ops.argmin, -worst) == 0


def test_mistakes_are_told() -> None:
    with pytest.raises(ShapeError, match="sum: axis 2 is out of range for 2 dimensions"):
        values(lambda t: ops.sum(t, 2), np.zeros((2, 2)))
    with pytest.raises(ShapeError, match="sum: repeated axis"):
        values(lambda t: ops.sum(t, (0, -2)), np.zeros((2, 2)))
    with pytest.raises(DTypeError, match="reduce_sum: the operand must have a numeric type"):
        values(ops.sum, np.zeros(2, bool))
    with pytest.raises(DTypeError, match="reduce_any"):
        values(ops.any, np.zeros(2))
    with pytest.raises(ShapeError, match=r"argmax: axis 0 of .* has no elements"):
        values(lambda t: ops.argmax(t, 0), np.zeros((0, 2)))
