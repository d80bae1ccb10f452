"""Blocks, and formats without empty rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import ShapeError
from tileloom.sparse.convert import bsr, dbsr, dcsr

BLOCK_SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4))


def padded_to(matrix: Matrix, block_shape: tuple[int, int]) -> sp.csr_array:
    """The matrix with rows and columns of zeros up to whole blocks, and no empty side."""
    rows, columns = (
        max(1, -(-extent // size)) * size for extent, size in zip(matrix.shape, block_shape)
    )
    indptr = np.append(matrix.indptr, np.full(rows - matrix.shape[0], matrix.indptr[-1]))
    return sp.csr_array((matrix.values, matrix.indices, indptr), shape=(rows, columns))


@given(matrices(), BLOCK_SHAPES)
def test_blocks(matrix: Matrix, block_shape: tuple[int, int]) -> None:
    made = bsr(*matrix.csr, block_shape)
    oracle = padded_to(matrix, block_shape).tobsr(block_shape)
    oracle.sort_indices()
    strips = -(-matrix.shape[0] // block_shape[0])
    assert made.indptr.tolist() == oracle.indptr[: strips + 1].tolist()
    assert made.indices.tolist() == oracle.indices.tolist()
    assert made.values(matrix.values).tolist() == oracle.data.tolist()
    assert {made.indptr.dtype, made.indices.dtype, made.source.dtype} == {matrix.indices.dtype}
    assert made.scatter(made.values(matrix.values)).tolist() == matrix.values.tolist()


@given(matrices(), BLOCK_SHAPES)
def test_rows_of_blocks_that_are_not_empty(matrix: Matrix, block_shape: tuple[int, int]) -> None:
    whole, made = bsr(*matrix.csr, block_shape), dbsr(*matrix.csr, block_shape)
    lengths = np.diff(whole.indptr)
    assert made.rows.tolist() == np.flatnonzero(lengths).tolist()
    assert np.diff(made.indptr).tolist() == lengths[lengths > 0].tolist()
    assert made.indices.tolist() == whole.indices.tolist()
    assert made.source.tolist() == whole.source.tolist()


@given(matrices(duplicates=True))
def test_rows_that_are_not_empty(matrix: Matrix) -> None:
    made = dcsr(*matrix.arrays)
    filled = [row for row in range(matrix.shape[0]) if matrix.row(row)]
    assert made.rows.tolist() == filled
    assert made.rows.dtype == made.indptr.dtype == matrix.indices.dtype
    for place, row in enumerate(filled):
        part = slice(int(made.indptr[place]), int(made.indptr[place + 1]))
        pairs = list(zip(made.indices[part].tolist(), made.source[part].tolist()))
        assert pairs == matrix.row(row)
    assert len(made.indptr) == len(filled) + 1


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_large_matrix(rng: np.random.Generator, dtype: type) -> None:
    matrix = random_matrix(rng, 301, 2003, 20_000, dtype)
    for block_shape in ((16, 16), (3, 7)):
        made = bsr(*matrix.csr, block_shape)
        oracle = padded_to(matrix, block_shape).tobsr(block_shape)
        oracle.sort_indices()
        np.testing.assert_array_equal(made.indices, oracle.indices)
        np.testing.assert_array_equal(made.values(matrix.values), oracle.data)


def test_refusals() -> None:
    with pytest.raises(UserError, match="elements 0 and 2 are both in row 1, column 2"):
        bsr(*from_rows([[], [2, 0, 2]], 3).csr, (2, 2))
    with pytest.raises(UserError, match="the width of a block is 0"):
        bsr(*from_rows([[0]], 3).csr, (2, 0))
    with pytest.raises(ShapeError, match="it has 2 dimensions"):
        bsr(*from_rows([[0]], 3).csr, (2, 2, 2))  # type: ignore[arg-type]


def test_blocks_wider_than_int32() -> None:
    matrix = from_rows([[], []], 3, np.int32)
    assert bsr(*matrix.csr, (1 << 40, 2)).indptr.tolist() == [0, 0]
    assert bsr(*matrix.csr, (1, 1 << 40)).indptr.tolist() == [0, 0, 0]
    with pytest.raises(UserError, match="more than can be counted"):
        bsr(*matrix.csr, (1 << 40, 1 << 40))
