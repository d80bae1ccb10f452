"""Doubly compressed rows: only those that have elements."""

from __future__ import annotations

from .bsr import filled_rows
from .check import csr_arrays
from .index_arrays import Array, IndexLike, positions
from .slots import Slots


class DcsrStructure(Slots):
    """The rows that are not empty.

    Attributes:
        rows: their numbers.
        indptr: where each of them begins, and where the last ends.
        indices: the column of each element.
    """

    rows: Array
    indptr: Array
    indices: Array


def dcsr(indptr: IndexLike, indices: IndexLike) -> DcsrStructure:
    """The matrix with a list of the rows that are not empty; values stay where they are.

    >>> rows = dcsr([0, 0, 2, 2, 3], [0, 1, 1])
    >>> rows.rows, rows.indptr, rows.indices
    (array([1, 3]), array([0, 2, 3]), array([0, 1, 1]))
    """
    indptr, indices = csr_arrays(indptr, indices)
    rows, starts = filled_rows(indptr, indices.dtype)
    return DcsrStructure(
        positions(len(indices), indices.dtype), len(indices), rows, starts, indices
    )
