"""Where parts of the columns begin in each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.sparse.convert import column_partition


@given(matrices(sorted_rows=True, duplicates=True), st.integers(1, 6))
def test_parts_of_rows(matrix: Matrix, parts: int) -> None:
    made = column_partition(*matrix.csr, parts)
    assert made.starts.shape == (parts + 1, matrix.shape[0])
    assert made.starts.dtype == matrix.indptr.dtype
    assert made.width * parts >= matrix.shape[1]
    for row in range(matrix.shape[0]):
        for part in range(parts):
            found = range(int(made.starts[part, row]), int(made.starts[part + 1, row]))
            columns = [column // made.width for column, _ in matrix.row(row)]
            sources = [source for _, source in matrix.row(row)]
            expected = [source for source, one in zip(sources, columns) if one == part]
            assert list(found) == expected or not (len(found) or expected)


@pytest.mark.usefixtures("small_chunks")
def test_a_large_matrix(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 300, 5000, 20_000)
    made = column_partition(*matrix.csr, 7)
    np.testing.assert_array_equal(made.starts[0], matrix.indptr[:-1])
    np.testing.assert_array_equal(made.starts[-1], matrix.indptr[1:])
    for part in range(7):
        inside = (matrix.indices // made.width == part).astype(np.int64)
        counts = np.bincount(matrix.rows, inside, minlength=300)
        np.testing.assert_array_equal(made.starts[part + 1] - made.starts[part], counts)


def test_refusals() -> None:
    with pytest.raises(UserError, match="indices of row 1 are not sorted"):
        column_partition(*from_rows([[0], [2, 1]], 3).csr, 2)
    with pytest.raises(UserError, match="parts is 0"):
        column_partition(*from_rows([[0]], 3).csr, 0)


def test_parts_wider_than_int32() -> None:
    matrix = from_rows([[0, 5]], 3, np.int32)
    made = column_partition(matrix.indptr, matrix.indices, (1, 1 << 40), 2)
    assert made.starts.tolist() == [[0], [2], [2]]
