"""Tensors made by functions of their indices: the indices, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.compute import compute, placeholder, reduce_axis

A = placeholder((4, 6), name="A")


def names_of(tensor: Any) -> list[str]:
    return [axis.var.name for axis in tensor.op.axis]


def test_indices_are_named_as_the_function_names_them() -> None:
    assert names_of(compute((4, 6), lambda row, column: A[row, column])) == ["row", "column"]
    assert names_of(compute((4, 6), lambda *i: A[i])) == ["i0", "i1"]
    assert names_of(compute((4, 6), lambda first, *i: A[(first, *i)])) == ["first", "i1"]
    assert names_of(compute((4, 6), lambda *i: A[i], varargs_names=["a", "b"])) == ["a", "b"]
    assert names_of(compute((4, 6), lambda i, j, by=2.0: A[i, j] * by)) == ["i", "j"]
    assert names_of(compute(4, lambda i: A[i, 0])) == ["i"]


@pytest.mark.parametrize(
    ("function", "got"), [(lambda i: A[i, 0], 1), (lambda i, j, k: A[i, j], 3), (lambda: 1.0, 0)]
)
def test_a_function_of_other_indices(function: Callable[..., Any], got: int) -> None:
    words = f"compute over 2 dimensions needs a function of 2 indices, got one of {got}"
    with pytest.raises(UserError, match=words):
        compute((4, 6), function)


def test_axes_of_reductions() -> None:
    for begin, extent in [(0, 8), (2, 6)]:
        found: Any = reduce_axis((begin, begin + extent)).dom
        assert (found.min.value, found.extent.value) == (begin, extent)
