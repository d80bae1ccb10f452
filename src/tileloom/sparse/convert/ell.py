"""ELL: a list of rows, each with the same number of slots."""

from __future__ import annotations

import numpy as np

from tileloom.base.errors import IndexingError, UserError

from .check import csr_arrays
from .chunks import even_chunks, for_chunks
from .index_arrays import Array, IndexLike, fitting, index_array, positions, whole
from .slots import Slots


class EllStructure(Slots):
    """Rows with one number of slots. Padding is at the end of a row: column 0, source -1.

    Attributes:
        rows: the row of the matrix that each of them is.
        indices: the columns, of shape `(len(rows), width)`, as `source` is.
    """

    rows: Array
    indices: Array

    @property
    def width(self) -> int:
        """Slots in a row."""
        return int(self.indices.shape[1])


def ell(
    indptr: IndexLike,
    indices: IndexLike,
    width: int | None = None,
    rows: IndexLike | None = None,
) -> EllStructure:
    """Some rows of a matrix, or all of them, padded to one width.

    Args:
        indptr: where each row begins, and where the last ends.
        indices: the columns of each row's elements; they stay in their order.
        width: slots in a row; by default as many as the longest of the rows needs.
        rows: which rows, each at most once; by default all, the empty ones too.

    >>> padded = ell([0, 2, 2, 3], [0, 3, 1], rows=[0, 2])
    >>> padded.indices
    array([[0, 3], [1, 0]])
    >>> padded.source
    array([[ 0,  1], [ 2, -1]])
    """
    indptr, indices = csr_arrays(indptr, indices)
    matrix_rows = len(indptr) - 1
    if rows is None:
        rows = positions(matrix_rows, indices.dtype)
        starts, lengths = indptr[:-1], np.diff(indptr)
    else:
        rows = _distinct_rows(index_array("rows", rows), matrix_rows)
        starts = indptr[rows]
        lengths = indptr[rows + np.int64(1)] - starts
    longest = int(lengths.max()) if len(lengths) else 0
    width = longest if width is None else whole("width", width, 0)
    if longest > width:
        row = rows[int(np.argmax(lengths))]
        raise UserError(
            f"row {row} has {longest} elements, more than the width {width}",
            hint="a wider format, or hyb and padded_csr, which cut long rows",
        )
    return padded(indices, rows, starts, lengths, width)


def _distinct_rows(rows: Array, count: int) -> Array:
    if not len(rows):
        return rows
    if int(rows.min()) < 0 or int(rows.max()) >= count:
        bad = rows[int(np.argmax((rows < 0) | (rows >= count)))]
        raise IndexingError(f"rows has {bad}; the matrix has {count} rows")
    times = np.bincount(rows)
    if int(times.max()) > 1:
        raise UserError(f"rows has row {np.argmax(times)} {times.max()} times; once is allowed")
    return rows


def padded(
    indices: Array,
    rows: Array,
    starts: Array,
    lengths: Array,
    width: int,
    order: Array | None = None,
) -> EllStructure:
    """Runs of elements as rows of slots.

    Args:
        indices: the columns of all elements.
        rows: what row each run belongs to.
        starts: where each run begins.
        lengths: how many elements it has: at most `width`.
        width: slots for each run.
        order: if given, runs are of this list of elements instead of 0, 1, 2, ...
    """
    shape = (len(starts), width)
    count = len(indices)
    columns = np.zeros(shape, indices.dtype)
    source = np.full(shape, -1, fitting(indices.dtype, count))
    if not columns.size or not count:
        return EllStructure(source, count, rows, columns)
    lane = np.arange(width)
    is_full = bool((lengths == width).all())

    def work(begin: int, end: int) -> None:
        slot = starts[begin:end, None] + lane
        np.minimum(slot, count - 1, out=slot)
        element = slot if order is None else order[slot]
        part, origin = columns[begin:end], source[begin:end]
        np.take(indices, element, out=part, mode="clip")
        origin[...] = element
        if not is_full:
            empty = lane >= lengths[begin:end, None]
            np.copyto(part, 0, where=empty)
            np.copyto(origin, -1, where=empty)

    for_chunks(work, even_chunks(len(starts), width))
    return EllStructure(source, count, rows, columns)


def cut(starts: Array, lengths: Array, width: int) -> tuple[Array, Array, Array]:
    """Runs of elements cut into pieces of `width`, the last of each run being what is left.

    Returns:
        For each piece the number of its run, where it begins, and its length.

    >>> cut(np.array([0, 5]), np.array([5, 2]), 4)
    (array([0, 0, 1]), array([0, 4, 5]), array([4, 1, 2]))
    """
    lengths = lengths.astype(np.int64, copy=False)
    pieces = -(-lengths // width)
    run = np.repeat(np.arange(len(starts)), pieces)
    first = np.cumsum(pieces, dtype=np.int64) - pieces
    done = (np.arange(len(run)) - first[run]) * width
    return run, starts[run] + done, np.minimum(lengths[run] - done, width)
