"""Coordinates to compressed rows and back, and rows to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import INDEX_TYPES, Matrix, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import IndexingError, ShapeError
from tileloom.sparse.convert import coo_to_csr, csr_to_coo, transpose


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30),
    st.sampled_from(INDEX_TYPES),
)
def test_coordinates_by_rows(pairs: list[tuple[int, int]], dtype: Any) -> None:
    rows, cols = (np.array([pair[axis] for pair in pairs], dtype) for axis in (0, 1))
    made = coo_to_csr(rows, cols, (6, 4))
    order = sorted(range(len(pairs)), key=lambda element: pairs[element])  # stable
    assert made.source.tolist() == order
    assert made.indices.tolist() == [pairs[element][1] for element in order]
    assert np.diff(made.indptr).tolist() == np.bincount(rows, minlength=6).tolist()
    assert {made.indptr.dtype, made.indices.dtype, made.source.dtype} == {np.dtype(dtype)}
    back = csr_to_coo(made.indptr, made.indices)
    assert list(zip(*(part.tolist() for part in back))) == [pairs[element] for element in order]


@given(matrices(duplicates=True))
def test_columns_are_rows_of_the_transposed(matrix: Matrix) -> None:
    made = transpose(*matrix.csr)
    oracle = sp.csr_array((matrix.values, matrix.indices, matrix.indptr), shape=matrix.shape)
    oracle = oracle.tocsc()
    assert made.indptr.tolist() == oracle.indptr.tolist()
    assert made.indices.tolist() == oracle.indices.tolist()
    assert made.values(matrix.values).tolist() == oracle.data.tolist()
    assert {made.indptr.dtype, made.indices.dtype, made.source.dtype} == {matrix.indices.dtype}
    again = transpose(made.indptr, made.indices, matrix.shape[::-1])
    twice = again.values(made.values(matrix.values))
    assert sorted(twice.tolist()) == matrix.values.tolist()
    assert again.indptr.tolist() == matrix.indptr.tolist()


@pytest.mark.parametrize(
    ("rows", "cols", "kind", "text"),
    [
        ([0, 1], [0], ShapeError, "different lengths: rows 2, cols 1"),
        ([0, 3], [0, 0], IndexingError, "rows[1] = 3 is out of range; the extent is 3"),
        ([0, 1], [-1, 0], IndexingError, "cols[0] = -1 is out of range"),
    ],
)
def test_refusals(rows: list[int], cols: list[int], kind: type[UserError], text: str) -> None:
    with pytest.raises(kind) as caught:
        coo_to_csr(rows, cols, (3, 2))
    assert text in str(caught.value)


def test_columns_wider_than_one_key(rng: np.random.Generator) -> None:
    rows, cols = rng.integers(0, 1 << 16, 500), rng.integers(0, 1 << 60, 500)
    made = coo_to_csr(rows, cols, (1 << 16, 1 << 60))
    np.testing.assert_array_equal(made.source, np.lexsort((cols, rows)))


@pytest.mark.usefixtures("small_chunks")
def test_a_large_matrix(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 500, 3000, 20_000)
    order = rng.permutation(len(matrix.indices))
    made = coo_to_csr(matrix.rows[order], matrix.indices[order], matrix.shape)
    np.testing.assert_array_equal(made.indptr, matrix.indptr)
    np.testing.assert_array_equal(made.indices, matrix.indices)
    np.testing.assert_array_equal(order[made.source], np.arange(len(order)))
    columns = transpose(*matrix.csr)
    np.testing.assert_array_equal(
        columns.source, np.argsort(matrix.indices, kind="stable").astype(np.int32)
    )
