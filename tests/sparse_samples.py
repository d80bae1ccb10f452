"""Matrices in compressed rows, to convert: small ones for hypothesis, and larger random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[Any]
INDEX_TYPES = (np.int32, np.int64)


@dataclass(frozen=True)
class Matrix:
    """A matrix, its values being 1, 2, 3, ... so that each says which element it is."""

    indptr: Array
    indices: Array
    shape: tuple[int, int]

    @property
    def arrays(self) -> tuple[Array, Array]:
        return self.indptr, self.indices

    @property
    def csr(self) -> tuple[Array, Array, tuple[int, int]]:
        return self.indptr, self.indices, self.shape

    @property
    def values(self) -> Array:
        return np.arange(1.0, len(self.indices) + 1)

    @property
    def rows(self) -> Array:
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)).astype(self.indices.dtype)

    def row(self, row: int) -> list[tuple[int, int]]:
        """The columns of a row, each with the position of its element."""
        positions = range(int(self.indptr[row]), int(self.indptr[row + 1]))
        return [(int(self.indices[position]), position) for position in positions]

    def dense(self) -> Array:
        """The matrix with values added up where there are duplicates."""
        out = np.zeros(self.shape)
        np.add.at(out, (self.rows, self.indices), self.values)
        return out


def from_rows(rows: list[list[int]], columns: int, dtype: Any = np.int64) -> Matrix:
    """A matrix of the columns of each row."""
    lengths = [len(row) for row in rows]
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(dtype)
    flat = [column for row in rows for column in row]
    return Matrix(indptr, np.array(flat, dtype), (len(rows), columns))


def random_matrix(
    rng: np.random.Generator, rows: int, columns: int, elements: int, dtype: Any = np.int32
) -> Matrix:
    """A matrix of so many different places, rows sorted, row lengths skewed."""
    weight = rng.random(rows) ** 4 + 1e-3
    drawn = rng.choice(rows, elements, p=weight / weight.sum())
    places = np.unique(drawn * columns + rng.integers(0, columns, elements))
    indptr = np.searchsorted(places, np.arange(rows + 1) * columns)
    return Matrix(indptr.astype(dtype), (places % columns).astype(dtype), (rows, columns))


@st.composite
def matrices(
    draw: st.DrawFn, *, sorted_rows: bool = False, duplicates: bool = False, most_rows: int = 9
) -> Matrix:
    """Small matrices: without rows or columns, with empty rows, unsorted, of both index types."""
    columns = draw(st.integers(0, 11))
    column = st.integers(0, max(0, columns - 1))
    row = st.lists(column, max_size=9 if columns else 0, unique=not duplicates)
    rows = draw(st.lists(row, max_size=most_rows))
    if sorted_rows:
        rows = [sorted(one) for one in rows]
    return from_rows(rows, columns, draw(st.sampled_from(INDEX_TYPES)))
