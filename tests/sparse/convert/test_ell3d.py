"""Relations in buckets of rows in groups, against one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import INDEX_TYPES
from tileloom.base import UserError
from tileloom.base.errors import ShapeError
from tileloom.sparse.convert import csf, csf_to_ell3d

BUCKETS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 5)),
    min_size=1,
    max_size=3,
    unique_by=lambda bucket: bucket[1],
).map(lambda buckets: sorted(buckets, key=lambda bucket: bucket[1]))

Relation = list[list[int]]


@st.composite
def relations(draw: st.DrawFn) -> tuple[list[Relation], Any]:
    """For each relation the columns of each of its rows, and a type of indices."""
    row = st.lists(st.integers(0, 9), max_size=8)
    return draw(st.lists(st.lists(row, max_size=4), max_size=4)), draw(st.sampled_from(INDEX_TYPES))


def by_rows(relations: list[Relation], buckets: list[tuple[int, int]]) -> list[Any]:
    """Of each bucket: indptr, rows, columns and sources, by the definition."""
    made: list[Any] = [([0], [], [], []) for _ in buckets]
    source = node = 0
    for relation in relations:
        found: list[list[tuple[int, list[int], list[int]]]] = [[] for _ in buckets]
        for columns in relation:
            fits = [n for n, (_, width) in enumerate(buckets) if width >= len(columns)]
            bucket = fits[0] if fits else len(buckets) - 1
            width = buckets[bucket][1]
            for begin in range(0, len(columns), width):
                piece = columns[begin : begin + width]
                pad = width - len(piece)
                sources = list(range(source + begin, source + begin + len(piece)))
                found[bucket].append((100 + node, piece + [0] * pad, sources + [-1] * pad))
            source += len(columns)
            node += 1
        for (indptr, rows, all_columns, all_sources), (height, width), pieces in zip(
            made, buckets, found
        ):
            while len(pieces) % height:
                pieces.append((pieces[-1][0], [0] * width, [-1] * width))
            for begin in range(0, len(pieces), height):
                group = pieces[begin : begin + height]
                rows.append([row for row, _, _ in group])
                all_columns.append([columns for _, columns, _ in group])
                all_sources.append([sources for _, _, sources in group])
            indptr.append(len(rows))
    return made


@given(relations(), BUCKETS)
def test_groups(tensor: tuple[list[Relation], Any], buckets: list[tuple[int, int]]) -> None:
    by_relation, dtype = tensor
    rows = [row for relation in by_relation for row in relation]
    indptr0 = np.cumsum([0, *map(len, by_relation)]).astype(dtype)
    indptr1 = np.cumsum([0, *map(len, rows)]).astype(dtype)
    indices0 = (100 + np.arange(len(rows))).astype(dtype)
    indices1 = np.array([column for row in rows for column in row], dtype)
    heights, widths = [bucket[0] for bucket in buckets], [bucket[1] for bucket in buckets]
    made = csf_to_ell3d(indptr0, indices0, indptr1, indices1, heights, widths)
    data = np.arange(1.0, len(indices1) + 1)
    back = np.zeros(len(data))
    for part, (indptr, row_ids, columns, sources) in zip(made, by_rows(by_relation, buckets)):
        assert part.indptr.tolist() == indptr
        assert part.rows.tolist() == row_ids
        assert part.indices.tolist() == columns
        assert part.source.tolist() == sources
        assert {part.indptr.dtype, part.rows.dtype, part.indices.dtype} == {np.dtype(dtype)}
        part.scatter(part.values(data), back)
    assert back.tolist() == data.tolist()


@pytest.mark.usefixtures("small_chunks")
def test_from_coordinates(rng: np.random.Generator) -> None:
    """The aggregation of a relational graph network: sums over relations, by groups."""
    shape = (7, 60, 50)
    places = rng.choice(int(np.prod(shape)), 4000, replace=False)
    coords = np.unravel_index(places, shape)
    tensor = csf(coords, shape, dense_root=True)
    (indptr0, indices0), (indptr1, indices1) = tensor.levels
    data = rng.random(len(places))
    leaves = tensor.values(data)
    out = np.zeros(shape)
    for part in csf_to_ell3d(indptr0, indices0, indptr1, indices1, [8, 4, 2, 1], [1, 2, 4, 8]):
        relation = np.repeat(np.arange(7), np.diff(part.indptr))[:, None, None]
        np.add.at(out, (relation, part.rows[:, :, None], part.indices), part.values(leaves))
    expected = np.zeros(shape)
    expected[coords] = data
    np.testing.assert_array_equal(out, expected)


def test_refusals() -> None:
    refused: list[tuple[tuple[Any, ...], type[UserError], str]] = [
        (([0, 1], [3], [0], [], [1], [1]), ShapeError, "indptr1 has length 1; for 1 rows 2"),
        (([0, 2], [3], [0, 0], [], [1], [1]), ShapeError, "indptr0 ends with 2"),
        (([0, 1], [3], [0, 0], [], [1, 2], [1]), UserError, "has 2 buckets, nnz_cols_bkt 1"),
        (([0, 1], [3], [0, 0], [], [1, 2], [2, 1]), UserError, "must ascend"),
        (([0, 1], [3], [0, 0], [], [0], [1]), UserError, "nnz_rows_bkt is 0"),
    ]
    for arguments, kind, text in refused:
        with pytest.raises(kind, match=text):
            csf_to_ell3d(*arguments)
