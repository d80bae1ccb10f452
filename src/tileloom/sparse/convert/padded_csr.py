"""Rows cut into pieces of one width, the last of each padded."""

from __future__ import annotations

import numpy as np

from .check import csr_arrays
from .ell import cut, padded
from .index_arrays import Array, IndexLike, offsets, whole
from .slots import Slots


class PaddedCsrStructure(Slots):
    """Compressed rows of pieces that have one number of slots.

    Attributes:
        indptr: for each row where its pieces begin, and where the last ends.
        indices: the columns, of shape `(pieces, width)`, as `source` is; 0 for padding.
    """

    indptr: Array
    indices: Array


def padded_csr(indptr: IndexLike, indices: IndexLike, width: int) -> PaddedCsrStructure:
    """Every row in pieces of `width` elements, as few as hold it; empty rows have none.

    >>> pieces = padded_csr([0, 3, 3, 4], [5, 6, 7, 8], 2)
    >>> pieces.indptr
    array([0, 2, 2, 3])
    >>> pieces.indices
    array([[5, 6], [7, 0], [8, 0]])
    """
    indptr, indices = csr_arrays(indptr, indices)
    width = whole("width", width)
    lengths = np.diff(indptr).astype(np.int64, copy=False)
    rows, starts, rest = cut(indptr[:-1], lengths, width)
    made = padded(indices, rows, starts, rest, width)
    pieces = offsets(-(-lengths // width), indptr.dtype)
    return PaddedCsrStructure(made.source, made.source_count, pieces, made.indices)
