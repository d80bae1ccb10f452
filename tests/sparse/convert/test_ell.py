"""Rows padded to one width, and rows cut into pieces of one width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Array, Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import IndexingError
from tileloom.sparse.convert import EllStructure, ell, padded_csr


def slots_of_rows(
    matrix: Matrix, rows: list[int], width: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Columns and sources of padded rows, found one by one."""
    columns, sources = [], []
    for row in rows:
        pairs = matrix.row(row)
        pairs += [(0, -1)] * (width - len(pairs))
        columns.append([column for column, _ in pairs])
        sources.append([source for _, source in pairs])
    return columns, sources


def agree(made: Array, expected: list[list[int]]) -> None:
    assert made.tolist() == expected


@given(matrices(duplicates=True), st.integers(0, 2), st.data())
def test_rows_are_padded(matrix: Matrix, more: int, data: st.DataObject) -> None:
    every = list(range(matrix.shape[0]))
    rows = data.draw(
        st.one_of(st.none(), st.permutations(every).map(lambda some: some[: more + 2]))
    )
    chosen = every if rows is None else rows
    longest = max((len(matrix.row(row)) for row in chosen), default=0)
    given_rows = None if rows is None else np.array(rows, np.int64)
    for width in (None, longest + more):
        made = ell(*matrix.arrays, width, given_rows)
        columns, sources = slots_of_rows(matrix, chosen, made.width)
        assert made.width == (longest if width is None else width)
        assert made.rows.tolist() == chosen
        assert made.indices.dtype == made.source.dtype == matrix.indices.dtype
        agree(made.indices, columns)
        agree(made.source, sources)


def restored(made: EllStructure, matrix: Matrix) -> Array:
    """The dense matrix that padded rows stand for."""
    out = np.zeros(matrix.shape)
    values = made.values(matrix.values)
    rows = np.broadcast_to(made.rows[:, None], made.indices.shape)
    np.add.at(out, (rows[made.mask], made.indices[made.mask]), values[made.mask])
    return out


@pytest.mark.usefixtures("small_chunks")
def test_a_large_matrix(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 400, 700, 20_000)
    made = ell(*matrix.arrays)
    np.testing.assert_array_equal(restored(made, matrix), matrix.dense())
    np.testing.assert_array_equal(made.scatter(made.values(matrix.values)), matrix.values)
    pieces = padded_csr(*matrix.arrays, 8)
    np.testing.assert_array_equal(pieces.scatter(pieces.values(matrix.values)), matrix.values)
    np.testing.assert_array_equal(pieces.indices[pieces.mask], matrix.indices)


@pytest.mark.parametrize(
    ("width", "rows", "kind", "text"),
    [
        (1, None, UserError, "row 1 has 2 elements, more than the width 1"),
        (None, [0, 2], IndexingError, "rows has 2; the matrix has 2 rows"),
        (None, [-1], IndexingError, "rows has -1"),
        (None, [1, 0, 1], UserError, "rows has row 1 2 times"),
        (-1, None, UserError, "width is -1"),
    ],
)
def test_refusals(
    width: int | None, rows: list[int] | None, kind: type[UserError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        ell([0, 1, 3], [0, 0, 1], width, rows)


@given(matrices(duplicates=True), st.integers(1, 4))
def test_rows_are_cut(matrix: Matrix, width: int) -> None:
    made = padded_csr(*matrix.arrays, width)
    assert made.indptr.dtype == made.indices.dtype == matrix.indices.dtype
    for row in range(matrix.shape[0]):
        pieces = range(int(made.indptr[row]), int(made.indptr[row + 1]))
        pairs = matrix.row(row)
        assert len(pieces) == -(-len(pairs) // width)
        pairs += [(0, -1)] * (len(pieces) * width - len(pairs))
        found = [
            (column, source)
            for piece in pieces
            for column, source in zip(made.indices[piece].tolist(), made.source[piece].tolist())
        ]
        assert found == pairs
    assert made.indptr[-1] == len(made.indices)


def test_widths_that_int32_does_not_hold() -> None:
    empty = from_rows([[], []], 5, np.int32)
    assert padded_csr(*empty.arrays, 1 << 40).indices.shape == (0, 1 << 40)
    with pytest.raises(UserError, match="width is 0"):
        padded_csr(*empty.arrays, 0)
