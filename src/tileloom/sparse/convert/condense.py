"""SR-BCRS(t, g): strips of t rows without their empty columns, which are stored in groups of g.

The format of Li, Osawa and Hoefler, Efficient Quantized Sparse Matrix Operations on Tensor Cores
(Magicube), SC 2022, and with other widths the condensation of TC-GNN.
"""

from __future__ import annotations

import numpy as np

from .blocks import find_blocks, place_elements
from .check import csr_arrays
from .index_arrays import Array, IndexLike, offsets, whole
from .slots import Slots


class SrBcrsStructure(Slots):
    """Strips of rows in groups of columns; `source` has shape `(groups, t, g)`.

    Attributes:
        indptr: where the groups of each strip begin, and where the last ends.
        indices: the columns of each group, ascending, of shape `(groups, g)`; 0 for padding.
    """

    indptr: Array
    indices: Array


def condense(indptr: IndexLike, indices: IndexLike, t: int, g: int) -> SrBcrsStructure:
    """The matrix as SR-BCRS: `condense` of SparseTIR, whose mask is `mask` of the result.

    Args:
        indptr: where each row begins, and where the last ends.
        indices: the columns of each row's elements.
        t: rows in a strip.
        g: columns in a group.

    >>> strips = condense([0, 2, 3, 4], [0, 5, 3, 1], t=2, g=2)
    >>> strips.indptr, strips.indices.tolist()
    (array([0, 2, 3]), [[0, 3], [5, 0], [1, 0]])
    >>> strips.source[0].tolist()
    [[0, -1], [-1, 2]]
    """
    indptr, indices = csr_arrays(indptr, indices)
    height, group = whole("t", t), whole("g", g)
    columns = int(indices.max()) + 1 if len(indices) else 0
    found = find_blocks(indptr, indices, columns, height, 1)
    per_strip = np.diff(found.indptr).astype(np.int64, copy=False)
    starts = offsets(-(-per_strip // group), indptr.dtype)
    shift = np.repeat(starts[:-1] * np.int64(group) - found.indptr[:-1], per_strip)
    place = np.arange(len(found.indices)) + shift  # of each column among all in groups
    grouped = np.zeros((int(starts[-1]), group), indices.dtype)
    grouped.reshape(-1)[place] = found.indices
    slot_of_column = place // group * (height * group) + place % group

    def slots_of(column: Array, row: Array, _: Array) -> Array:
        slots: Array = slot_of_column[column] + row * group
        return slots

    tiles = (len(grouped), height, group)
    source = place_elements(indptr, indices, found, tiles, slots_of)
    return SrBcrsStructure(source, len(indices), starts, grouped)
