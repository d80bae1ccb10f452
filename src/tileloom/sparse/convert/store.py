"""Any format from a description of its axes and the coordinates of elements on them.

A format rule maps coordinates of a matrix to those of a new format, `(i, j) -> (i // 4, j // 4,
i % 4, j % 4)`. Applied to the coordinates of all elements it says where they are, so that what the
axes need, `indptr` and `indices`, follows: no format needs a conversion of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tileloom.base.errors import ShapeError, UserError
from tileloom.base.record import Record

from .chunks import even_chunks
from .coo import coordinates
from .index_arrays import Array, IndexLike, fitting, joint, offsets, whole
from .ragged import ragged
from .slots import Slots, check_countable, fill_slots
from .sorting import first_of_runs, lexical_order

AxisKind = Literal["dense_fixed", "dense_variable", "sparse_fixed", "sparse_variable"]
KINDS = ("dense_fixed", "dense_variable", "sparse_fixed", "sparse_variable")


class FormatAxis(Record):
    """An axis of a format.

    Attributes:
        kind: dense: every coordinate below the length, or below a length of its own for each
            position of the parent (variable); sparse: some coordinates, a fixed number for each
            position of the parent, or any (variable).
        length: coordinates are less than that.
        parent: the number of the axis that positions of this one lie under; it comes before. None
            for a `dense_fixed` axis that lies under no other.
        width: of a `sparse_fixed` axis, how many slots each position of the parent has.
        lengths: of a `dense_variable` axis, the length under each position of the parent; by
            default it is what the elements there need.

    >>> rows, columns = FormatAxis("dense_fixed", 3), FormatAxis("sparse_variable", 4, parent=0)
    """

    kind: AxisKind
    length: int
    parent: int | None = None
    width: int | None = None
    lengths: IndexLike | None = None

    @property
    def is_variable(self) -> bool:
        """Whether positions of the parent have different numbers of children."""
        return self.kind.endswith("variable")

    @property
    def is_sparse(self) -> bool:
        """Whether only some coordinates are there."""
        return self.kind.startswith("sparse")

    @property
    def slots(self) -> int:
        """Positions under each of the parent, of an axis that is not variable."""
        return self.length if self.width is None else self.width


class AxisArrays(Record):
    """What is stored of an axis.

    Attributes:
        indptr: of a variable axis, where the children of each position of the parent begin.
        indices: of a sparse axis, the coordinate at each position: shape `(positions,)`, or
            `(positions of the parent, width)` if it is `sparse_fixed`, with 0 for padding.
        size: how many positions the axis has, under all of those of its parent.
    """

    indptr: Array | None
    indices: Array | None
    size: int


class StoredStructure(Slots):
    """The arrays of a format, and what each of its slots holds.

    `source` has a dimension for each axis in their order: the positions under one of the parent,
    or for a variable axis all its positions, in which case its ancestors have no dimension.

    Attributes:
        axes: the arrays of each axis.
    """

    axes: tuple[AxisArrays, ...]


def store(coords: Sequence[IndexLike], axes: Sequence[FormatAxis]) -> StoredStructure:
    """The arrays of a format that has elements at some coordinates.

    Args:
        coords: for each axis the coordinates of all elements.
        axes: the axes, parents before their children.

    Returns:
        The arrays. Coordinates ascend under every position of a sparse axis.

    Raises:
        UserError: the axes are no format, or the elements do not fit: one is out of range, two
            have one slot, a `sparse_fixed` axis has too many coordinates somewhere.

    A matrix in blocks of 2 x 2:

    >>> rows, columns = np.array([0, 0, 1, 2]), np.array([0, 3, 1, 0])
    >>> made = store(
    ...     [rows // 2, columns // 2, rows % 2, columns % 2],
    ...     [
    ...         FormatAxis("dense_fixed", 2),
    ...         FormatAxis("sparse_variable", 2, parent=0),
    ...         FormatAxis("dense_fixed", 2),
    ...         FormatAxis("dense_fixed", 2),
    ...     ],
    ... )
    >>> made.axes[1].indptr, made.axes[1].indices
    (array([0, 2, 3]), array([0, 1, 0]))
    >>> made.source.tolist()
    [[[0, -1], [-1, 2]], [[-1, 1], [-1, -1]], [[3, -1], [-1, -1]]]
    """
    axes = tuple(axes)
    _check_axes(axes)
    if len(coords) != len(axes):
        raise ShapeError(f"coordinates are given for {len(coords)} axes of {len(axes)}")
    names = tuple(f"coords[{number}]" for number in range(len(axes)))
    given = coordinates(names, tuple(coords), tuple(axis.length for axis in axes))
    dtype = joint(*given)
    dimensions = _dimensions(axes)
    order = _order_of_chain(axes, given)
    arrays = given if order is None else tuple(array[order] for array in given)
    stored: list[AxisArrays] = []
    places: list[Array] = []  # of each element on each axis, among all its positions
    for number, (axis, array) in enumerate(zip(axes, arrays)):
        above = np.zeros(len(array), np.int64) if axis.parent is None else places[axis.parent]
        parents = 1 if axis.parent is None else stored[axis.parent].size
        made, place = _axis_arrays(number, axis, array, above, parents, dtype)
        stored.append(made)
        places.append(place)
    shape = tuple(stored[n].size if axes[n].is_variable else axes[n].slots for n in dimensions)
    check_countable(shape)
    slot = np.zeros(len(arrays[0]), np.int64)
    for number, extent in zip(dimensions, shape):
        slot *= extent
        slot += places[number] if axes[number].is_variable else places[number] % max(1, extent)

    elements = np.arange(len(slot)) if order is None else order
    elements = elements.astype(fitting(dtype, len(slot)), copy=False)
    source, clash = fill_slots(
        shape,
        len(slot),
        even_chunks(len(slot)),
        lambda begin, end: (elements[begin:end], slot[begin:end]),
        elements.dtype,
        is_exclusive=False,
    )
    if clash is not None:
        where = ", ".join(str(array[clash[0]]) for array in given)
        raise UserError(f"elements {clash[0]} and {clash[1]} have one slot, at ({where})")
    return StoredStructure(source, len(slot), tuple(stored))


def _order_of_chain(axes: tuple[FormatAxis, ...], arrays: tuple[Array, ...]) -> Array | None:
    """The order of elements by the last sparse axis and those above, None if they are in it.

    In that order the keys of every one of these axes ascend, and are not sorted one by one.
    """
    last = next((n for n in reversed(range(len(axes))) if axes[n].is_sparse), None)
    chain: list[int] = []
    while last is not None:
        chain.insert(0, last)
        last = axes[last].parent
    if not chain:
        return None
    keys = [arrays[number] for number in chain]
    order = lexical_order(keys, [max(1, axes[number].length) for number in chain])
    return None if bool((order[1:] > order[:-1]).all()) else order


def _axis_arrays(
    number: int,
    axis: FormatAxis,
    coordinate: Array,
    above: Array,
    parents: int,
    dtype: np.dtype[Any],
) -> tuple[AxisArrays, Array]:
    """The arrays of an axis, and the position of each element on it.

    Args:
        number: of the axis.
        axis: its description.
        coordinate: of each element on it.
        above: the position of each element on the parent.
        parents: how many positions the parent has.
        dtype: of the arrays.
    """
    if axis.kind == "dense_fixed":
        check_countable((parents, axis.length))
        return AxisArrays(None, None, parents * axis.length), above * axis.length + coordinate
    if axis.kind == "dense_variable":
        indptr = offsets(_child_counts(number, axis, coordinate, above, parents), dtype)
        return AxisArrays(indptr, None, int(indptr[-1])), indptr[above] + coordinate
    order = lexical_order((above, coordinate), (max(1, parents), max(1, axis.length)))
    parent_of, child = above[order], coordinate[order]
    is_first = first_of_runs(parent_of, child)
    rank = np.cumsum(is_first)
    rank -= 1
    parent_of, child = parent_of[is_first], child[is_first].astype(fitting(dtype, axis.length))
    indptr = offsets(np.bincount(parent_of, minlength=parents), dtype)
    place = np.empty(len(order), np.int64)
    if axis.is_variable:
        place[order] = rank
        return AxisArrays(indptr, child, len(child)), place
    _refuse_too_many(number, axis, indptr)
    slot = parent_of * axis.slots + np.arange(len(child)) - indptr[:-1][parent_of]
    indices = np.zeros((parents, axis.slots), child.dtype)
    indices.reshape(-1)[slot] = child
    place[order] = slot[rank]
    return AxisArrays(None, indices, indices.size), place


def _child_counts(
    number: int, axis: FormatAxis, coordinate: Array, above: Array, parents: int
) -> Array:
    """The length of a dense_variable axis under each position of its parent."""
    needed = np.zeros(parents, np.int64)
    np.maximum.at(needed, above, coordinate.astype(np.int64) + 1)
    if axis.lengths is None:
        return needed
    lengths = np.diff(ragged(axis.lengths))
    if len(lengths) != parents:
        raise ShapeError(f"axis {number} has {len(lengths)} lengths; {parents} are needed")
    if bool((needed > lengths).any()):
        position = int(np.argmax(needed > lengths))
        raise UserError(
            f"axis {number} is {lengths[position]} long under position {position} of its parent; "
            f"an element has coordinate {needed[position] - 1} there"
        )
    return lengths


def _refuse_too_many(number: int, axis: FormatAxis, indptr: Array) -> None:
    counts = np.diff(indptr)
    if len(counts) and int(counts.max()) > axis.slots:
        position = int(np.argmax(counts > axis.slots))
        raise UserError(
            f"position {position} of axis {axis.parent} has {counts[position]} coordinates on axis "
            f"{number}, which is sparse_fixed with a width of {axis.slots}",
            hint="a greater width, or a sparse_variable axis",
        )


def _check_axes(axes: tuple[FormatAxis, ...]) -> None:
    if not axes:
        raise UserError("a format has at least one axis")
    for number, axis in enumerate(axes):
        if axis.kind not in KINDS:
            raise UserError(f"axis {number} is of kind {axis.kind!r}; there are {', '.join(KINDS)}")
        whole(f"the length of axis {number}", axis.length, 0)
        if axis.parent is None and axis.kind != "dense_fixed":
            hint = "an axis of kind dense_fixed and length 1 before it, as its parent"
            raise UserError(f"axis {number} is {axis.kind} and has no parent", hint=hint)
        if axis.parent is not None and not 0 <= axis.parent < number:
            raise UserError(f"the parent of axis {number} is {axis.parent}, which is not before it")
        if (axis.kind == "sparse_fixed") != (axis.width is not None):
            needs = "needs" if axis.width is None else "has none:"
            raise UserError(f"axis {number} is {axis.kind}, which {needs} a width")
        if axis.lengths is not None and axis.kind != "dense_variable":
            raise UserError(f"axis {number} is {axis.kind}, which has no lengths")
        if axis.width is not None:
            whole(f"the width of axis {number}", axis.width, 0)


def _dimensions(axes: tuple[FormatAxis, ...]) -> list[int]:
    """The axes that have a dimension of their own: those that no variable axis lies under."""
    holder: dict[int, int] = {}
    for number in reversed(range(len(axes))):
        if not axes[number].is_variable or number in holder:
            continue
        parent = axes[number].parent
        while parent is not None:
            if parent in holder:
                raise UserError(
                    f"variable axes {number} and {holder[parent]} both lie under axis {parent}: "
                    "each of its positions would have another number of slots",
                    hint="let one of them be the parent of the other",
                )
            holder[parent] = number
            parent = axes[parent].parent
    return [number for number in range(len(axes)) if number not in holder]
