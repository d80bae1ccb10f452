"""CSR: lengths of rows, the row of each element, sorted indices, duplicates summed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileloom.base.errors import ShapeError
from tileloom.base.record import Record

from .check import check_indptr, csr_arrays
from .index_arrays import Array, IndexLike, index_array, offsets
from .rows import all_rows, sorted_rows
from .slots import Slots
from .sorting import first_of_runs


class CsrStructure(Slots):
    """Compressed rows (or, of a transposed matrix, columns).

    Attributes:
        indptr: where each row begins, and where the last ends.
        indices: the column of each element.
    """

    indptr: Array
    indices: Array


def row_lengths(indptr: IndexLike) -> Array:
    """How many elements each row has.

    >>> row_lengths([0, 2, 2, 5])
    array([2, 0, 3])
    """
    return np.diff(_row_starts(indptr))


def row_of_each(indptr: IndexLike) -> Array:
    """The row of each element; `convert_indptr_to_mid_array` of SparseTIR.

    >>> row_of_each([0, 2, 2, 5])
    array([0, 0, 2, 2, 2])
    """
    return all_rows(_row_starts(indptr))


def sort_indices(indptr: IndexLike, indices: IndexLike) -> CsrStructure:
    """The matrix with the columns of each row in ascending order; equal ones stay as they were.

    >>> ordered = sort_indices([0, 2, 3], [3, 1, 0])
    >>> ordered.indices, ordered.source
    (array([1, 3, 0]), array([1, 0, 2]))
    """
    indptr, indices = csr_arrays(indptr, indices)
    ordered, source = sorted_rows(indptr, indices)
    return CsrStructure(source, len(indices), indptr, ordered)


class SummedCsr(Record):
    """A CSR matrix in which no row has a column twice, made of one that did.

    Attributes:
        indptr: where each row begins, and where the last ends.
        indices: the column of each element.
        order: elements of the input in the order of the rows and columns.
        starts: for each element of the matrix where in `order` those that it is the sum of begin.
    """

    indptr: Array
    indices: Array
    order: Array
    starts: Array

    def values(self, data: Array) -> Array:
        """The sums of values of the input, of shape `(elements, *trailing)`."""
        data = np.asarray(data)
        if data.ndim == 0 or len(data) != len(self.order):
            raise ShapeError(
                f"data has shape {data.shape}; the input has {len(self.order)} elements"
            )
        if not len(self.starts):
            return data[:0]
        return np.add.reduceat(data[self.order], self.starts, axis=0, dtype=data.dtype)

    def scatter(self, values: Array) -> Array:
        """What each element has, for every element of the input that is part of it."""
        values = np.asarray(values)
        if values.ndim == 0 or len(values) != len(self.starts):
            raise ShapeError(
                f"values have shape {values.shape}; the matrix has {len(self.starts)} elements"
            )
        out: Array = np.empty((len(self.order), *values.shape[1:]), values.dtype)
        counts = np.diff(np.append(self.starts, len(self.order)))
        out[self.order] = np.repeat(values, counts, axis=0)
        return out


def sum_duplicates(indptr: IndexLike, indices: IndexLike) -> SummedCsr:
    """The matrix with sorted columns, each once a row; values of equal ones are added up.

    >>> summed = sum_duplicates([0, 3], [1, 0, 1])
    >>> summed.indices, summed.values(np.array([1.0, 2.0, 4.0]))
    (array([0, 1]), array([2., 5.]))
    """
    indptr, indices = csr_arrays(indptr, indices)
    ordered, order = sorted_rows(indptr, indices)
    firsts = first_of_runs(ordered, all_rows(indptr))
    starts = np.flatnonzero(firsts).astype(order.dtype, copy=False)
    before = offsets(firsts, indptr.dtype)
    return SummedCsr(before[indptr], ordered[starts], order, starts)


def _row_starts(indptr: Any) -> Array:
    array = index_array("indptr", indptr)
    check_indptr("indptr", array, int(array[-1]) if len(array) else 0)
    return array
