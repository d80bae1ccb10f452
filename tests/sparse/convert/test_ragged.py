"""Ragged arrays, and sums that int32 does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import INDEX_TYPES
from tileloom.base import UserError
from tileloom.base.errors import ShapeError
from tileloom.sparse.convert import ragged, ragged_matrices

SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5)


@given(SIZES, st.sampled_from(INDEX_TYPES))
def test_matrices_one_after_another(sizes: list[tuple[int, int]], dtype: Any) -> None:
    rows, cols = (np.array([size[axis] for size in sizes], dtype) for axis in (0, 1))
    batch = ragged_matrices(rows, cols)
    numbers = iter(range(1000))
    row = 0
    for matrix, (height, width) in enumerate(sizes):
        assert batch.rows_indptr[matrix] == row
        for i in range(height):
            for j in range(width):
                number = next(numbers)
                assert batch.indptr[matrix] + i * batch.cols[matrix] + j == number
                assert batch.row_indptr[row] + j == number
            row += 1
    assert batch.indptr[-1] == batch.row_indptr[-1] == next(numbers)
    assert len(batch.row_indptr) == row + 1
    parts = (batch.indptr, batch.rows_indptr, batch.row_indptr, batch.cols)
    assert {part.dtype for part in parts} == {np.dtype(dtype)}


def test_sums_are_widened_not_wrapped() -> None:
    most = np.array([2**31 - 1], np.int32)
    assert ragged(most).dtype == np.int32
    wide = ragged(np.repeat(most, 3))
    assert wide.dtype == np.int64
    assert wide.tolist() == [(2**31 - 1) * times for times in range(4)]
    batch = ragged_matrices(np.array([3], np.int32), most)
    assert batch.indptr.tolist() == [0, 3 * (2**31 - 1)]
    assert batch.row_indptr.dtype == np.int64
    assert batch.rows_indptr.dtype == np.int32
    assert ragged([1], np.int32).dtype == np.int32
    assert ragged([], np.int32).tolist() == [0]


def test_refusals() -> None:
    refused: list[tuple[Any, type[UserError], str]] = [
        (lambda: ragged([0, -1]), UserError, r"lengths\[1\] is -1"),
        (lambda: ragged([1 << 62, 1 << 62]), UserError, "more than can be counted"),
        (lambda: ragged_matrices([1 << 40], [1 << 40]), UserError, "more than can be counted"),
        (lambda: ragged_matrices([1], [1, 2]), ShapeError, "rows are given of 1 matrices, cols"),
        (lambda: ragged([1], np.float32), UserError, "dtype is float32"),
    ]
    for call, kind, text in refused:
        with pytest.raises(kind, match=text):
            call()
