"""hyb(c, k): buckets of rows in parts of the columns, against one row at a time in Python."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Array, Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import ShapeError
from tileloom.sparse.convert import column_part_hyb, hyb

Buckets = list[list[tuple[list[int], list[list[int]], list[list[int]]]]]

WIDTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(sorted)


def by_rows(matrix: Matrix, parts: int, widths: list[int]) -> Buckets:
    """For each part and bucket the rows, columns and sources, from the definition."""
    found: Buckets = [[([], [], []) for _ in widths] for _ in range(parts)]
    columns_in_part = max(1, -(-matrix.shape[1] // parts))
    for row in range(matrix.shape[0]):
        for part in range(parts):
            pairs = [pair for pair in matrix.row(row) if pair[0] // columns_in_part == part]
            fitting = [number for number, width in enumerate(widths) if width >= len(pairs)]
            bucket = fitting[0] if fitting else len(widths) - 1
            rows, columns, sources = found[part][bucket]
            for begin in range(0, len(pairs), widths[bucket]):
                piece = pairs[begin : begin + widths[bucket]]
                piece = piece + [(0, -1)] * (widths[bucket] - len(piece))
                rows.append(row)
                columns.append([column for column, _ in piece])
                sources.append([source for _, source in piece])
    return found


@given(matrices(duplicates=True), st.integers(1, 4), WIDTHS)
def test_buckets(matrix: Matrix, parts: int, widths: list[int]) -> None:
    made = hyb(*matrix.csr, num_col_parts=parts, widths=widths)
    expected = by_rows(matrix, parts, widths)
    assert len(made) == parts
    for part in range(parts):
        for bucket, (rows, columns, sources) in zip(made[part], expected[part], strict=True):
            assert bucket.rows.tolist() == rows
            assert bucket.indices.tolist() == columns
            assert bucket.source.tolist() == sources
            kinds = {bucket.rows.dtype, bucket.indices.dtype, bucket.source.dtype}
            assert kinds == {matrix.indices.dtype}
    back = made.scatter(made.values(matrix.values))
    assert back.tolist() == matrix.values.tolist()


@given(matrices(duplicates=True), st.integers(1, 4), WIDTHS)
def test_the_lists_of_sparsetir(matrix: Matrix, parts: int, widths: list[int]) -> None:
    made = column_part_hyb(*matrix.shape, *matrix.arrays, parts, widths)
    expected = by_rows(matrix, parts, widths)
    for part in range(parts):
        for number, (rows, columns, sources) in enumerate(expected[part]):
            row_indices, col_indices, mask = (nested[part][number] for nested in made)
            assert row_indices.tolist() == rows
            assert col_indices.tolist() == columns
            assert mask.tolist() == [[int(source >= 0) for source in row] for row in sources]
            assert mask.dtype == matrix.indices.dtype


def product(matrix: Matrix, parts: int, widths: list[int], dense: Array) -> Array:
    """The product with a dense matrix, as a kernel of buckets makes it: every part adds to it."""
    made = hyb(*matrix.csr, num_col_parts=parts, widths=widths)
    out = np.zeros((matrix.shape[0], dense.shape[1]))
    for buckets, weights in zip(made.parts, made.values(matrix.values)):
        for bucket, weight in zip(buckets, weights):
            np.add.at(out, bucket.rows, np.einsum("rw,rwk->rk", weight, dense[bucket.indices]))
    return out


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_products(rng: np.random.Generator, dtype: type, parts: int, is_sorted: bool) -> None:
    matrix = random_matrix(rng, 500, 900, 20_000, dtype)
    if not is_sorted:
        matrix = Matrix(matrix.indptr, matrix.indices[::-1].copy(), matrix.shape)
    dense = rng.random((900, 3))
    np.testing.assert_allclose(
        product(matrix, parts, [1, 2, 4, 8, 16], dense), matrix.dense() @ dense, rtol=1e-9
    )


def test_edge_ids_survive() -> None:
    """What SparseTIR's masks lose."""
    made = hyb([0, 3, 4], [2, 0, 1, 1], (2, 3), widths=[1, 2])
    ids = made.values(np.array([10, 11, 12, 13]), fill=-1)
    assert [part.tolist() for part in ids[0]] == [[[13]], [[10, 11], [12, -1]]]
    assert made.padding == pytest.approx(1 / 5)


def test_refusals() -> None:
    empty = from_rows([[]], 3)
    for widths, text in (([], "must ascend"), ([2, 2], "must ascend"), ([0, 1], "a width is 0")):
        with pytest.raises(UserError, match=text):
            hyb(*empty.csr, widths=widths)
    with pytest.raises(UserError, match="num_col_parts is 0"):
        hyb(*empty.csr, num_col_parts=0, widths=[1])
    made = hyb(*empty.csr, widths=[1, 2])
    assert made.padding == 0
    with pytest.raises(ShapeError, match="not those of the parts and buckets"):
        made.scatter([[np.zeros((0, 1))]])


@pytest.mark.slow
def test_ten_times_as_fast_as_row_by_row(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 30_000, 30_000, 240_000)
    widths = [1, 2, 4, 8, 16, 32]
    begin = time.perf_counter()
    expected = by_rows(matrix, 1, widths)
    middle = time.perf_counter()
    made = hyb(*matrix.csr, widths=widths)
    end = time.perf_counter()
    assert [bucket.rows.tolist() for bucket in made[0]] == [rows for rows, _, _ in expected[0]]
    assert middle - begin > 10 * (end - middle)
