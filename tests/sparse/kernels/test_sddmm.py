"""Kernels of sampled products with what they are told, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.driver import build
from tileloom.sparse.kernels.sddmm import SddmmCase, sddmm_groups
from tileloom.sparse.kernels.sddmm_parts import sddmm_parts

sp = pytest.importorskip("scipy.sparse")
Array = np.ndarray[Any, Any]
FEW, MANY, SINGLE, NONE = (5, 200, 0.9), (53, 41, 0.2), (1, 3, 0.5), (100, 100, 0.0)


def operands(shape: tuple[int, int, float], k: int, dtype: str) -> tuple[Any, Array, Array]:
    rng = np.random.default_rng(0)
    m, n, density = shape
    mask = sp.random_array((m, n), density=density, format="csr", rng=rng) * 9
    mask.sort_indices()
    x, y = ((rng.random((rows, k)) * 9).astype(dtype) for rows in (m, n))
    return mask.astype(dtype), x, y


def rows(mask: Any) -> Array:
    return np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))


def check(found: Array, mask: Any, x: Array, y: Array, values: str) -> None:
    left, right = x[rows(mask)].astype("float64"), y[mask.indices].astype("float64")
    wanted = np.einsum("pk,pk->p", left, right)
    if values == "multiply":
        wanted *= mask.data
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("ahead", [16, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("k", "dtype", "lanes", "values"),
    [
        (1, "float32", 16, "multiply"),
        (37, "float32", 16, "ignore"),
        (128, "float32", 8, "multiply"),
        (300, "float32", 16, "multiply"),
        (256, "float32", 16, "ignore"),
        (70, "float64", 8, "multiply"),
        (5, "float64", 2, "multiply"),
        (20, "int64", 8, "multiply"),
        (33, "uint32", 4, "ignore"),
    ],
)
def test_groups(k: int, dtype: str, lanes: int, values: str, ahead: int) -> None:
    kernel = build(sddmm_groups(SddmmCase(k, dtype, "int32", lanes, values, ahead, 2)))
    for shape in (FEW, MANY, SINGLE, NONE):
        mask, x, y = operands(shape, k, dtype)
        given = [mask.data, x, y] if values == "multiply" else [x, y]
        of_elements = rows(mask).astype("int32"), mask.indices.astype("int32")
        for units in (1, 3):
            found = np.zeros(mask.nnz, dtype)
            kernel(*given, found, *of_elements, *mask.shape, mask.nnz, units)
            check(found, mask, x, y, values)


@pytest.mark.parametrize(
    ("k", "tile", "dtype", "lanes", "values"),
    [
        (64, 4, "float32", 16, "multiply"),
        (128, 8, "float32", 8, "ignore"),
        (256, 8, "float32", 16, "multiply"),
        (256, 8, "float32", 16, "ignore"),
        (192, 8, "float64", 8, "multiply"),
    ],
)
def test_parts(k: int, tile: int, dtype: str, lanes: int, values: str) -> None:
    kernel = build(sddmm_parts(SddmmCase(k, dtype, "int32", lanes, values, 16, 2), tile))
    for shape in (FEW, MANY, SINGLE, NONE):
        mask, x, y = operands(shape, k, dtype)
        given = [mask.data, x, y] if values == "multiply" else [x, y]
        index = mask.indptr.astype("int32"), mask.indices.astype("int32")
        for units, long, width in ((1, 50, 37), (3, 1, 100), (2, 10**6, 10), (3, 8, 1000)):
            found = np.zeros(mask.nnz, dtype)
            sizes = (*mask.shape, mask.nnz, units, long, width)
            kernel(*given, found, *index, *sizes)
            check(found, mask, x, y, values)
