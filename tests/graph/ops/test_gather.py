"""Reading at computed places, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops


def data(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "uint32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(), (2,), (2, 2), (0,)])
def test_gather(shape: tuple[int, ...], axis: int, kind: str, rng: np.random.Generator) -> None:
    x, indices = data(3, 4, 5), np.asarray(rng.integers(0, 3, shape)).astype(kind)
    np.testing.assert_array_equal(
        check(lambda a, b: ops.gather(a, b, axis), x, indices), np.take(x, indices, axis)
    )


def test_negative_indices_count_from_the_end_and_others_stay_inside() -> None:
    x, indices = data(5), np.array([-1, -5, 4, 5, 99, -6, -99])
    assert check(ops.gather, x, indices).tolist() == [4, 0, 4, 4, 4, 0, 0]


def test_take_without_an_axis_is_flat() -> None:
    x, indices = data(2, 3), np.array([[5, 0]])
    assert check(ops.take, x, indices).tolist() == [[5, 0]]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int, rng: np.random.Generator) -> None:
    x, indices = data(4, 3), rng.integers(-3, 3, (4, 3))
    expected = np.take_along_axis(x, indices, axis)
    for build in (ops.gather_elements, ops.take_along_axis):
        found = check(lambda a, b, f=build: f(a, b, axis), x, indices)
        np.testing.assert_array_equal(found, expected)


def test_gather_elements_of_fewer_rows() -> None:
    x, indices = data(4, 3), np.array([[2, 0, 3]])
    assert check(ops.gather_elements, x, indices).tolist() == [[6, 1, 11]]


def test_take_along_axis_broadcasts() -> None:
    x, indices = data(3, 4), np.array([[1, 0]])
    np.testing.assert_array_equal(
        check(ops.take_along_axis, x, indices), np.take_along_axis(x, indices, 1)
    )


@pytest.mark.parametrize(
    ("indices", "batch", "expected"),
    [
        ([[0, 0], [1, 1]], 0, [0, 3]), ([[1], [0]], 0, [[2, 3], [0, 1]]), ([[1], [0]], 1, [1, 2]),
        ([[-1, -1]], 0, [3]), (np.zeros((2, 0), "int64"), 0, [[[0, 1], [2, 3]]] * 2),
    ],
)  # fmt: skip
def test_gather_nd(indices: Any, batch: int, expected: Any) -> None:
    found = check(lambda a, b: ops.gather_nd(a, b, batch), data(2, 2), np.array(indices))
    assert found.tolist() == expected


def test_gather_nd_with_batches(rng: np.random.Generator) -> None:
    x, indices = data(2, 3, 4, 5), rng.integers(0, 3, (2, 3, 6, 1))
    expected = np.stack([[x[b, c, indices[b, c, :, 0]] for c in range(3)] for b in range(2)])
    found = check(lambda a, b: ops.gather_nd(a, b, 2), x, indices)
    np.testing.assert_array_equal(found, expected)


def test_one_hot_of_narrow_indices() -> None:
    found = check(lambda i: ops.one_hot(i, 300), np.array([255], "uint8"))
    assert found[0].argmax() == 255 and found.sum() == 1


def test_one_hot() -> None:
    found = check(lambda i: ops.one_hot(i, 3), np.array([0, 2, -1, 5]))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
    found = check(lambda i: ops.one_hot(i, 2, 7, 5, 0, "int8"), np.array([0, 1, 1]))
    assert found.tolist() == [[7, 5, 5], [5, 7, 7]] and found.dtype == np.int8


def test_mistakes_are_told() -> None:
    with pytest.raises(DTypeError, match="gather: the indices must have an integer type"):
        values(ops.gather, data(3), np.array([0.0]))
    with pytest.raises(ShapeError, match=r"gather: float32\[0\] has no elements to gather"):
        values(ops.gather, data(0), np.array([0]))
    with pytest.raises(ShapeError, match="exceed axis 1 of the data"):
        values(ops.gather_elements, data(2, 2), np.zeros((2, 3), int))
    with pytest.raises(ShapeError, match="need as many dimensions"):
        values(ops.gather_elements, data(2, 2), np.zeros(2, int))
    with pytest.raises(ShapeError, match=r"gather_nd: indices .* do not fit"):
        values(ops.gather_nd, data(2, 2), np.zeros((2, 3), int))


@pytest.mark.parametrize("extent", [1, 2, 5])
def test_where_indices_end_up(extent: int) -> None:
    index = np.arange(-8, 9)
    wanted = [min(max(i + extent if i < 0 else i, 0), extent - 1) for i in index.tolist()]
    x = np.arange(extent) + 10
    for kind in ("int8", "int32", "int64"):
        found = check(lambda t, i: ops.gather(t, i, 0), x, index.astype(kind))
        assert (found - 10).tolist() == wanted
