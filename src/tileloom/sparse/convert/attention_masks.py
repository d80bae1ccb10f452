"""Masks of sparse attention, known without data: which blocks of queries see which of keys."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from tileloom.base.errors import UserError
from tileloom.base.record import Record

from .index_arrays import Array, fitting, offsets, whole


class BlockMask(Record):
    """Which blocks of a square are there, as compressed rows of blocks.

    Attributes:
        indptr: where the blocks of each row of blocks begin, and where the last ends; with heads,
            the rows of one head after those of another.
        indices: the column of each block, counted in blocks, ascending in each row.
        shape: rows and columns in blocks, or heads, rows and columns.
    """

    indptr: Array
    indices: Array
    shape: tuple[int, ...]

    def dense(self) -> Array:
        """For each block of `shape` whether it is there."""
        present = np.zeros((len(self.indptr) - 1, self.shape[-1]), bool)
        present[np.repeat(np.arange(len(present)), np.diff(self.indptr)), self.indices] = True
        return present.reshape(self.shape)


def butterfly(blocks: int, heads: int | None = None, dtype: DTypeLike = np.int32) -> BlockMask:
    """Blocks whose numbers are equal or differ in one bit: a butterfly network flattened.

    It is `create_pixelfly` of SparseTIR's artifact: Chen et al., Pixelated Butterfly, ICLR 2022.

    Args:
        blocks: rows of blocks, and columns: a power of two, at least 2.
        heads: how many heads the mask is repeated for; None for one that all share.
        dtype: of indices: int32 or int64.

    >>> butterfly(4).dense().astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 0, 1],
           [1, 0, 1, 1],
           [0, 1, 1, 1]])
    """
    blocks = whole("blocks", blocks, 2)
    if blocks & (blocks - 1):
        raise UserError(f"blocks is {blocks}; a butterfly needs a power of two")
    flips = np.append(0, 1 << np.arange(blocks.bit_length() - 1))
    columns = np.sort(np.arange(blocks)[:, None] ^ flips, axis=1)
    return _mask(columns, np.ones(columns.shape, bool), heads, dtype)


def band(
    blocks: int,
    window: int,
    heads: int | None = None,
    dtype: DTypeLike = np.int32,
    *,
    symmetric: bool = False,
) -> BlockMask:
    """The blocks on the diagonal and the next ones, `window` in all.

    It is `create_longformer` of SparseTIR's artifact, which has those right of the diagonal alone.

    Args:
        blocks: rows of blocks, and columns.
        window: blocks in a row from the diagonal on, which it counts too.
        heads: how many heads the mask is repeated for; None for one that all share.
        dtype: of indices: int32 or int64.
        symmetric: as many left of the diagonal as right of it: Longformer's window.

    >>> band(3, 2).dense().astype(int)
    array([[1, 1, 0],
           [0, 1, 1],
           [0, 0, 1]])
    """
    blocks, window = whole("blocks", blocks, 0), whole("window", window)
    reach = min(window, max(1, blocks))
    columns = np.arange(blocks)[:, None] + np.arange(1 - reach if symmetric else 0, reach)
    return _mask(columns, (columns >= 0) & (columns < blocks), heads, dtype)


def _mask(columns: Array, present: Array, heads: int | None, dtype: DTypeLike) -> BlockMask:
    blocks = len(columns)
    lengths, indices = present.sum(axis=1), columns[present]
    shape: tuple[int, ...] = (blocks, blocks)
    if heads is not None:
        count = whole("heads", heads)
        lengths, indices = np.tile(lengths, count), np.tile(indices, count)
        shape = (count, *shape)
    indptr = offsets(lengths, np.dtype(dtype))
    return BlockMask(indptr, indices.astype(fitting(np.dtype(dtype), blocks)), shape)
