"""Tensors that are made of numbers: constants, ranges, diagonals, windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import ml_dtypes
from onnx import numpy_helper

from frontend.onnx.helpers import run_node
from tileloom.base.errors import UserError


def array(*values: Any, kind: str = "int64") -> Any:
    return np.array(values, kind)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 1)])
@pytest.mark.parametrize(
    "value", [None, array(7), array(-1.5, kind="float32"), array(True, kind="bool"),
              np.array([3], ml_dtypes.int4)],
)  # fmt: skip
def test_constants_of_a_shape(shape: tuple[int, ...], value: Any) -> None:
    """Zeros of float32 unless told; also of types that only constants have."""
    attrs = {} if value is None else {"value": numpy_helper.from_array(value)}
    found = run_node("ConstantOfShape", array(*shape), opset=21, **attrs)
    wanted = np.full(shape, 0.0 if value is None else value[0])
    assert found.dtype == ("float32" if value is None else value.dtype)
    np.testing.assert_array_equal(found.astype("float32"), wanted.astype("float32"))


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.int4])
@pytest.mark.parametrize("shape", [(-1,), (3, -2), (0, -1)])
def test_extents_of_constants_are_not_negative(kind: Any, shape: tuple[int, ...]) -> None:
    value = numpy_helper.from_array(np.array([3], kind))
    with pytest.raises(UserError, match="ConstantOfShape"):
        run_node("ConstantOfShape", array(*shape), opset=21, value=value)


def test_constants_of_types_for_constants_have_few_elements() -> None:
    value = numpy_helper.from_array(np.array([3], ml_dtypes.int4))
    for shape in ((1 << 40,), (1 << 32, 1 << 32)):
        with pytest.raises(UserError, match="unusable shape"):
            run_node("ConstantOfShape", array(*shape), opset=21, value=value)


@pytest.mark.parametrize("size", [0, 2])
def test_constants_have_one_value(size: int) -> None:
    value = numpy_helper.from_array(np.zeros(size, np.float32))
    with pytest.raises(UserError, match=f"must have one element, not {size}"):
        run_node("ConstantOfShape", array(3), value=value)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (4, 1), (0, 3)])
@pytest.mark.parametrize("k", [None, 0, 1, -2, 7])
@pytest.mark.parametrize(("kind", "number"), [("int32", None), ("float32", 1), ("bool", 9)])
def test_diagonals(shape: tuple[int, int], k: int | None, kind: str, number: int | None) -> None:
    attrs = {name: value for name, value in (("k", k), ("dtype", number)) if value is not None}
    found = run_node("EyeLike", np.ones(shape, "int32"), outputs=1, **dict[str, Any](attrs))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, np.eye(*shape, k or 0, dtype=kind))


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), ()])
def test_diagonals_are_of_matrices(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="the input must be a matrix"):
        run_node("EyeLike", np.zeros(shape, "float32"))


@pytest.mark.parametrize("kind", ["int16", "int32", "int64", "float32", "float64"])
def test_ranges(kind: str) -> None:
    """As many steps as fit between both ends, the second left out; none where there is no way."""
    numbers = [-4, 0, 7] if kind[0] == "i" else [-4.0, 0.25, 7.5]
    steps = [-3, 1, 2] if kind[0] == "i" else [-2.5, 0.75, 3.0]
    for start, limit, step in itertools.product(numbers, numbers, steps):
        given = [np.array(n, kind) for n in (start, limit, step)]
        found = run_node("Range", *given)
        assert found.dtype == kind
        np.testing.assert_allclose(found, np.arange(start, limit, step), rtol=1e-6)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((0.0, 1.0, 0.0), "has no end"),
        ((0.0, np.inf, 1.0), "has no end"),
        ((np.nan, 1.0, 1.0), "has no end"),
        ((0.0, 1e12, 1.0), "is too large"),
    ],
)
def test_ranges_that_have_no_end(numbers: tuple[float, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        run_node("Range", *(np.array(n, "float32") for n in numbers))


WINDOWS = {
    "HannWindow": lambda t: 0.5 - 0.5 * np.cos(t),
    "HammingWindow": lambda t: 25 / 46 - 21 / 46 * np.cos(t),
    "BlackmanWindow": lambda t: 0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("periodic", [None, 0, 1])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 16])
def test_windows(name: str, periodic: int | None, size: int) -> None:
    """Of a period, or from one end to the other."""
    attrs: dict[str, Any] = {} if periodic is None else {"periodic": periodic}
    found = run_node(name, np.array(size, "int64"), opset=17, output_datatype=11, **attrs)
    period = size - 1 if periodic == 0 else size
    wanted = WINDOWS[name](2 * np.pi * np.arange(size) / max(period, 1))
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("size", [-1, 1 << 40])
def test_windows_have_a_size(size: int) -> None:
    with pytest.raises(UserError, match="unusable window size"):
        run_node("HannWindow", np.array(size, "int64"))
