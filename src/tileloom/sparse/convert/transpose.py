"""Rows to columns: CSR to CSC, which is CSR of the transposed matrix."""

from __future__ import annotations

import numpy as np

from .check import csr_arrays
from .csr import CsrStructure
from .index_arrays import IndexLike, fitting, offsets
from .rows import all_rows
from .sorting import stable_order


def transpose(indptr: IndexLike, indices: IndexLike, shape: tuple[int, int]) -> CsrStructure:
    """The transposed matrix by rows: the matrix by columns. Rows in a column ascend.

    >>> columns = transpose([0, 2, 3], [0, 2, 2], (2, 3))
    >>> columns.indptr, columns.indices, columns.source
    (array([0, 1, 1, 3]), array([0, 0, 1]), array([0, 1, 2]))
    """
    indptr, indices = csr_arrays(indptr, indices, shape)
    count, rows, columns = len(indices), int(shape[0]), int(shape[1])
    order, ascending = stable_order(indices, columns)
    starts = offsets(np.bincount(ascending, minlength=columns), indptr.dtype)
    by_column = all_rows(indptr).astype(fitting(indices.dtype, rows), copy=False)
    source = order.astype(fitting(indices.dtype, count), copy=False)
    return CsrStructure(source, count, starts, by_column[order])
