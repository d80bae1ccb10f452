"""Kernels for any size at the widths where they change: whole vectors, strips, buckets, the rest.

Arrays end where the memory may be read no further, so that what is read behind a row would show in
results of the next one; values behind the last row are never used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from sampling import sampled
from tileloom import numpy as tnp

ROWS, WIDTH = tl.Dim("rows", max=4096), tl.Dim("width", max=4096)
#: Around one to nine vectors of 4 to 16 elements, the widest strips, and blocks for two workers.
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 100,
          127, 128, 129, 138, 144, 168, 175, 176, 177, 255, 256, 257, 300, 511, 512, 513, 520, 1023,
          1025, 2050)  # fmt: skip
RNG = np.random.default_rng(11)


def _softmax(x: Any, axis: int) -> Any:
    weights = np.exp(x - x.max(axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def _layer_norm(x: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sum of columns": (lambda x: tnp.sum(x, axis=0), lambda x: x.sum(0)),
    "largest of columns": (lambda x: tnp.max(x, axis=0), lambda x: x.max(0)),
    "softmax of columns": (lambda x: tnp.softmax(x, axis=0), lambda x: _softmax(x, 0)),
    "sum of rows": (lambda x: tnp.sum(x, axis=1), lambda x: x.sum(1)),
    "sum": (tnp.sum, lambda x: x.sum()),
    "softmax of rows": (lambda x: tnp.softmax(x, axis=1), lambda x: _softmax(x, 1)),
    "layer norm": (tnp.layer_norm, _layer_norm),
    "least of rows": (lambda x: tnp.argmin(x, axis=1), lambda x: x.argmin(1)),
    "a formula": (lambda x: x * 2.0 + 1.0, lambda x: x * 2.0 + 1.0),
}


@pytest.mark.parametrize("name", sampled(CASES, 3))
def test_every_width(name: str) -> None:
    ours, numpy = CASES[name]
    function = tl.jit(ours, dynamic_shapes=[(ROWS, WIDTH)])
    for width in WIDTHS:
        for rows in (1, 3, 50):
            x = RNG.standard_normal((rows, width)).astype("float32")
            expected = numpy(x.astype("float64"))
            np.testing.assert_allclose(function(x), expected, rtol=1e-4, atol=1e-4)
    assert function.compilations == 1


def test_tall_columns_in_parts() -> None:
    function = tl.jit(lambda x: tnp.mean(x, axis=0), dynamic_shapes=[(ROWS, WIDTH)])
    for rows, width in ((4095, 100), (4096, 33), (2271, 138), (3001, 250), (2999, 257)):
        x = RNG.standard_normal((rows, width)).astype("float32")
        np.testing.assert_allclose(function(x), x.mean(0, dtype="float64"), rtol=1e-3, atol=1e-4)
    assert function.compilations == 1


@pytest.mark.parametrize("static", [pytest.param(False, marks=pytest.mark.slow), True])
def test_products_with_a_turned_operand(static: bool) -> None:
    batch, depth = tl.Dim("batch", max=64), tl.Dim("depth", max=512)
    shapes = None if static else {"x": (batch, WIDTH, depth), "y": (batch, ROWS, depth)}

    def product(x: Any, y: Any) -> Any:
        return tnp.matmul(x, tnp.matrix_transpose(y)) * 0.5

    function = tl.jit(product, dynamic_shapes=shapes)
    for rows, columns, deep in (
        (1, 1, 1), (3, 5, 16), (5, 16, 17), (12, 17, 64), (13, 33, 40), (25, 31, 15), (7, 48, 33),
        (60, 64, 100), (9, 3, 512),
    ):  # fmt: skip
        x = RNG.standard_normal((2, rows, deep)).astype("float32")
        y = RNG.standard_normal((2, columns, deep)).astype("float32")
        y[0, -1, :] = np.inf  # of the last column, and of no other
        with np.errstate(invalid="ignore"):
            expected = x.astype("float64") @ y.astype("float64").transpose(0, 2, 1) * 0.5
        np.testing.assert_allclose(function(x, y), expected, rtol=1e-3, atol=1e-3)
    assert static or function.compilations == 1


@pytest.mark.slow
def test_products_whose_depth_is_taken_in_stretches() -> None:
    depth = tl.Dim("depth", max=4096)

    def layer(x: Any, y: Any) -> Any:
        return tnp.relu(tnp.matmul(x, y)) + 1.0

    function = tl.jit(layer, dynamic_shapes={"x": (ROWS, depth), "y": (depth, WIDTH)})
    for rows, columns, deep in (
        (25, 33, 1100),
        (5, 70, 513),
        (14, 9, 1536),
        (1, 1, 4000),
        (12, 32, 20),
    ):
        x = RNG.standard_normal((rows, deep)).astype("float32")
        y = RNG.standard_normal((deep, columns)).astype("float32")
        expected = np.maximum(x.astype("float64") @ y.astype("float64"), 0.0) + 1.0
        np.testing.assert_allclose(function(x, y), expected, rtol=1e-3, atol=1e-3)
    assert function.compilations == 1


@pytest.mark.slow
def test_a_product_with_results_in_two_orders() -> None:
    rows = tl.Dim("n")

    @tl.jit(dynamic_shapes={"x": {0: rows, 1: WIDTH, 2: WIDTH}})
    def both(x: Any) -> Any:
        product = tnp.matmul(x[1:], x[1:])
        return product + 1.0, tnp.transpose(product, (1, 0, 2))

    for count, width in ((2, 5), (7, 5), (3, 17)):
        x = RNG.standard_normal((count, width, width)).astype("float32")
        product = x[1:] @ x[1:]
        first, second = both(x)
        np.testing.assert_allclose(first, product + 1.0, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second, product.transpose(1, 0, 2), rtol=1e-4, atol=1e-4)
    assert both.compilations == 1


@pytest.mark.slow
def test_a_product_of_slices_that_may_be_empty() -> None:
    @tl.jit(dynamic_shapes={"x": {0: ROWS, 1: WIDTH}})
    def both(x: Any) -> Any:
        part = x[:, 1:]
        product = tnp.matmul(part, tnp.matrix_transpose(part))
        return product, tnp.transpose(product + 1.0, (1, 0, 2))

    for rows, width in ((8, 37), (2, 2), (3, 1)):
        x = RNG.standard_normal((rows, width, 12)).astype("float32")
        product = x[:, 1:] @ x[:, 1:].transpose(0, 2, 1)
        first, second = both(x)
        np.testing.assert_allclose(first, product, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second, product.transpose(1, 0, 2) + 1.0, rtol=1e-4, atol=1e-4)
