"""SR-BCRS(t, g) against strips gone through one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparse_samples import Array, Matrix, from_rows, matrices, random_matrix
from tileloom.base import UserError
from tileloom.sparse.convert import SrBcrsStructure, condense


def by_strips(matrix: Matrix, t: int, g: int) -> tuple[list[int], list[list[int]], Array]:
    """The format by its definition."""
    indptr, groups, sources = [0], [], []
    for begin in range(0, matrix.shape[0], t):
        rows = range(begin, min(begin + t, matrix.shape[0]))
        found = {(row, column): source for row in rows for column, source in matrix.row(row)}
        columns = sorted({column for _, column in found})
        for first in range(0, len(columns), g):
            group = columns[first : first + g]
            tile = np.full((t, g), -1)
            for (row, column), source in found.items():
                if column in group:
                    tile[row - begin, group.index(column)] = source
            groups.append(group + [0] * (g - len(group)))
            sources.append(tile)
        indptr.append(len(groups))
    return indptr, groups, np.array(sources).reshape(-1, t, g)


def agrees(made: SrBcrsStructure, matrix: Matrix, t: int, g: int) -> None:
    indptr, groups, sources = by_strips(matrix, t, g)
    assert made.indptr.tolist() == indptr
    assert made.indices.tolist() == groups
    np.testing.assert_array_equal(made.source, sources)


@given(matrices(), st.integers(1, 4), st.integers(1, 4))
def test_strips(matrix: Matrix, t: int, g: int) -> None:
    made = condense(*matrix.arrays, t, g)
    agrees(made, matrix, t, g)
    assert {made.indptr.dtype, made.indices.dtype, made.source.dtype} == {matrix.indices.dtype}
    assert made.scatter(made.values(matrix.values)).tolist() == matrix.values.tolist()


def test_the_sizes_of_tensor_cores(rng: np.random.Generator) -> None:
    for t, g in ((8, 16), (16, 16), (8, 32)):
        matrix = random_matrix(rng, 100, 300, 1500)
        agrees(condense(*matrix.arrays, t, g), matrix, t, g)


@pytest.mark.usefixtures("small_chunks")
def test_a_large_matrix(rng: np.random.Generator) -> None:
    matrix = random_matrix(rng, 401, 3000, 20_000)
    made = condense(*matrix.arrays, 16, 8)
    np.testing.assert_array_equal(made.scatter(made.values(matrix.values)), matrix.values)
    tile, row, place = np.nonzero(made.mask)
    strip = np.searchsorted(made.indptr, tile, "right") - 1
    source = made.source[made.mask]
    np.testing.assert_array_equal(strip * 16 + row, matrix.rows[source])
    np.testing.assert_array_equal(made.indices[tile, place], matrix.indices[source])


def test_refusals() -> None:
    with pytest.raises(UserError, match="elements 1 and 2 are both in row 0, column 1"):
        condense(*from_rows([[0, 1, 1]], 3).arrays, 2, 2)
    with pytest.raises(UserError, match="t is 0"):
        condense([0], [], 0, 2)
    with pytest.raises(UserError, match="g is 0"):
        condense([0], [], 2, 0)
