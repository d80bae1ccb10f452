"""CSF: compressed fibers, a tree with the coordinates of each dimension below those before it.

Smith and Karypis, Tensor-Matrix Products with a Compressed Sparse Tensor, IA3 2015.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileloom.base.errors import UserError

from .check import check_shape
from .coo import coordinates
from .index_arrays import Array, IndexLike, fitting, joint, offsets
from .slots import Slots
from .sorting import first_of_runs, lexical_order


class CsfStructure(Slots):
    """A tensor as a tree; the leaves are the elements, in ascending order of coordinates.

    Attributes:
        levels: for each dimension `(indptr, indices)`: where the children of each node of the
            level above begin, and their coordinates. The first is the children of one root.
        order: the dimension of the tensor that each level is.
    """

    levels: tuple[tuple[Array, Array], ...]
    order: tuple[int, ...]


def csf(
    coords: Sequence[IndexLike],
    shape: tuple[int, ...],
    order: Sequence[int] | None = None,
    *,
    dense_root: bool = False,
) -> CsfStructure:
    """The tensor with elements at some coordinates, as compressed fibers.

    Args:
        coords: for each dimension the coordinates of all elements, in any order.
        shape: the extents.
        order: the dimension of each level; by default 0, 1, 2, ...
        dense_root: all coordinates of the first level are there, and it is not stored: `levels`
            begins with the second, whose `indptr` has an entry for each of them, as in CSR.

    >>> tensor = csf([[0, 2, 0], [1, 0, 1], [3, 1, 0]], (3, 2, 4))
    >>> for indptr, indices in tensor.levels:
    ...     print(indptr, indices)
    [0 2] [0 2]
    [0 1 2] [1 0]
    [0 2 3] [0 3 1]
    >>> tensor.source
    array([2, 0, 1])
    """
    if not len(coords):
        raise UserError("coords is empty; a tensor has at least one dimension")
    extents = check_shape(shape, len(coords))
    names = tuple(f"coords[{axis}]" for axis in range(len(coords)))
    arrays = coordinates(names, tuple(coords), extents)
    by_level = _permutation(order, len(arrays))
    dtype = joint(*arrays)
    keys = [arrays[axis] for axis in by_level]
    permuted = lexical_order(keys, [extents[axis] for axis in by_level])
    levels = _levels([key[permuted] for key in keys], dtype, permuted)
    if dense_root:
        if len(levels) < 2:
            raise UserError("a tensor of one dimension with a dense root has no levels")
        levels = _with_dense_root(levels, extents[by_level[0]], dtype)
    source = permuted.astype(fitting(dtype, len(permuted)), copy=False)
    return CsfStructure(source, len(source), tuple(levels), by_level)


def _permutation(order: Sequence[int] | None, dimensions: int) -> tuple[int, ...]:
    wanted = tuple(range(dimensions)) if order is None else tuple(order)
    if sorted(wanted) != list(range(dimensions)):
        raise UserError(f"order is {wanted}; it names each of {dimensions} dimensions once")
    return wanted


def _levels(
    ascending: list[Array], dtype: np.dtype[np.generic], source: Array
) -> list[tuple[Array, Array]]:
    """The levels of elements in lexical order."""
    is_node = np.zeros(len(source), bool)
    is_node[:1] = True
    above = is_node.copy()
    levels: list[tuple[Array, Array]] = []
    for keys in ascending:
        is_node = is_node | first_of_runs(keys)
        starts = offsets(is_node, dtype)
        begins = np.append(starts[:-1][above], starts[-1:])
        if not len(source) and not levels:
            begins = np.zeros(2, dtype)  # the root is there in an empty tensor too
        levels.append((begins, keys[is_node]))
        above = is_node
    if not is_node.all():
        position = int(np.argmin(is_node))
        pair = sorted((int(source[position - 1]), int(source[position])))
        raise UserError(
            f"elements {pair[0]} and {pair[1]} have the same coordinates",
            hint="add them up first",
        )
    return levels


def _with_dense_root(
    levels: list[tuple[Array, Array]], extent: int, dtype: np.dtype[np.generic]
) -> list[tuple[Array, Array]]:
    (_, roots), (indptr, indices), *rest = levels
    counts = np.zeros(extent, np.int64)
    counts[roots] = np.diff(indptr)
    return [(offsets(counts, dtype), indices), *rest]
