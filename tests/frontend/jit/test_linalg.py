"""Linear algebra against NumPy, and what neither takes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from tileloom.base.errors import UserError
from tileloom.graph.run import run

linalg: Any = np.linalg
X = np.random.default_rng(5).standard_normal((3, 4, 5)).astype("float32")
X[0, 1, 2] = X[2, 3, 4] = 0.0


def same(function: Callable[..., Any], *arrays: Any) -> None:
    """What is traced computes what NumPy does, by the references of its ops."""
    traced: Any = tl.jit(function)
    (found,) = run(traced.graph(*arrays), arrays)
    wanted = function(*arrays)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


ORDERS = [0, 1, 2, 3, 0.5, -1, -2, math.inf, -math.inf]


@pytest.mark.parametrize("axis", [0, 1, -1, (1,)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_vectors(axis: Any, keepdims: bool) -> None:
    orders = [order for order in ORDERS if order in (0, 1, 2, 3) or order == math.inf]
    for order in (None, *orders):
        same(lambda x, n=order: linalg.norm(x, n, axis, keepdims), X)
    positive = np.abs(X) + 1
    for order in ORDERS:
        same(lambda x, n=order: linalg.norm(x, n, axis, keepdims), positive)


@pytest.mark.parametrize("axis", [(0, 1), (1, 0), (-1, 0), (2, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_matrices(axis: Any, keepdims: bool) -> None:
    """The order of the axes says which are rows."""
    for order in (None, "fro", 1, -1, math.inf, -math.inf):
        same(lambda x, n=order: linalg.norm(x, n, axis, keepdims), X)


@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_all(keepdims: bool) -> None:
    for order in (None, "fro", 1, -1, math.inf, -math.inf):
        same(lambda x, n=order: linalg.norm(x, n, keepdims=keepdims), X[0])
        same(lambda x, n=order: linalg.matrix_norm(x, ord=n, keepdims=keepdims), X)
    for order in (0, 1, 2, 3, math.inf):
        same(lambda x, n=order: linalg.norm(x, n, keepdims=keepdims), X[0, 0])
        same(lambda x, n=order: linalg.vector_norm(x, ord=n, keepdims=keepdims), X)
    same(lambda x: linalg.norm(x, keepdims=keepdims), X)


def test_diagonals_and_products() -> None:
    for offset in (-4, -1, 0, 2, 5):
        same(lambda x, k=offset: linalg.diagonal(x, offset=k), X)
        same(lambda x, k=offset: linalg.trace(x, offset=k), X)
        for a, b in itertools.permutations(range(3), 2):
            same(lambda x, k=offset, a=a, b=b: np.diagonal(x, k, a, b), X)
    same(lambda x, y: linalg.outer(x, y), X[0, 0], X[0, :, 0])
    three = X[:, :, :3]
    same(lambda x, y: linalg.cross(x, y), three, three[::-1])
    same(lambda x, y: np.cross(x, y, 0, 2, 1), X, np.moveaxis(X, 0, 2))
    same(lambda x, y: np.cross(x, y, axis=0), X, X[:, ::-1])


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: linalg.outer(x[0], x[0, 0]), "two vectors are needed"),
        (lambda x: linalg.outer(x[0, 0], x[0]), "two vectors are needed"),
        (lambda x: linalg.outer(x[0], x[0]), "two vectors are needed"),
        (lambda x: linalg.matrix_norm(x[0, 0]), "matrices are needed"),
        (lambda x: linalg.norm(x, 3, (0, 1)), "matrices have no norm of order 3"),
        (lambda x: linalg.norm(x, "inf", (0, 1)), "matrices have no norm of order 'inf'"),
        (lambda x: linalg.norm(x, 1), "3 axes have no norm of order 1"),
        (lambda x: linalg.norm(x, "fro", 0), "1 axes have no norm of order 'fro'"),
        (lambda x: linalg.norm(x, 1, (1, 1)), "an axis is given twice"),
        (lambda x: linalg.norm(x, 1, (1, -2)), "an axis is given twice"),
        (lambda x: np.cross(x[..., :3], x), "cross needs vectors of 3 elements, got 3, 5"),
        (lambda x: np.cross(x, x[..., :3]), "cross needs vectors of 3 elements, got 5, 3"),
        (lambda x: np.diagonal(x[0, 0]), "a diagonal needs two dimensions"),
        (lambda x: np.diagonal(x, 0, 1, -2), "one twice"),
    ],
)
def test_refusals(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        tl.jit(function)(X)
