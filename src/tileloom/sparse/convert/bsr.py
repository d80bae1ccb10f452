"""Blocks in compressed rows, and without the rows of blocks that are empty."""

from __future__ import annotations

import numpy as np

from .blocks import find_blocks, place_elements
from .check import check_shape, csr_arrays
from .index_arrays import Array, IndexLike, fitting, whole
from .slots import Slots


class BsrStructure(Slots):
    """Compressed rows of dense blocks; `source` has shape `(blocks, height, width)`.

    Attributes:
        indptr: where the blocks of each row of blocks begin, and where the last ends.
        indices: the column of each block, counted in blocks; they ascend in each row.
    """

    indptr: Array
    indices: Array


class DbsrStructure(Slots):
    """Rows of dense blocks, only those that have some; `source` is as that of `BsrStructure`.

    Attributes:
        rows: the rows of blocks that are not empty.
        indptr: where the blocks of each of them begin, and where the last ends.
        indices: the column of each block, counted in blocks.
    """

    rows: Array
    indptr: Array
    indices: Array


def bsr(
    indptr: IndexLike,
    indices: IndexLike,
    shape: tuple[int, int],
    block_shape: tuple[int, int],
) -> BsrStructure:
    """The matrix in blocks, those with elements. Blocks over the edge of the matrix are padded.

    >>> blocks = bsr([0, 2, 3, 4], [0, 3, 1, 0], (3, 4), (2, 2))
    >>> blocks.indptr, blocks.indices
    (array([0, 2, 3]), array([0, 1, 0]))
    >>> blocks.values(np.array([1, 2, 3, 4])).tolist()
    [[[1, 0], [0, 3]], [[0, 2], [0, 0]], [[4, 0], [0, 0]]]
    """
    indptr, indices = csr_arrays(indptr, indices, shape)
    height, width = check_shape(block_shape, 2)
    height, width = whole("the height of a block", height), whole("the width of a block", width)
    found = find_blocks(indptr, indices, int(shape[1]), height, width)
    divisor = fitting(indices.dtype, width).type(width)

    def slots_of(block: Array, row: Array, column: Array) -> Array:
        slots: Array = (block * height + row) * width + column % divisor
        return slots

    blocks = (len(found.indices), height, width)
    source = place_elements(indptr, indices, found, blocks, slots_of)
    return BsrStructure(source, len(indices), found.indptr, found.indices)


def dbsr(
    indptr: IndexLike,
    indices: IndexLike,
    shape: tuple[int, int],
    block_shape: tuple[int, int],
) -> DbsrStructure:
    """The matrix in blocks, with a list of the rows of blocks that are not empty.

    >>> blocks = dbsr([0, 0, 0, 1], [3], (3, 4), (1, 2))
    >>> blocks.rows, blocks.indptr, blocks.indices
    (array([2]), array([0, 1]), array([1]))
    """
    made = bsr(indptr, indices, shape, block_shape)
    rows, starts = filled_rows(made.indptr, made.indices.dtype)
    return DbsrStructure(made.source, made.source_count, rows, starts, made.indices)


def filled_rows(indptr: Array, dtype: np.dtype[np.generic]) -> tuple[Array, Array]:
    """The rows that are not empty, and the starts of those."""
    rows = np.flatnonzero(indptr[1:] != indptr[:-1])
    starts = np.append(indptr[rows], indptr[-1:])
    return rows.astype(fitting(dtype, len(indptr)), copy=False), starts
