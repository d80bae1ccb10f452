"""Axes and buffers of given arrays: which coordinates are stored, and where their elements are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.record import Record
from ..expr import Expr
from ..tir import SparseBuffer

Array = np.ndarray[Any, Any]


class StoredAxis:
    """The positions and coordinates of an axis; positions are counted below all parents.

    Attributes:
        length: coordinates are in [0, length).
        count: how many positions there are in all.
        width: positions below each position of the parent; 0 where that varies.
        starts: the indptr, None where the width is the same below all positions.
        coordinates: the indices, None where coordinates are 0, 1, ... below each position.
    """

    __slots__ = ("coordinates", "count", "length", "starts", "width")

    def __init__(
        self, length: int, count: int, width: int, indptr: Array | None, indices: Array | None
    ) -> None:
        self.length = length
        self.count = count
        self.width = width
        self.starts: list[int] | None = None if indptr is None else indptr.tolist()
        self.coordinates: list[int] | None = None if indices is None else indices.tolist()

    def below(self, above: int) -> range:
        """The positions below one of the parent; the parent of a root has the position 0."""
        if self.starts is None:
            return range(above * self.width, (above + 1) * self.width)
        return range(self.starts[above], self.starts[above + 1])

    def above(self, position: int) -> int:
        """The position of the parent that a position is below."""
        if self.starts is None:
            return position // self.width
        return bisect_right(self.starts, position) - 1

    def coordinate(self, above: int, position: int) -> int:
        """The coordinate at a position below one of the parent."""
        if self.coordinates is None:
            return position - self.below(above).start
        return self.coordinates[position]

    def coordinates_below(self, above: int) -> Sequence[int]:
        """The coordinates below a position of the parent."""
        positions = self.below(above)
        if self.coordinates is None:
            return range(len(positions))
        return self.coordinates[positions.start : positions.stop]

    def find(self, above: int, coordinate: int) -> int:
        """The position of a coordinate below one of the parent; -1 where it is not stored."""
        if above < 0:
            return -1
        positions = self.below(above)
        if self.coordinates is None:
            return positions[coordinate] if 0 <= coordinate < len(positions) else -1
        found = bisect_left(self.coordinates, coordinate, positions.start, positions.stop)
        is_there = found < positions.stop and self.coordinates[found] == coordinate
        return found if is_there else -1


class StoredDimension(Record):
    """A dimension of the memory of a sparse buffer.

    Attributes:
        axis: the number of the axis whose positions it counts, below all parents or below one.
        members: the numbers of the axes that it stands for.
        extent: how many elements it has.
        is_local: positions are counted below one position of the parent.
    """

    axis: int
    members: tuple[int, ...]
    extent: Expr
    is_local: bool


def dimensions(buffer: SparseBuffer) -> list[StoredDimension]:
    """The memory of a buffer: a variable axis and those above it are one dimension, in its place.

    A dimension has other members than an axis and those above it if the axes are no chain.
    """
    found: list[StoredDimension] = []
    for k, axis in enumerate(buffer.axes):
        if axis.is_variable:
            above = {buffer.axes.index(part) for part in axis.ancestors}
            joined = [part for part in found if above & set(part.members)]
            found = [part for part in found if part not in joined]
            members = tuple(number for part in joined for number in part.members)
            found.append(StoredDimension(k, (*members, k), axis.nnz, False))
        else:
            found.append(StoredDimension(k, (k,), axis.positions, axis.parent is not None))
    return found


class StoredElements:
    """Where the elements of a sparse buffer are in its memory.

    Attributes:
        size: how many elements the memory has.
    """

    __slots__ = ("_dimensions", "size")

    def __init__(self, buffer: SparseBuffer, value: Callable[[Expr], int]) -> None:
        self._dimensions: list[tuple[int, int, bool]] = []
        self.size = 1
        for part in dimensions(buffer):
            extent = value(part.extent)
            self._dimensions.append((part.axis, extent, part.is_local))
            self.size *= extent
        if buffer.extra_storage is not None:
            self.size += value(buffer.extra_storage)

    def offset(self, *positions: int) -> int:
        """The element at positions on the axes; -1 where one of them is not stored."""
        total = 0
        for axis, extent, is_local in self._dimensions:
            position = positions[axis]
            if position < 0:
                return -1
            total = total * extent + (position % extent if is_local else position)
        return total


def union(*rows: Sequence[int]) -> list[int]:
    """The coordinates in any of several rows, ascending."""
    return sorted(set().union(*rows))


def intersection(*rows: Sequence[int]) -> list[int]:
    """The coordinates in all of several rows, ascending."""
    first, *others = map(set, rows)
    return sorted(first.intersection(*others))
