"""hyb(c, k): parts of the columns, and in each of them rows by their length, padded to few widths.

Ye et al., SparseTIR: Composable Abstractions for Sparse Compilation in Deep Learning, ASPLOS 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tileloom.base.errors import ShapeError, UserError
from tileloom.base.record import Record

from .check import csr_arrays, has_sorted_indices
from .column_parts import part_starts, part_width
from .ell import EllStructure, cut, padded
from .index_arrays import Array, IndexLike, fitting, whole


class HybStructure(Record):
    """A matrix as the sum of ELL matrices: `parts[column_part][bucket]`."""

    parts: tuple[tuple[EllStructure, ...], ...]

    def __getitem__(self, column_part: int) -> tuple[EllStructure, ...]:
        return self.parts[column_part]

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def padding(self) -> float:
        """The part of all slots that holds no element."""
        slots = sum(bucket.source.size for part in self.parts for bucket in part)
        return 1.0 - self.parts[0][0].source_count / slots if slots else 0.0

    def values(self, data: Array, fill: Any = 0) -> tuple[tuple[Array, ...], ...]:
        """The values of each slot of each bucket; see `Slots.values`."""
        return tuple(tuple(bucket.values(data, fill) for bucket in part) for part in self.parts)

    def scatter(self, values: Sequence[Sequence[Array]], out: Array | None = None) -> Array:
        """Values of all buckets back in the order of the input; see `Slots.scatter`."""
        if [len(part) for part in values] != [len(part) for part in self.parts]:
            raise ShapeError("values are not those of the parts and buckets of this matrix")
        for part, given in zip(self.parts, values):
            for bucket, some in zip(part, given):
                out = bucket.scatter(some, out)
        if out is None:
            raise ShapeError("a matrix without buckets has no values")
        return out


def hyb(
    indptr: IndexLike,
    indices: IndexLike,
    shape: tuple[int, int],
    *,
    num_col_parts: int = 1,
    widths: Sequence[int],
) -> HybStructure:
    """The matrix in parts of `ceil(columns / num_col_parts)` columns, each in buckets of rows.

    A row is in the first bucket that is as wide as it is long in that part. Rows that are longer
    than the last width are cut into several rows of the last bucket. Those without elements
    are nowhere: results start from zero.

    Args:
        indptr: where each row begins, and where the last ends.
        indices: the columns of each row's elements.
        shape: rows and columns.
        num_col_parts: parts of the columns.
        widths: slots in the rows of each bucket, ascending.

    >>> matrix = hyb([0, 1, 4, 4], [2, 0, 1, 3], (3, 4), widths=[1, 2])
    >>> one, two = matrix[0]
    >>> one.rows, two.rows
    (array([0]), array([1, 1]))
    >>> two.indices
    array([[0, 1], [3, 0]])
    >>> two.mask
    array([[ True, True], [ True, False]])
    """
    indptr, indices = csr_arrays(indptr, indices, shape)
    parts = whole("num_col_parts", num_col_parts)
    lows, highs = bucket_bounds(widths)
    width = part_width(int(shape[1]), parts)
    is_sorted = parts == 1 or has_sorted_indices(indptr, indices)
    starts, order = part_starts(indptr, indices, width, parts, is_sorted=is_sorted)
    found = tuple(
        tuple(
            _bucket(indices, begin, rows, length, high, order)
            for rows, length, high in by_length(end - begin, lows, highs)
        )
        for begin, end in pairwise(starts)
    )
    return HybStructure(found)


def bucket_bounds(widths: Sequence[int]) -> tuple[list[int], list[int]]:
    """The widths of buckets, and for each the longest row that the one before still takes."""
    highs = [whole("a width", width) for width in widths]
    if not highs or any(high <= low for low, high in pairwise(highs)):
        raise UserError(f"widths are {list(widths)}; they must ascend, and there must be one")
    return [0, *highs[:-1]], highs


def by_length(
    lengths: Array, lows: Sequence[int], highs: Sequence[int]
) -> list[tuple[Array, Array, int]]:
    """Rows by the bucket that they are in, those without elements left out.

    Returns:
        For each bucket its rows, how long they are, and its width, which those of the last may
        exceed.
    """
    bucket = np.zeros(len(lengths), np.min_scalar_type(len(highs)))
    for low in lows:
        bucket += lengths > low
    order = np.argsort(bucket, kind="stable")  # one pass, since it is such a small integer
    ends = np.cumsum(np.bincount(bucket, minlength=len(highs) + 1))
    lengths = lengths[order]
    return [
        (order[begin:end], lengths[begin:end], high)
        for begin, end, high in zip(ends[:-1], ends[1:], highs)
    ]


def _bucket(
    indices: Array,
    row_starts: Array,
    rows: Array,
    lengths: Array,
    width: int,
    order: Array | None,
) -> EllStructure:
    """Rows as rows of slots, those that are too long in pieces."""
    starts, named = row_starts[rows], fitting(indices.dtype, len(row_starts))
    if len(lengths) and int(lengths.max()) > width:
        run, starts, lengths = cut(starts, lengths, width)
        rows = rows[run]
    return padded(indices, rows.astype(named, copy=False), starts, lengths, width, order)


def column_part_hyb(
    num_rows: int,
    num_cols: int,
    indptr: IndexLike,
    indices: IndexLike,
    num_col_parts: int,
    buckets: Sequence[int],
) -> tuple[list[list[Array]], list[list[Array]], list[list[Array]]]:
    """`tvm.sparse.column_part_hyb` of SparseTIR: what `hyb` makes, as three nested lists.

    Returns:
        `(row_indices, col_indices, mask)`, each by part of the columns and by bucket: rows of
        shape `(r,)`, columns and mask (1 for an element, 0 for padding) of `(r, width)`.

    >>> rows, columns, mask = column_part_hyb(3, 4, [0, 1, 4, 4], [2, 0, 1, 3], 1, [1, 2])
    >>> rows[0][1], columns[0][1].tolist(), mask[0][1].tolist()
    (array([1, 1]), [[0, 1], [3, 0]], [[1, 1], [1, 0]])
    """
    shape = (num_rows, num_cols)
    made = hyb(indptr, indices, shape, num_col_parts=num_col_parts, widths=buckets)
    return (
        [[bucket.rows for bucket in part] for part in made.parts],
        [[bucket.indices for bucket in part] for part in made.parts],
        [[bucket.mask.astype(bucket.indices.dtype) for bucket in part] for part in made.parts],
    )
