"""where, clip, cast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, graph_of, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops
from tileloom.graph.nodes import Tensor, tensor_type

KINDS = ["bool", "int8", "uint8", "int32", "int64", "float16", ml_dtypes.bfloat16, "float64"]


@pytest.mark.parametrize("target", KINDS, ids=str)
@pytest.mark.parametrize("source", KINDS, ids=str)
def test_cast_between_all_types(source: Any, target: Any) -> None:
    x = np.array([0, 1, 2, 5, 100]).astype(source)
    result = check(lambda t: ops.cast(t, str(np.dtype(target))), x)
    np.testing.assert_array_equal(result, x.astype(target))


def test_cast_truncates_and_nan_is_true() -> None:
    x = np.array([-1.9, -0.5, 0.5, 1.9], "float32")
    assert check(lambda t: ops.cast(t, "int32"), x).tolist() == [-1, 0, 0, 1]
    y = np.array([np.nan, 0, -0.0, 1e-40, 0.25], "float32")
    assert check(lambda t: ops.cast(t, "bool"), y).tolist() == [True, False, False, True, True]


def test_cast_wraps_integers() -> None:
    x = np.array([255, 256, -1, 130])
    assert check(lambda t: ops.cast(t, "uint8"), x).tolist() == [255, 0, 255, 130]
    assert check(lambda t: ops.cast(t, "int8"), x).tolist() == [-1, 0, -1, -126]


def test_cast_to_the_same_type_is_nothing() -> None:
    assert graph_of(lambda t: ops.cast(t, "float32"), np.zeros(2, "float32")).nodes == []


def test_where_broadcasts(rng: np.random.Generator) -> None:
    c, x, y = rng.random((3, 1)) < 0.5, rng.random((1, 4)), rng.random(())
    result = check(ops.where, c, x, np.asarray(y))
    np.testing.assert_array_equal(result, np.where(c, x, y))


def test_where_does_not_mix_in_nan() -> None:
    c, x = np.array([True, False]), np.array([1.0, np.nan])
    assert check(lambda a, b: ops.where(a, b, 0.0), c, x).tolist() == [1, 0]


def test_clip() -> None:
    x = np.array([-2.0, 0.5, 3.0, np.nan], "float32")
    np.testing.assert_array_equal(
        check(lambda t: ops.clip(t, 0.0, 1.0), x), np.array([0, 0.5, 1, np.nan], np.float32)
    )
    assert check(lambda t: ops.clip(t, None, 1), np.array([0, 5])).tolist() == [0, 1]
    # With crossed bounds the upper one wins, as in NumPy.
    assert check(lambda t: ops.clip(t, 3, 1), np.array([0, 5])).tolist() == [1, 1]


def test_mistakes_are_told() -> None:
    with pytest.raises(DTypeError, match="where: the condition must have a bool type"):
        values(ops.where, np.zeros(2), np.zeros(2), np.zeros(2))
    with pytest.raises(ShapeError, match="where: shapes"):
        values(ops.where, np.zeros(2, bool), np.zeros(3), np.zeros(2))
    with pytest.raises(DTypeError, match="unknown data type"):
        values(lambda t: ops.cast(t, "float33"), np.zeros(2))


def test_numbers_must_fit_the_tensor() -> None:
    x = np.zeros(2, "int8")
    for number, words in [
        (0.5, "0.5 is no value of int8"),
        (300, "int8 constant of 300"),
        (np.inf, "inf is no"),
    ]:
        with pytest.raises(DTypeError, match=words):
            values(lambda t, n=number: ops.add(t, n), x)
    with pytest.raises(DTypeError, match="int32 constant of nan"):
        ops.constant(np.nan, "int32")
    with pytest.raises(DTypeError, match="unknown data type"):
        ops.constant(["a"])


def test_constants_are_native() -> None:
    tensor: Any = ops.constant(np.array([1, 2], ">f4"))
    assert tensor.dtype == "float32" and tensor.value.dtype.isnative


@pytest.mark.parametrize("kind", ["float32x4", "handle"])
def test_tensors_have_elements_of_numbers(kind: str) -> None:
    x = Tensor(tensor_type((3,), "float32"), "x")
    with pytest.raises(DTypeError, match=f"tensors of {kind} do not exist"):
        ops.cast(x, kind)
