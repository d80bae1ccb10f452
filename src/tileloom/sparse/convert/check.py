"""Whether three arrays are a CSR matrix, and if not, what is wrong and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileloom.base.errors import IndexingError, ShapeError, UserError

from .index_arrays import Array, IndexLike, index_array, whole
from .rows import sorted_rows


def check_csr(
    indptr: IndexLike, indices: IndexLike, shape: tuple[int, int], *, sorted: bool | None = None
) -> None:
    """Refuse what is no CSR matrix, saying what is wrong and where.

    Args:
        indptr: where each row begins in `indices`, and where the last ends: `shape[0] + 1` numbers.
        indices: the columns of each row's elements.
        shape: rows and columns.
        sorted: True: the columns of each row ascend, and none is there twice. False: they are in
            any order, but none is there twice. None: nothing is asked of them.

    >>> check_csr([0, 2, 3], [0, 3, 1], (2, 4), sorted=True)
    >>> check_csr([0, 2, 3], [3, 0, 1], (2, 4), sorted=True)
    Traceback (most recent call last):
    tileloom.base.errors.UserError: indices of row 0 are not sorted: 0 at position 1 comes after 3
      hint: sort them first: sort_indices
    """
    indptr, indices = csr_arrays(indptr, indices, shape)
    if sorted is None:
        return
    if sorted:
        refuse_unsorted(indptr, indices)
    refuse_duplicates(indptr, indices)


def has_sorted_indices(indptr: IndexLike, indices: IndexLike) -> bool:
    """Whether the columns of every row ascend; equal ones may follow each other.

    >>> has_sorted_indices([0, 2, 3], [1, 1, 0]), has_sorted_indices([0, 2], [1, 0])
    (True, False)
    """
    return _first_break(*csr_arrays(indptr, indices), np.less_equal) is None


def has_duplicates(indptr: IndexLike, indices: IndexLike) -> bool:
    """Whether a row has a column twice.

    >>> has_duplicates([0, 3], [1, 0, 1]), has_duplicates([0, 1, 2], [1, 1])
    (True, False)
    """
    return _duplicate(*csr_arrays(indptr, indices)) is not None


def csr_arrays(
    indptr: IndexLike, indices: IndexLike, shape: tuple[int, int] | None = None
) -> tuple[Array, Array]:
    """The two arrays of a CSR matrix, checked but for the order of indices."""
    indptr, indices = index_array("indptr", indptr), index_array("indices", indices)
    check_indptr("indptr", indptr, len(indices))
    if shape is not None:
        rows = check_shape(shape, 2)[0]
        if len(indptr) != rows + 1:
            raise ShapeError(
                f"indptr has length {len(indptr)}; a matrix of {rows} rows needs {rows + 1}"
            )
    _check_range(indptr, indices, None if shape is None else int(shape[1]))
    return indptr, indices


def check_shape(shape: Any, dimensions: int) -> tuple[int, ...]:
    """A shape of so many dimensions, or a refusal."""
    if not isinstance(shape, tuple | list) or len(shape) != dimensions:
        raise ShapeError(f"shape is {shape!r}; it has {dimensions} dimensions")
    return tuple(whole(f"shape[{axis}]", extent, 0) for axis, extent in enumerate(shape))


def check_indptr(name: str, indptr: Array, count: int) -> None:
    """Refuse what does not cut a list of so many elements into consecutive parts."""
    if not len(indptr):
        raise ShapeError(f"{name} is empty; that of a matrix without rows is [0]")
    if indptr[0] != 0:
        raise UserError(f"{name} begins with {indptr[0]}; the first row begins at 0")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        row = int(np.argmax(falls))
        raise UserError(
            f"{name} falls from {indptr[row]} to {indptr[row + 1]} at row {row}; "
            "no row has less than 0 elements"
        )
    if indptr[-1] != count:
        raise ShapeError(f"{name} ends with {indptr[-1]}, but there are {count} indices")


def _check_range(indptr: Array, indices: Array, columns: int | None) -> None:
    if not len(indices):
        return
    low, high = int(indices.min()), int(indices.max())
    if low >= 0 and (columns is None or high < columns):
        return
    bad = indices < 0 if low < 0 else indices >= columns
    position = int(np.argmax(bad))
    has = "" if columns is None else f"; the matrix has {columns} columns"
    raise IndexingError(
        f"index {indices[position]} at position {position}, in row {row_at(indptr, position)}, "
        f"is out of range{has}"
    )


def row_at(indptr: Array, position: int) -> int:
    """The row that an element is in."""
    return int(np.searchsorted(indptr, position, "right")) - 1


def refuse_unsorted(indptr: Array, indices: Array) -> None:
    """Refuse rows whose columns do not ascend."""
    position = _first_break(indptr, indices, np.less_equal)
    if position is not None:
        raise UserError(
            f"indices of row {row_at(indptr, position)} are not sorted: {indices[position]} "
            f"at position {position} comes after {indices[position - 1]}",
            hint="sort them first: sort_indices",
        )


def refuse_duplicates(indptr: Array, indices: Array) -> None:
    """Refuse rows that have a column twice."""
    pair = _duplicate(indptr, indices)
    if pair is not None:
        raise UserError(
            f"column {indices[pair[0]]} of row {row_at(indptr, pair[0])} is there twice, "
            f"at positions {pair[0]} and {pair[1]}",
            hint="sum duplicates first: sum_duplicates",
        )


def _first_break(indptr: Array, indices: Array, holds: np.ufunc) -> int | None:
    """The first position whose index and the one before in its row do not compare so."""
    if len(indices) < 2:
        return None
    fine = holds(indices[:-1], indices[1:])
    starts = indptr[1:-1]
    fine[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    return None if fine.all() else int(np.argmin(fine)) + 1


def _duplicate(indptr: Array, indices: Array) -> tuple[int, int] | None:
    """The positions of two elements of one row that have one column."""
    position = _first_break(indptr, indices, np.less)
    if position is None:
        return None
    if _first_break(indptr, indices, np.less_equal) is None:
        return position - 1, position
    ordered, source = sorted_rows(indptr, indices)
    position = _first_break(indptr, ordered, np.less)
    return None if position is None else (int(source[position - 1]), int(source[position]))
