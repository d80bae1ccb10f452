"""Groups whose last axis is much shorter than a vector: results of all types, and odd extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from sampling import sampled
from tileloom import numpy as tnp

Function = Callable[..., Any]


def _elementwise(np: Any, x: Any, column: Any, row: Any) -> Any:
    return np.tanh(np.exp(x * column) + row)


def _of_integers(np: Any, x: Any, column: Any, row: Any) -> Any:
    return np.where(x > row, x * x * x + column * x - row, np.abs(column - x) * row)


def _of_truth(np: Any, x: Any, column: Any, row: Any) -> Any:
    return np.logical_xor(np.logical_and(x > column, row > 0), np.logical_or(x > row, column > 0))


SHAPES = [(1, 2), (7, 2), (1031, 2), (64, 3), (333, 4), (5, 3, 2), (3, 1, 2), (2, 17, 2, 2), (9, 1)]


def _operands(shape: tuple[int, ...], dtype: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    shapes = (shape, (*shape[:-1], 1), shape[-1:])
    return tuple(rng.uniform(-4, 4, s).astype(dtype) for s in shapes)


@pytest.mark.parametrize("shape", sampled(SHAPES, 3), ids=str)
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (_elementwise, "float32"), (_elementwise, "float64"), (_elementwise, "float16"),
        (_of_integers, "int8"), (_of_integers, "int64"), (_of_truth, "float32"),
        (_of_truth, "uint8"),
    ],
)  # fmt: skip
def test_elements(function: Function, dtype: str, shape: tuple[int, ...]) -> None:
    operands = _operands(shape, dtype)
    have = np.asarray(tl.jit(lambda *given: function(tnp, *given))(*operands))
    wanted = function(np, *operands)
    tolerance = {"float16": 2e-2, "float32": 2e-6, "float64": 1e-14}.get(dtype, 0.0)
    assert have.dtype == wanted.dtype
    np.testing.assert_allclose(have, wanted, tolerance, tolerance)


@pytest.mark.parametrize("shape", [(1031, 2), (5, 300, 2), (64, 3), (333, 4), (2, 2), (40_000, 2)])
def test_reductions_of_all_elements(shape: tuple[int, ...]) -> None:
    x, column, row = _operands(shape, "float32")
    wide = np.exp(x.astype("float64") / 4) * column + row
    for name in ("sum", "max", "mean"):
        function = getattr(tnp, name)
        have = tl.jit(lambda x, c, r, f=function: f(tnp.exp(x / 4) * c + r))(x, column, row)
        np.testing.assert_allclose(np.asarray(have), getattr(np, name)(wide), 2e-5, 2e-4)
    values = np.exp(x) * np.abs(column)
    have = tl.jit(lambda x, c: tnp.argmax(tnp.exp(x) * tnp.abs(c)))(x, column)
    assert values.ravel()[int(np.asarray(have))] == pytest.approx(float(values.max()), rel=1e-5)


@pytest.mark.parametrize("shape", [(6, 50, 2), (3, 7, 3), (40, 33, 4)], ids=str)
def test_rows_of_narrow_axes(shape: tuple[int, ...]) -> None:
    x, column, _ = _operands(shape, "float32")
    have = tl.jit(lambda x, c: tnp.sum(tnp.exp(x) * c, axis=(1, 2)))(x, column)
    wanted = np.sum(np.exp(x.astype("float64")) * column, axis=(1, 2))
    np.testing.assert_allclose(np.asarray(have), wanted, 2e-5, 2e-4)
