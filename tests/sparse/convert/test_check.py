"""What is refused as a CSR matrix, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sparse_samples import Matrix, from_rows, matrices
from tileloom.base import UserError
from tileloom.base.errors import DTypeError, IndexingError, ShapeError
from tileloom.sparse.convert import check_csr, has_duplicates, has_sorted_indices

REFUSED: list[tuple[Any, Any, Any, bool | None, type[UserError], str]] = [
    ([0, 1], [0], (2, 2), None, ShapeError, "indptr has length 2; a matrix of 2 rows needs 3"),
    ([], [], (0, 2), None, ShapeError, "indptr is empty"),
    ([1, 1], [0], (1, 2), None, UserError, "indptr begins with 1"),
    ([0, 2, 1], [0], (2, 2), None, UserError, "indptr falls from 2 to 1 at row 1"),
    ([0, -1, 1], [0], (2, 2), None, UserError, "indptr falls from 0 to -1 at row 0"),
    ([0, 1, 2], [0], (2, 2), None, ShapeError, "indptr ends with 2, but there are 1 indices"),
    ([0, 1], [0, 1], (1, 2), None, ShapeError, "indptr ends with 1, but there are 2 indices"),
    ([0, 0, 2], [0, 2], (2, 2), None, IndexingError, "index 2 at position 1, in row 1, is out"),
    ([0, 0, 2], [0, 2], (2, 2), None, IndexingError, "the matrix has 2 columns"),
    ([0, 1, 2], [0, -1], (2, 2), None, IndexingError, "index -1 at position 1, in row 1"),
    ([0, 1], [0], (1, 0), None, IndexingError, "index 0 at position 0, in row 0"),
    ([0, 1, 3], [0, 1, 0], (2, 2), True, UserError, "indices of row 1 are not sorted: 0 at pos"),
    (
        [0, 0, 2],
        [1, 1],
        (2, 2),
        True,
        UserError,
        "column 1 of row 1 is there twice, at positions 0",
    ),
    (
        [0, 3],
        [1, 0, 1],
        (1, 2),
        False,
        UserError,
        "column 1 of row 0 is there twice, at positions 0",
    ),
    ([0, 1], [0], (1, -2), None, UserError, "shape[1] is -2; at least 0 is needed"),
    ([0, 1], [0], (1,), None, ShapeError, "shape is (1,); it has 2 dimensions"),
    ([0, 1], [0], (1, 2.5), None, UserError, "shape[1] is 2.5; a whole number is needed"),
    ([0, 1], [0.5], (1, 2), None, DTypeError, "indices is of type float64"),
    (np.zeros(2, np.uint8), [], (1, 2), None, DTypeError, "indptr.astype(numpy.int64)"),
    ([[0, 1]], [0], (1, 2), None, ShapeError, "indptr has shape (1, 2)"),
]


@pytest.mark.parametrize(("indptr", "indices", "shape", "order", "kind", "text"), REFUSED)
def test_refusals_say_what_and_where(
    indptr: Any, indices: Any, shape: Any, order: bool | None, kind: type[UserError], text: str
) -> None:
    with pytest.raises(kind) as caught:
        check_csr(indptr, indices, shape, sorted=order)
    assert text in str(caught.value)


@pytest.mark.parametrize("rows", [[], [[]], [[], []], [[], [2, 0], []]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_matrices_are_accepted(rows: list[list[int]], dtype: Any) -> None:
    matrix = from_rows(rows, 3, dtype)
    check_csr(*matrix.csr)
    check_csr(*matrix.csr, sorted=False)


def test_order_is_not_asked_for_by_default() -> None:
    check_csr(*from_rows([[1, 0, 1], [2, 2]], 3).csr)


def test_index_types_may_differ() -> None:
    check_csr(np.array([0, 1], np.int64), np.array([0], np.int32), (1, 1), sorted=True)


@given(matrices(duplicates=True))
def test_order_and_duplicates_are_found(matrix: Matrix) -> None:
    rows = [[column for column, _ in matrix.row(row)] for row in range(matrix.shape[0])]
    assert has_sorted_indices(*matrix.arrays) == all(row == sorted(row) for row in rows)
    assert has_duplicates(*matrix.arrays) == any(len(row) > len(set(row)) for row in rows)


@given(matrices(duplicates=True))
def test_what_a_refusal_names_is_true(matrix: Matrix) -> None:
    try:
        check_csr(*matrix.csr, sorted=False)
    except UserError as refusal:
        words = refusal.message.replace(",", "").split()
        column, row, one, other = (int(words[place]) for place in (1, 4, 10, 12))
        assert matrix.indices[one] == matrix.indices[other] == column
        assert matrix.rows[one] == matrix.rows[other] == row
        assert one < other
    else:
        assert not has_duplicates(*matrix.arrays)
