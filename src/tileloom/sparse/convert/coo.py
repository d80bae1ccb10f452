"""Lists of coordinates to compressed rows and back."""

from __future__ import annotations

import numpy as np

from tileloom.base.errors import IndexingError, ShapeError

from .check import check_shape, csr_arrays
from .csr import CsrStructure
from .index_arrays import Array, IndexLike, fitting, index_array, joint, offsets
from .rows import all_rows
from .sorting import lexical_order


def coo_to_csr(rows: IndexLike, cols: IndexLike, shape: tuple[int, int]) -> CsrStructure:
    """The matrix by rows, their columns ascending. Duplicates stay, in the order they are given.

    >>> matrix = coo_to_csr([1, 0, 1], [2, 1, 0], (2, 3))
    >>> matrix.indptr, matrix.indices, matrix.source
    (array([0, 1, 3]), array([1, 0, 2]), array([1, 2, 0]))
    >>> matrix.values(np.array([1.5, 2.5, 3.5]))
    array([2.5, 3.5, 1.5])
    """
    extents = check_shape(shape, 2)
    rows, cols = coordinates(("rows", "cols"), (rows, cols), extents)
    dtype = joint(rows, cols)
    order = lexical_order((rows, cols), extents)
    indptr = offsets(np.bincount(rows, minlength=extents[0]), dtype)
    source = order.astype(fitting(dtype, len(rows)), copy=False)
    return CsrStructure(source, len(rows), indptr, cols[order])


def csr_to_coo(indptr: IndexLike, indices: IndexLike) -> tuple[Array, Array]:
    """The row and the column of each element; values stay where they are.

    >>> csr_to_coo([0, 1, 3], [1, 0, 2])
    (array([0, 1, 1]), array([1, 0, 2]))
    """
    indptr, indices = csr_arrays(indptr, indices)
    return all_rows(indptr), indices


def coordinates(
    names: tuple[str, ...], given: tuple[IndexLike, ...], extents: tuple[int, ...]
) -> tuple[Array, ...]:
    """Coordinates of elements, one array for each dimension, checked against its extent."""
    arrays = tuple(index_array(name, array) for name, array in zip(names, given))
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        said = ", ".join(f"{name} {length}" for name, length in zip(names, lengths))
        raise ShapeError(f"coordinates have different lengths: {said}")
    for name, array, extent in zip(names, arrays, extents):
        if len(array) and (int(array.min()) < 0 or int(array.max()) >= extent):
            position = int(np.argmax((array < 0) | (array >= extent)))
            raise IndexingError(
                f"{name}[{position}] = {array[position]} is out of range; the extent is {extent}"
            )
    return arrays
