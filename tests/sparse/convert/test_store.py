"""Formats from coordinates on their axes: equal to what the functions of each format make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Array, Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.base.errors import IndexingError, ShapeError
from tileloom.sparse.convert import (
    FormatAxis,
    Slots,
    StoredStructure,
    bsr,
    condense,
    csf,
    csf_to_ell3d,
    dbsr,
    dcsr,
    ell,
    hyb,
    padded_csr,
    ragged_matrices,
    store,
)
from tileloom.sparse.convert.store import AxisKind


def dense(length: int, parent: int | None = None) -> FormatAxis:
    return FormatAxis("dense_fixed", length, parent)


def lengths(length: int, parent: int, given: Any = None) -> FormatAxis:
    return FormatAxis("dense_variable", length, parent, lengths=given)


def some(length: int, parent: int) -> FormatAxis:
    return FormatAxis("sparse_variable", length, parent)


def few(length: int, parent: int, width: int) -> FormatAxis:
    return FormatAxis("sparse_fixed", length, parent, width)


def same(made: StoredStructure, special: Slots) -> None:
    np.testing.assert_array_equal(made.source, special.source)
    assert made.source_count == special.source_count


def arrays(made: StoredStructure, axis: int) -> tuple[list[int] | None, list[Any] | None]:
    """What an axis stores, as lists."""
    indptr, indices = made.axes[axis].indptr, made.axes[axis].indices
    return (
        None if indptr is None else indptr.tolist(),
        None if indices is None else indices.tolist(),
    )


@given(matrices(), st.data())
def test_compressed_rows(matrix: Matrix, data: st.DataObject) -> None:
    """In any order the elements come; the result is sorted."""
    order = np.array(data.draw(st.permutations(range(len(matrix.indices)))), int)
    rows, columns = matrix.rows[order], matrix.indices[order]
    made = store([rows, columns], [dense(matrix.shape[0]), some(matrix.shape[1], 0)])
    expected = [pair for row in range(matrix.shape[0]) for pair in sorted(matrix.row(row))]
    assert arrays(made, 1) == (matrix.indptr.tolist(), [column for column, _ in expected])
    assert [int(order[source]) for source in made.source] == [source for _, source in expected]
    kinds = {made.axes[1].indptr.dtype, made.axes[1].indices.dtype, made.source.dtype}  # type: ignore[union-attr]
    assert kinds == {matrix.indices.dtype}


@given(matrices(), st.integers(1, 4), st.integers(1, 4))
def test_blocks(matrix: Matrix, height: int, width: int) -> None:
    rows, columns = matrix.rows, matrix.indices
    coords = [rows // height, columns // width, rows % height, columns % width]
    strips, across = (-(-extent // size) for extent, size in zip(matrix.shape, (height, width)))
    special = bsr(*matrix.csr, (height, width))
    made = store(coords, [dense(strips), some(across, 0), dense(height), dense(width)])
    same(made, special)
    assert arrays(made, 1) == (special.indptr.tolist(), special.indices.tolist())
    filled = dbsr(*matrix.csr, (height, width))
    axes = [dense(1), some(strips, 0), some(across, 1), dense(height), dense(width)]
    made = store([0 * rows, *coords], axes)
    same(made, filled)
    assert arrays(made, 1)[1] == filled.rows.tolist()
    assert arrays(made, 2) == (filled.indptr.tolist(), filled.indices.tolist())


@given(matrices(sorted_rows=True))
def test_rows_that_are_not_empty(matrix: Matrix) -> None:
    special = dcsr(*matrix.arrays)
    axes = [dense(1), some(matrix.shape[0], 0), some(matrix.shape[1], 1)]
    made = store([0 * matrix.rows, matrix.rows, matrix.indices], axes)
    same(made, special)
    assert arrays(made, 1) == ([0, len(special.rows)], special.rows.tolist())
    assert arrays(made, 2) == (special.indptr.tolist(), special.indices.tolist())


@given(matrices(sorted_rows=True), st.integers(0, 2))
def test_padded_rows(matrix: Matrix, more: int) -> None:
    """ELL of all rows, and of a list of rows."""
    every = ell(*matrix.arrays)
    width = every.width + more
    made = store(
        [matrix.rows, matrix.indices], [dense(matrix.shape[0]), few(matrix.shape[1], 0, width)]
    )
    special = ell(*matrix.arrays, width)
    same(made, special)
    assert arrays(made, 1)[1] == special.indices.tolist()
    filled = [row for row in range(matrix.shape[0]) if matrix.row(row)]
    special = ell(*matrix.arrays, width, filled)
    axes = [dense(1), some(matrix.shape[0], 0), few(matrix.shape[1], 1, width)]
    made = store([0 * matrix.rows, matrix.rows, matrix.indices], axes)
    same(made, special)
    assert arrays(made, 1)[1] == special.rows.tolist()
    assert arrays(made, 2)[1] == special.indices.tolist()


def ranks(matrix: Matrix) -> Array:
    """For each element how many are before it in its row."""
    return np.arange(len(matrix.indices)) - matrix.indptr[:-1][matrix.rows]


@given(matrices(sorted_rows=True), st.integers(1, 4))
def test_rows_in_pieces(matrix: Matrix, width: int) -> None:
    special = padded_csr(*matrix.arrays, width)
    piece = (ranks(matrix) // width).astype(matrix.indices.dtype)
    axes = [
        dense(matrix.shape[0]),
        lengths(max(1, matrix.shape[1]), 0),
        few(matrix.shape[1], 1, width),
    ]
    made = store([matrix.rows, piece, matrix.indices], axes)
    same(made, special)
    assert arrays(made, 1)[0] == special.indptr.tolist()
    assert arrays(made, 2)[1] == special.indices.tolist()


@given(matrices(sorted_rows=True), st.integers(1, 3))
def test_parts_of_hyb(matrix: Matrix, parts: int) -> None:
    """A bucket is a list of rows; the last one has several pieces for each."""
    widths = [1, 2, 4]
    special = hyb(*matrix.csr, num_col_parts=parts, widths=widths)
    part_of = matrix.indices // max(1, -(-matrix.shape[1] // parts))
    for part in range(parts):
        inside = np.flatnonzero(part_of == part)
        rows, columns = matrix.rows[inside], matrix.indices[inside]
        degree = np.bincount(rows, minlength=matrix.shape[0])
        first = np.cumsum(degree) - degree
        piece = (np.arange(len(rows)) - first[rows]) // widths[-1]
        bucket_of = np.minimum(np.searchsorted(widths, degree), len(widths) - 1)[rows]
        for number, (width, bucket) in enumerate(zip(widths, special[part])):
            own = bucket_of == number
            coords = [0 * rows[own], rows[own], piece[own], columns[own]]
            axes = [
                dense(1),
                some(matrix.shape[0], 0),
                lengths(99, 1),
                few(matrix.shape[1], 2, width),
            ]
            made = store(coords, axes)
            elements = np.append(inside[own], -1)  # those of the bucket, padding last
            np.testing.assert_array_equal(elements[made.source], bucket.source)
            assert arrays(made, 3)[1] == bucket.indices.tolist()
            row_ids, pieces = made.axes[1].indices, made.axes[2].indptr
            assert row_ids is not None and pieces is not None
            assert np.repeat(row_ids, np.diff(pieces)).tolist() == bucket.rows.tolist()


@given(matrices(sorted_rows=True), st.integers(1, 4), st.integers(1, 4))
def test_condensed_strips(matrix: Matrix, t: int, g: int) -> None:
    special = condense(*matrix.arrays, t, g)
    strip, rows = matrix.rows // t, matrix.rows % t
    distinct, rank = np.unique(strip * 100 + matrix.indices, return_inverse=True)
    first = np.searchsorted(distinct, np.arange(matrix.shape[0]) * 100)
    group = (rank - first[strip]) // g
    strips = -(-matrix.shape[0] // t)
    axes = [dense(strips), lengths(99, 0), dense(t), few(matrix.shape[1], 1, g)]
    made = store([strip, group, rows, matrix.indices], axes)
    same(made, special)
    assert arrays(made, 1)[0] == special.indptr.tolist()
    assert arrays(made, 3)[1] == special.indices.tolist()


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), unique=True, max_size=20))
def test_tensors(places: list[tuple[int, int, int]]) -> None:
    coords = [np.array([place[axis] for place in places], np.int32) for axis in range(3)]
    special = csf(coords, (4, 4, 4))
    made = store([0 * coords[0], *coords], [dense(1), some(4, 0), some(4, 1), some(4, 2)])
    same(made, special)
    for level, (indptr, indices) in enumerate(special.levels):
        assert arrays(made, level + 1) == (indptr.tolist(), indices.tolist())


def test_relations_in_one_bucket(rng: np.random.Generator) -> None:
    places = np.unravel_index(rng.choice(5 * 20 * 9, 200, replace=False), (5, 20, 9))
    order = np.lexsort(places[::-1])
    relation, row, column = (axis[order] for axis in places)
    tensor = csf([relation, row, column], (5, 20, 9), dense_root=True)
    (indptr0, indices0), (indptr1, indices1) = tensor.levels
    (special,) = csf_to_ell3d(indptr0, indices0, indptr1, indices1, [3], [9])
    node = np.repeat(np.arange(len(indices0)), np.diff(indptr1))
    group = (node - indptr0[relation]) // 3
    axes = [dense(5), lengths(99, 0), few(20, 1, 3), few(9, 2, 9)]
    made = store([relation, group, row, column], axes)
    same(made, special)
    assert arrays(made, 1)[0] == special.indptr.tolist()


def test_two_of_four() -> None:
    """Pruned weights: of four neighbours in a row two stay, and where they are is all there is."""
    weights = np.array([[5, 0, 0, 6, 0, 7, 8, 0], [0, 0, 0, 9, 1, 0, 2, 0]])
    rows, columns = np.nonzero(weights)
    made = store([rows, columns // 4, columns % 4], [dense(2), dense(2, 0), few(4, 1, 2)])
    assert made.values(weights[rows, columns]).tolist() == [[[5, 6], [7, 8]], [[9, 0], [1, 2]]]
    assert arrays(made, 2)[1] == [[0, 3], [1, 2], [3, 0], [0, 2]]
    weights[0, 1] = 3
    rows, columns = np.nonzero(weights)
    with pytest.raises(UserError, match="position 0 of axis 1 has 3 coordinates on axis 2") as told:
        store([rows, columns // 4, columns % 4], [dense(2), dense(2, 0), few(4, 1, 2)])
    assert "a greater width" in str(told.value)


def test_ragged_matrices() -> None:
    """Lengths that the elements do not need are given."""
    rows, cols = np.array([2, 0, 3]), np.array([3, 1, 2])
    layout = ragged_matrices(rows, cols)
    batch, i, j = np.array([0, 2, 0]), np.array([1, 2, 0]), np.array([1, 0, 0])
    per_row = np.repeat(cols, rows)
    made = store([batch, i, j], [dense(3), lengths(3, 0, rows), lengths(3, 1, per_row)])
    assert arrays(made, 1)[0] == layout.rows_indptr.tolist()
    assert arrays(made, 2)[0] == layout.row_indptr.tolist()
    assert len(made.source) == 12
    assert np.flatnonzero(made.mask).tolist() == [0, 4, 10]
    assert made.source[made.mask].tolist() == [2, 0, 1]


def test_a_variable_axis_under_a_sparse_fixed_one() -> None:
    """Positions under the parent count padding too, which SparseTIR's lowering forgets."""
    made = store([[0, 0, 1, 1], [3, 3, 0, 2], [1, 0, 2, 2]], [dense(2), few(4, 0, 2), some(3, 1)])
    assert arrays(made, 1)[1] == [[3, 0], [0, 2]]
    assert arrays(made, 2) == ([0, 2, 2, 3, 4], [0, 1, 2, 2])
    assert made.source.tolist() == [1, 0, 2, 3]


def test_heads_share_a_structure() -> None:
    """A dense axis before the sparse ones: every head has all blocks."""
    head, row, column = (axis.ravel() for axis in np.mgrid[0:2, 0:3, 0:1])
    made = store([head, row, column], [dense(2), dense(3), some(4, 1)])
    assert made.source.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.usefixtures("small_chunks")
def test_a_large_matrix(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 300, 2000, 20_000)
    order = rng.permutation(len(matrix.indices))
    rows, columns = matrix.rows[order], matrix.indices[order]
    made = store(
        [rows // 8, columns // 8, rows % 8, columns % 8],
        [dense(38), some(250, 0), dense(8), dense(8)],
    )
    special = bsr(*matrix.csr, (8, 8))
    np.testing.assert_array_equal(made.axes[1].indices, special.indices)
    values = made.values(matrix.values[order])
    np.testing.assert_array_equal(values, special.values(matrix.values))
    np.testing.assert_array_equal(made.scatter(values), matrix.values[order])


def test_lengths_that_int32_does_not_hold() -> None:
    far = np.array([2**31 - 1, 0], np.int32)
    made = store([0 * far, far], [dense(1), few(1 << 40, 0, 2)])
    assert arrays(made, 1)[1] == [[0, 2**31 - 1]]
    assert made.source.tolist() == [[1, 0]]


NO_ELEMENTS: list[Any] = [[], []]


@pytest.mark.parametrize(
    ("coords", "axes", "kind", "text"),
    [
        ([], [], UserError, "at least one axis"),
        ([[]], [dense(1), dense(1)], ShapeError, "coordinates are given for 1 axes of 2"),
        ([[0], [0, 1]], [dense(1), dense(2)], ShapeError, "different lengths"),
        ([[0], [2]], [dense(1), dense(2)], IndexingError, "coords[1][0] = 2 is out of range"),
        (NO_ELEMENTS, [dense(1), some(2, 1)], UserError, "the parent of axis 1 is 1, which is not"),
        (NO_ELEMENTS, [dense(1), dense(-1)], UserError, "the length of axis 1 is -1"),
        (
            NO_ELEMENTS,
            [dense(1), FormatAxis("sparse_variable", 2)],
            UserError,
            "axis 1 is sparse_variable and has no parent",
        ),
        (
            NO_ELEMENTS,
            [dense(1), FormatAxis("sparse_fixed", 2, 0)],
            UserError,
            "axis 1 is sparse_fixed, which needs a width",
        ),
        (
            NO_ELEMENTS,
            [dense(1), FormatAxis("dense_fixed", 2, 0, 3)],
            UserError,
            "axis 1 is dense_fixed, which has none: a width",
        ),
        (
            NO_ELEMENTS,
            [dense(1), FormatAxis("sparse_variable", 2, 0, lengths=[1])],
            UserError,
            "axis 1 is sparse_variable, which has no lengths",
        ),
        (NO_ELEMENTS, [dense(2), lengths(3, 0, [1])], ShapeError, "has 1 lengths; 2 are needed"),
        (
            [[1], [2]],
            [dense(2), lengths(3, 0, [3, 2])],
            UserError,
            "axis 1 is 2 long under position 1 of its parent; an element has coordinate 2 there",
        ),
        (
            [[1, 0, 1], [2, 0, 2]],
            [dense(2), some(3, 0)],
            UserError,
            "elements 0 and 2 have one slot, at (1, 2)",
        ),
        (
            [[], [], []],
            [dense(2), lengths(3, 0), some(3, 0)],
            UserError,
            "variable axes 1 and 2 both lie under axis 0",
        ),
        (NO_ELEMENTS, [dense(1 << 40), dense(1 << 40)], UserError, "more than can be counted"),
        (NO_ELEMENTS, [dense(1 << 40), dense(1 << 40, 0)], UserError, "more than can be counted"),
    ],
)
def test_refusals(coords: Any, axes: list[FormatAxis], kind: type[UserError], text: str) -> None:
    with pytest.raises(kind) as caught:
        store(coords, axes)
    assert text in str(caught.value)


def test_a_kind_that_is_none() -> None:
    kind: Any = "dense"
    with pytest.raises(UserError, match="axis 0 is of kind 'dense'; there are dense_fixed"):
        store([[0]], [FormatAxis(kind, 1)])


@pytest.mark.parametrize("kind", ["dense_variable", "sparse_fixed", "sparse_variable"])
def test_formats_without_elements(kind: AxisKind) -> None:
    width = 2 if kind == "sparse_fixed" else None
    for rows in (0, 3):
        made = store(NO_ELEMENTS, [dense(rows), FormatAxis(kind, 0, 0, width)])
        assert made.values(np.zeros(0)).size == (2 * rows if width else 0)
        assert made.source_count == 0
    assert from_rows([], 0).shape == (0, 0)
