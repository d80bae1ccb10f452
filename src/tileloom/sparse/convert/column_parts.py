"""Rows cut at columns: where the elements of each part of the columns begin in each row."""

from __future__ import annotations

import numpy as np

from tileloom.base.record import Record

from .check import csr_arrays, refuse_unsorted
from .chunks import for_chunks, row_chunks
from .index_arrays import Array, IndexLike, ceil_div, fitting, positions, whole
from .rows import rows_between
from .sorting import stable_order


class ColumnPartition(Record):
    """A matrix in parts of consecutive columns, on the arrays that it has.

    Attributes:
        starts: shape `(parts + 1, rows)`. The elements of row `r` in part `p` are those from
            `starts[p, r]` to `starts[p + 1, r]`.
        width: columns in a part; the last may have less.
    """

    starts: Array
    width: int


def column_partition(
    indptr: IndexLike, indices: IndexLike, shape: tuple[int, int], parts: int
) -> ColumnPartition:
    """Where each part of the columns begins in each row; rows must be sorted.

    Parts have `ceil(columns / parts)` columns each. Nothing is copied: indices and values are
    those of the matrix.

    >>> column_partition([0, 3, 4], [0, 2, 3, 3], (2, 4), 2).starts
    array([[0, 3],
           [1, 3],
           [3, 4]])
    """
    indptr, indices = csr_arrays(indptr, indices, shape)
    refuse_unsorted(indptr, indices)
    parts = whole("parts", parts)
    width = part_width(int(shape[1]), parts)
    starts, _ = part_starts(indptr, indices, width, parts)
    return ColumnPartition(starts, width)


def part_width(columns: int, parts: int) -> int:
    """Columns in a part."""
    return max(1, ceil_div(columns, parts))


def part_starts(
    indptr: Array, indices: Array, width: int, parts: int, *, is_sorted: bool = True
) -> tuple[Array, Array | None]:
    """Where the elements of each part begin in each row, as `ColumnPartition.starts`.

    For rows that are not sorted also the list of elements that this is about, in which those of a
    row are in the order of the parts, and otherwise as they were.
    """
    starts = np.empty((parts + 1, len(indptr) - 1), indptr.dtype)
    starts[0], starts[-1] = indptr[:-1], indptr[1:]
    if parts == 1:
        return starts, None
    divisor = fitting(indices.dtype, width).type(width)
    order = None if is_sorted else positions(len(indices), indices.dtype)

    def work(begin: int, end: int) -> None:
        first, last = int(indptr[begin]), int(indptr[end])
        keys = (rows_between(indptr, begin, end) - begin) * np.int64(parts)
        keys += indices[first:last] // divisor
        if order is not None:
            local, keys = stable_order(keys, (end - begin) * parts)
            order[first:last] = local + first
        by_row = _starts_of_keys(keys, (end - begin) * parts).reshape(-1, parts)
        by_row += first
        starts[1:-1, begin:end] = by_row.T[1:]

    for_chunks(work, row_chunks(indptr))
    return starts, order


def _starts_of_keys(ascending: Array, bound: int) -> Array:
    """Where each of `range(bound)` begins in a list of such numbers that ascends."""
    ends = np.zeros(bound + 1, np.int64)
    if len(ascending):
        last = np.append(np.flatnonzero(ascending[1:] != ascending[:-1]), len(ascending) - 1)
        ends[ascending[last] + 1] = last + 1
        np.maximum.accumulate(ends, out=ends)
    return ends[:-1]
