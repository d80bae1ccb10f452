"""What conversions ask of the rows of a CSR matrix that is known to be well formed."""

from __future__ import annotations

import numpy as np

from .chunks import for_chunks, row_chunks
from .index_arrays import Array, fitting, positions
from .sorting import stable_order


def rows_between(indptr: Array, begin: int, end: int) -> Array:
    """The row of each element of the rows from `begin` to `end`.

    >>> rows_between(np.array([0, 2, 2, 3]), 1, 3)
    array([2])
    """
    lengths = np.diff(indptr[begin : end + 1])
    return np.repeat(np.arange(begin, end, dtype=fitting(indptr.dtype, end)), lengths)


def all_rows(indptr: Array) -> Array:
    """The row of each element of a matrix."""
    return rows_between(indptr, 0, len(indptr) - 1)


def sorted_rows(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """The columns of each row in ascending order, equal ones as they were, and where they were."""
    ordered, source = np.empty_like(indices), positions(len(indices), indices.dtype)
    columns = int(indices.max()) + 1 if len(indices) else 0

    def work(begin: int, end: int) -> None:
        first, last = int(indptr[begin]), int(indptr[end])
        keys = (rows_between(indptr, begin, end) - begin) * np.int64(columns)
        keys += indices[first:last]
        order, _ = stable_order(keys, (end - begin) * columns)
        np.take(indices[first:last], order, out=ordered[first:last], mode="clip")
        source[first:last] = order + first

    for_chunks(work, row_chunks(indptr))
    return ordered, source
