"""Three dimensional ELL: hyb for each relation of a graph, rows of one width in groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileloom.base.errors import ShapeError, UserError

from .check import check_indptr, csr_arrays
from .ell import cut, padded
from .hyb import bucket_bounds, by_length
from .index_arrays import Array, IndexLike, index_array, offsets, whole
from .rows import all_rows
from .slots import Slots


class Ell3dStructure(Slots):
    """Groups of rows of one width, for each relation; `source` is `(groups, rows, width)`.

    Attributes:
        indptr: where the groups of each relation begin, and where the last ends.
        rows: the rows of each group, of shape `(groups, rows)`; the last row of a relation is
            repeated, without elements, until its group is full.
        indices: the columns, of shape `(groups, rows, width)`; 0 for padding.
    """

    indptr: Array
    rows: Array
    indices: Array


def csf_to_ell3d(
    indptr0: IndexLike,
    indices0: IndexLike,
    indptr1: IndexLike,
    indices1: IndexLike,
    nnz_rows_bkt: Sequence[int],
    nnz_cols_bkt: Sequence[int],
) -> tuple[Ell3dStructure, ...]:
    """A tensor of relations, rows and columns in buckets, as `csf_to_ell3d` of SparseTIR.

    Args:
        indptr0: where the rows of each relation begin, and where the last ends.
        indices0: the row of each.
        indptr1: where the elements of each of these rows begin, and where the last ends.
        indices1: the column of each element.
        nnz_rows_bkt: for each bucket, rows in a group.
        nnz_cols_bkt: for each bucket, slots in a row; they ascend. Longer rows are cut.

    Returns:
        A matrix for each bucket. Together they hold every element once.

    >>> one, two = csf_to_ell3d([0, 2, 3], [0, 4, 1], [0, 1, 4, 5], [7, 0, 1, 2, 3], [2, 2], [1, 2])
    >>> one.indptr, one.rows.tolist(), one.indices.tolist()
    (array([0, 1, 2]), [[0, 0], [1, 1]], [[[7], [0]], [[3], [0]]])
    >>> two.indptr, two.rows.tolist(), two.indices.tolist()
    (array([0, 1, 1]), [[4, 4]], [[[0, 1], [2, 0]]])
    """
    starts0, rows = index_array("indptr0", indptr0), index_array("indices0", indices0)
    check_indptr("indptr0", starts0, len(rows))
    starts1, columns = csr_arrays(indptr1, indices1)
    if len(starts1) != len(rows) + 1:
        raise ShapeError(f"indptr1 has length {len(starts1)}; for {len(rows)} rows {len(rows) + 1}")
    heights = [whole("nnz_rows_bkt", height) for height in nnz_rows_bkt]
    lows, widths = bucket_bounds(nnz_cols_bkt)
    if len(heights) != len(widths):
        raise UserError(f"nnz_rows_bkt has {len(heights)} buckets, nnz_cols_bkt {len(widths)}")
    lengths, relations = np.diff(starts1), all_rows(starts0)
    made = []
    for (nodes, length, width), height in zip(by_length(lengths, lows, widths), heights):
        run, begins, rest = cut(starts1[nodes], length, width)
        nodes = nodes[run]
        per_relation = np.bincount(relations[nodes], minlength=len(starts0) - 1)
        indptr, owner, is_row = _grouped(per_relation, height, starts0.dtype)
        cells = padded(columns, rows[nodes[owner]], begins[owner], rest[owner] * is_row, width)
        shape = (int(indptr[-1]), height)
        made.append(
            Ell3dStructure(
                cells.source.reshape(*shape, width),
                len(columns),
                indptr,
                cells.rows.reshape(shape),
                cells.indices.reshape(*shape, width),
            )
        )
    return tuple(made)


def _grouped(
    per_relation: Array, height: int, dtype: np.dtype[np.generic]
) -> tuple[Array, Array, Array]:
    """Rows of relations in groups of `height`.

    Returns:
        Where the groups of each relation begin; for each place in a group the row that is there,
        or that is repeated there; and whether it is there.
    """
    groups = -(-per_relation // height)
    indptr = offsets(groups, dtype)
    shift = indptr[:-1] * np.int64(height) - offsets(per_relation, dtype)[:-1]
    count = int(per_relation.sum())
    place = np.arange(count) + np.repeat(shift, per_relation)
    owner = np.zeros(int(indptr[-1]) * height, np.int64)
    owner[place] = np.arange(count)
    is_row = np.zeros(len(owner), bool)
    is_row[place] = True
    return indptr, np.maximum.accumulate(owner), is_row
