"""Ops of the host: scans, sorting, scatters, linear algebra."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import ArgumentError, DTypeError, ShapeError, UserError
from tileloom.graph import ops


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans(axis: int, rng: np.random.Generator) -> None:
    x = rng.integers(-3, 4, (3, 4), dtype="int32")
    np.testing.assert_array_equal(values(lambda t: ops.cumsum(t, axis), x), np.cumsum(x, axis))
    np.testing.assert_array_equal(values(lambda t: ops.cumprod(t, axis), x), np.cumprod(x, axis))


def test_scans_without_the_element_and_backwards() -> None:
    x = np.array([1, 2, 3])
    assert values(lambda t: ops.cumsum(t, exclusive=True), x).tolist() == [0, 1, 3]
    assert values(lambda t: ops.cumsum(t, reverse=True), x).tolist() == [6, 5, 3]
    assert values(lambda t: ops.cumsum(t, 0, True, True), x).tolist() == [5, 3, 0]
    assert values(lambda t: ops.cumprod(t, exclusive=True), x).tolist() == [1, 1, 2]
    assert values(ops.cumsum, np.zeros((0, 2))).shape == (0, 2)
    assert values(ops.cumsum, np.array([100, 100], "int8")).tolist() == [100, -56]


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(descending: bool) -> None:
    x = np.array([[2, 1, 2, 0, 1]])
    order = sorted(range(5), key=lambda k: -x[0, k] if descending else x[0, k])
    assert values(lambda t: ops.argsort(t, 1, descending), x).tolist() == [order]
    assert values(lambda t: ops.sort(t, 1, descending), x)[0].tolist() == x[0, order].tolist()


@pytest.mark.parametrize("kind", ["uint8", "float16", ml_dtypes.bfloat16, "int64"], ids=str)
def test_topk(kind: Any) -> None:
    x = np.array([3, 9, 1, 9, 5]).astype(kind)
    found, places = values(lambda t: ops.topk(t, 3), x)
    assert found.astype(int).tolist() == [9, 9, 5] and places.tolist() == [1, 3, 4]
    found, places = values(lambda t: ops.topk(t, 2, largest=False), x)
    assert places.tolist() == [2, 0] and found.dtype == x.dtype
    with pytest.raises(ShapeError, match="topk: cannot take 6 elements"):
        values(lambda t: ops.topk(t, 6), x)


@pytest.mark.parametrize("kind", ["int32", "float16", ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("none", [7, 2, 9]), ("add", [8, 2, 17]), ("mul", [7, 2, 135]), ("max", [7, 2, 9]),
        ("min", [1, 2, 3]),
    ],
)  # fmt: skip
def test_scatter_elements(reduction: str, expected: list[int], kind: Any) -> None:
    x, at = np.array([1, 2, 3]).astype(kind), np.array([0, 2, -1])
    updates = np.array([7, 5, 9]).astype(kind)
    found = values(lambda *t: ops.scatter_elements(*t, reduction=reduction), x, at, updates)
    assert found.astype(int).tolist() == expected and found.dtype == x.dtype


def test_scatter_elements_along_the_second_axis() -> None:
    x, at, updates = np.zeros((2, 3)), np.array([[1], [2]]), np.array([[5.0], [6.0]])
    found = values(lambda *t: ops.scatter_elements(*t, axis=1), x, at, updates)
    assert found.tolist() == [[0, 5, 0], [0, 0, 6]]
    assert not x.any()


def test_scatter_nd() -> None:
    x, at = np.zeros((3, 2), int), np.array([[1], [1]])
    updates = np.array([[1, 2], [3, 4]])
    assert values(ops.scatter_nd, x, at, updates).tolist() == [[0, 0], [3, 4], [0, 0]]
    found = values(lambda *t: ops.scatter_nd(*t, reduction="add"), x, at, updates)
    assert found.tolist() == [[0, 0], [4, 6], [0, 0]]
    points = np.array([[0, 1], [-1, 0]])
    assert values(ops.scatter_nd, x, points, np.array([8, 9])).tolist() == [[0, 8], [0, 0], [9, 0]]


def test_scatter_mistakes_are_told() -> None:
    x = np.zeros((2, 2))
    with pytest.raises(UserError, match="unknown reduction 'mean'"):
        values(lambda *t: ops.scatter_nd(*t, reduction="mean"), x, np.zeros((1, 1), int), x[:1])
    with pytest.raises(ShapeError, match="scatter_nd: indices"):
        values(ops.scatter_nd, x, np.zeros((1, 1), int), x)
    with pytest.raises(DTypeError, match="scatter_elements: the indices"):
        values(ops.scatter_elements, x, x, x)


def test_linear_algebra(rng: np.random.Generator) -> None:
    x = rng.random((2, 3, 3)) + np.eye(3)
    np.testing.assert_allclose(check(ops.det, x), np.linalg.det(x))
    np.testing.assert_allclose(check(ops.inverse, x) @ x, np.broadcast_to(np.eye(3), x.shape),
                               atol=1e-12)  # fmt: skip
    with pytest.raises(ArgumentError, match="inverse: Singular"):
        values(ops.inverse, np.zeros((2, 2)))
    with pytest.raises(ShapeError, match="det: needs square matrices"):
        values(ops.det, np.zeros((2, 3)))


def test_constants_of_one_value_are_computed() -> None:
    twos = np.full((2, 3), 2.0, "float32")
    found = check(lambda t: ops.add(t, ops.constant(twos)), twos)
    np.testing.assert_array_equal(found, twos + twos)


def test_numbers_alone_make_tensors() -> None:
    found = check(lambda t: ops.add(t, ops.cast(ops.add(1.5, 2.0), t.dtype)), np.float32([1, 2]))
    assert found.tolist() == [4.5, 5.5]
