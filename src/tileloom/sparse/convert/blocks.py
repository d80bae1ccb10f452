"""The blocks of a matrix that hold elements: found strip by strip of rows, in one sort each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileloom.base.errors import UserError
from tileloom.base.record import Record

from .check import row_at
from .chunks import for_chunks, row_chunks
from .index_arrays import Array, ceil_div, fitting, offsets
from .rows import rows_between
from .slots import fill_slots
from .sorting import first_of_runs, stable_order


class FoundBlocks(Record):
    """The blocks that hold elements, by strips of `height` rows and then by column.

    Attributes:
        height: rows in a strip; the last may have less.
        width: columns in a block; the last may have less.
        indptr: where the blocks of each strip begin, and where the last ends.
        indices: for each block its number in its strip of all that could be there.
        bounds: chunks of strips.
        rank_of_each: for each element the number of its block among those of its chunk.
    """

    height: int
    width: int
    indptr: Array
    indices: Array
    bounds: Array
    rank_of_each: Array


def find_blocks(
    indptr: Array, indices: Array, columns: int, height: int, width: int
) -> FoundBlocks:
    """The blocks of `height` rows and `width` columns that hold elements."""
    strips = ceil_div(len(indptr) - 1, height)
    strip_starts = np.append(indptr[:-1:height], indptr[-1:])
    across = max(1, ceil_div(columns, width))
    divisor = fitting(indices.dtype, width).type(width)
    bounds = row_chunks(strip_starts)
    counts = np.zeros(strips, np.int64)
    ranks = np.empty(len(indices), indices.dtype)
    found: dict[int, Array] = {}

    def work(begin: int, end: int) -> None:
        first, last = int(strip_starts[begin]), int(strip_starts[end])
        keys = (rows_between(strip_starts, begin, end) - begin) * np.int64(across)
        keys += indices[first:last] // divisor
        order, keys = stable_order(keys, (end - begin) * across)
        is_first = first_of_runs(keys)
        distinct = keys[is_first]
        counts[begin:end] = np.bincount(distinct // across, minlength=end - begin)
        found[begin] = (distinct % across).astype(indices.dtype, copy=False)
        rank = np.cumsum(is_first)
        rank -= 1
        ranks[first:last][order] = rank

    for_chunks(work, bounds)
    parts = [found[begin] for begin in sorted(found)]
    block_columns = np.concatenate(parts) if parts else indices[:0]
    return FoundBlocks(height, width, offsets(counts, indptr.dtype), block_columns, bounds, ranks)


def place_elements(
    indptr: Array,
    indices: Array,
    found: FoundBlocks,
    shape: tuple[int, ...],
    slots_of: Callable[[Array, Array, Array], Array],
) -> Array:
    """The source of each slot of blocks.

    Args:
        indptr: where each row begins, and where the last ends.
        indices: the columns of each row's elements.
        found: the blocks.
        shape: of the slots.
        slots_of: for some elements, given the number of the block, the row within the strip and
            the column of each, the number of the slot of each.
    """

    def slots_between(begin: int, end: int) -> tuple[Array, Array]:
        first_row, last_row = begin * found.height, min(end * found.height, len(indptr) - 1)
        first, last = int(indptr[first_row]), int(indptr[last_row])
        block = found.rank_of_each[first:last].astype(np.int64)
        block += int(found.indptr[begin])
        row = rows_between(indptr, first_row, last_row) % np.int64(found.height)
        elements = np.arange(first, last, dtype=source_type)
        return elements, slots_of(block, row, indices[first:last])

    source_type = fitting(indices.dtype, len(indices))
    source, clash = fill_slots(
        shape, len(indices), found.bounds, slots_between, source_type, is_exclusive=True
    )
    if clash is not None:
        one, other = clash
        where = f"row {row_at(indptr, one)}, column {indices[one]}"
        raise UserError(
            f"elements {one} and {other} are both in {where}",
            hint="sum duplicates first: sum_duplicates",
        )
    return source
