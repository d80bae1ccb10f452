"""Ragged arrays: rows, or matrices, of different sizes one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tileloom.base.errors import ShapeError, UserError
from tileloom.base.record import Record

from .index_arrays import INDEX_TYPES, Array, IndexLike, fitting, index_array, joint, offsets


class RaggedMatrices(Record):
    """Dense matrices of different sizes, one after another, each in C order.

    Element `(b, i, j)` is at `indptr[b] + i * cols[b] + j`, and also at `row_indptr[r] + j` with
    `r = rows_indptr[b] + i`.

    Attributes:
        indptr: where each matrix begins, and where the last ends.
        rows_indptr: the number of the first row of each matrix among all rows, and that of rows.
        row_indptr: where each of all rows begins, and where the last ends.
        cols: the columns of each matrix.
    """

    indptr: Array
    rows_indptr: Array
    row_indptr: Array
    cols: Array


def ragged(lengths: IndexLike, dtype: DTypeLike | None = None) -> Array:
    """Where each of several rows of different lengths begins, and where the last ends.

    Args:
        lengths: how long each row is.
        dtype: of the result: int32 or int64; by default that of `lengths`. Where int32 is too
            small, it is int64.

    >>> ragged([2, 0, 3], np.int32)
    array([0, 2, 2, 5], dtype=int32)
    """
    array = _lengths("lengths", lengths)
    return offsets(array, array.dtype if dtype is None else _index_type(dtype))


def ragged_matrices(
    rows: IndexLike, cols: IndexLike, dtype: DTypeLike | None = None
) -> RaggedMatrices:
    """The layout of a batch of matrices with different numbers of rows and of columns.

    >>> batch = ragged_matrices([1, 2], [3, 2])
    >>> batch.indptr, batch.rows_indptr, batch.row_indptr
    (array([0, 3, 7]), array([0, 1, 3]), array([0, 3, 5, 7]))
    """
    heights, widths = _lengths("rows", rows), _lengths("cols", cols)
    if len(heights) != len(widths):
        raise ShapeError(f"rows are given of {len(heights)} matrices, cols of {len(widths)}")
    chosen = joint(heights, widths) if dtype is None else _index_type(dtype)
    _countable("elements", float(np.dot(heights.astype(float), widths.astype(float))))
    sizes = heights.astype(np.int64) * widths
    row_indptr = offsets(np.repeat(widths, heights), chosen)
    cols = widths.astype(fitting(chosen, int(widths.max(initial=0))), copy=False)
    return RaggedMatrices(offsets(sizes, chosen), offsets(heights, chosen), row_indptr, cols)


def _lengths(name: str, given: IndexLike) -> Array:
    array = index_array(name, given)
    if len(array) and int(array.min()) < 0:
        position = int(np.argmax(array < 0))
        raise UserError(f"{name}[{position}] is {array[position]}; lengths are not negative")
    _countable(name, float(array.sum(dtype=np.float64)))
    return array


def _countable(name: str, total: float) -> None:
    if total > 2.0**62:
        raise UserError(f"{name} are {total:g} in all, more than can be counted")


def _index_type(dtype: DTypeLike) -> np.dtype[Any]:
    chosen = np.dtype(dtype)
    if chosen not in INDEX_TYPES:
        raise UserError(f"dtype is {chosen}; indices are int32 or int64")
    return chosen
