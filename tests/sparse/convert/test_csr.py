"""Rows of CSR: the row of each element, sorted columns, sums of duplicates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from sparse_samples import Matrix, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import ShapeError
from tileloom.sparse.convert import row_lengths, row_of_each, sort_indices, sum_duplicates


@given(matrices(duplicates=True))
def test_rows_of_elements(matrix: Matrix) -> None:
    expected = [row for row in range(matrix.shape[0]) for _ in matrix.row(row)]
    rows = row_of_each(matrix.indptr)
    assert rows.tolist() == expected
    assert rows.dtype == matrix.indptr.dtype
    assert (
        row_lengths(matrix.indptr).tolist() == np.bincount(rows, minlength=matrix.shape[0]).tolist()
    )


@given(matrices(duplicates=True))
def test_sorting_keeps_the_order_of_duplicates(matrix: Matrix) -> None:
    made = sort_indices(*matrix.arrays)
    expected = [pair for row in range(matrix.shape[0]) for pair in sorted(matrix.row(row))]
    assert list(zip(made.indices.tolist(), made.source.tolist())) == expected
    assert made.indices.dtype == made.source.dtype == matrix.indices.dtype
    assert made.scatter(made.values(matrix.values)).tolist() == matrix.values.tolist()


@given(matrices(duplicates=True))
def test_duplicates_are_summed(matrix: Matrix) -> None:
    made = sum_duplicates(*matrix.arrays)
    sums = made.values(matrix.values)
    oracle = sp.csr_array(
        (matrix.values, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True
    )
    oracle.sum_duplicates()
    assert made.indptr.tolist() == oracle.indptr.tolist()
    assert made.indices.tolist() == oracle.indices.tolist()
    assert sums.tolist() == oracle.data.tolist()
    assert made.indptr.dtype == made.indices.dtype == matrix.indices.dtype
    spread = made.scatter(sums)
    for row in range(matrix.shape[0]):
        for column, position in matrix.row(row):
            assert spread[position] == matrix.dense()[row, column]


def test_sums_of_features_keep_their_type() -> None:
    made = sum_duplicates([0, 3], [1, 0, 1])
    data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    assert made.values(data).dtype == np.float32
    assert made.values(data).tolist() == [[3, 4], [6, 8]]
    with pytest.raises(ShapeError, match="the input has 3 elements"):
        made.values(data[:2])
    with pytest.raises(ShapeError, match="the matrix has 2 elements"):
        made.scatter(data)


def test_a_bad_indptr_is_refused() -> None:
    with pytest.raises(UserError, match="falls from 3 to 2 at row 1"):
        row_of_each([0, 3, 2])
    with pytest.raises(UserError, match="indptr is empty"):
        row_lengths([])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_many_chunks(rng: np.random.Generator, dtype: type) -> None:
    matrix = random_matrix(rng, 300, 5000, 20_000, dtype)
    shuffled = rng.permutation(len(matrix.indices))
    order = shuffled[np.argsort(matrix.rows[shuffled], kind="stable")]
    made = sort_indices(matrix.indptr, matrix.indices[order])
    np.testing.assert_array_equal(made.indices, matrix.indices)
    np.testing.assert_array_equal(order[made.source], np.arange(len(order)))
    np.testing.assert_array_equal(row_of_each(matrix.indptr), matrix.rows)
