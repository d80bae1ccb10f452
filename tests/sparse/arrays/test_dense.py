"""Dense operands: whatever is an array, without a copy."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.sparse.arrays import Csr, dense, dense_like, requires_grad, view, with_values, wrap

BASE = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("x", "is_row_major"),
    [(BASE, True), (BASE[1:], True), (BASE.T, False), (BASE[:, ::-2], False), (BASE[2, 3], True)],
)
def test_numpy_arrays_of_any_strides(x: Any, is_row_major: bool) -> None:
    found = dense(x)
    assert found.is_row_major is is_row_major and not found.requires_grad
    assert np.shares_memory(found.array, x) or x.ndim == 0


class Interface:
    """An array that only speaks the array interface."""

    __array_interface__ = BASE.__array_interface__


class Exchange:
    """An array that only speaks DLPack."""

    def __dlpack__(self, **options: Any) -> Any:
        return BASE.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return BASE.__dlpack_device__()


class Converted:
    """An array that only has NumPy's method."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return BASE


@pytest.mark.parametrize(
    "x",
    [Interface(), Exchange(), Converted(), BASE.data, BASE.view(np.matrix)],
    ids=lambda x: type(x).__name__,
)
def test_whatever_gives_its_memory(x: Any) -> None:
    found = dense(x)
    assert type(found.array) is np.ndarray and np.shares_memory(found.array, BASE)
    assert found.array.shape == (4, 6) and found.is_row_major


def test_subclasses_of_any_strides() -> None:
    found = dense(BASE.view(np.matrix).T)
    assert type(found.array) is np.ndarray and np.shares_memory(found.array, BASE)
    assert not found.is_row_major


def test_lists_and_numbers_become_arrays() -> None:
    assert dense([[1, 2], [3, 4]]).array.tolist() == [[1, 2], [3, 4]]
    assert dense(array.array("d", [1.5])).array.dtype == np.float64
    assert dense(2.5).array.shape == () and dense(np.float32(2.5)).array.dtype == np.float32
    assert dense([np.ones(2), np.zeros(2)]).array.shape == (2, 2)


def test_types_of_ml_dtypes() -> None:
    assert dense(BASE.astype(ml_dtypes.bfloat16)).array.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.ma.array([1.0]), "b is a masked array: the mask would be lost"),
        ([[1.0], [2.0, 3.0]], "b cannot be read as an array"),
        (["text"], "b is a list; an array of numbers is meant here"),
        (None, "b is None; an array of numbers is meant here"),
        (object(), "b is an object; an array of numbers is meant here"),
        (Csr([0, 0], [], [], (1, 1)), "b is a tileloom Csr; a dense array is meant here"),
    ],
)
def test_what_is_no_dense_array(x: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        dense(x, what="b")
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (BASE, "a is a dense numpy array; a sparse array is meant here"),
        (np.ma.array([1.0]), "a is a dense numpy masked array; a sparse"),
        (BASE.view(np.matrix), "a is a dense numpy array; a sparse"),
        ([[1.0]], "a is a list; a sparse"),
        (3, "a is an int; a sparse"),
        (None, "a is None; a sparse"),
        (Csr, "a is a type; a sparse"),
        (np.float32(1), "a is a numpy float32; a sparse"),
    ],
)
def test_what_is_no_sparse_array(x: Any, text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        view(x, what="a")
    assert str(caught.value).startswith(text)
    a = Csr([0, 0], [], [], (1, 1))
    with pytest.raises(ArgumentError, match="like is"):
        wrap(a, like=x)
    with pytest.raises(ArgumentError, match="like is"):
        with_values(a.data, like=x)


def test_a_class_that_only_sounds_like_one_of_scipys() -> None:
    class csr_array:
        __module__ = "mine"
        __qualname__ = "csr_array"

    with pytest.raises(ArgumentError, match="x is a mine csr_array"):
        view(csr_array())


def test_dense_results_for_what_is_of_no_library() -> None:
    for like in (BASE, [1.0], 3.0, Converted()):
        assert dense_like(BASE, like=like) is BASE
    assert not requires_grad(BASE) and not requires_grad([1.0])
