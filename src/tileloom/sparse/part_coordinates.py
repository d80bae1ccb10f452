"""The coordinates of the elements of a part that is given by arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, ShapeError
from ..expr import Var, free_vars
from ..tir import Axis
from .format_rule import FormatRewriteRule, listed, sparse_buffers
from .index_values import Array, evaluate_index, evaluate_map
from .stored import dimensions

#: The name under which it is said which slots hold elements.
MASK = "mask"


def part_coordinates(rule: FormatRewriteRule, arrays: Mapping[str, Any]) -> list[Array]:
    """The coordinates of the elements of a part, on each axis that the rule rewrites.

    Args:
        rule: the part.
        arrays: the arrays and the sizes of the part by the names of the description's parameters;
            sizes that the arrays tell may be left out. `mask` says for each element of a buffer
            whether it is one of the tensor; without it all are.

    Raises:
        ArgumentError: an array or a size is missing.
        ShapeError: an array is not as long as the axes are.
    """
    stored = _Stored(rule, arrays)
    buffer = sparse_buffers(rule.new_format_desc)[rule.buffers_to_rewrite[0]]
    for axis in buffer.axes:
        stored.enter(axis)
    parts = dimensions(buffer)
    extents = [stored.extent(buffer.axes[part.axis], part.is_local) for part in parts]
    slots = stored.slots(prod(extents))
    for part, extent in reversed([*zip(parts, extents, strict=True)]):
        slots, at = np.divmod(slots, max(1, extent))
        stored.places[buffer.axes[part.axis]] = at
    for part in parts:
        stored.climb(buffer.axes[part.axis])
    for part in parts:
        axis = buffer.axes[part.axis]
        if part.is_local and axis.parent is not None:
            stored.places[axis] += stored.places[axis.parent] * stored.widths[axis]
    new = [stored.coordinate(axis, len(slots)) for axis in stored.mapped]
    return evaluate_map(rule.inv_idx_map, new, stored.sizes)


class _Stored:
    """The arrays and the sizes of a part.

    Attributes:
        sizes: of the description, as far as they are known.
        starts: of each variable axis, where the positions below each of the parent begin.
        widths: of each other axis, how many positions are below each of the parent.
        counts: how many positions each axis has.
        places: the position of each element on each axis.
    """

    def __init__(self, rule: FormatRewriteRule, arrays: Mapping[str, Any]) -> None:
        self.rule = rule
        self.func = rule.new_format_desc
        self.arrays = arrays
        by_name = {axis.name: axis for axis in self.func.sp_axes}
        self.mapped = [by_name[name] for name in rule.axes_after_rewrite]
        known = [*(param.name for param in self.func.params), MASK]
        unknown = sorted(arrays.keys() - set(known))
        if unknown:
            raise ArgumentError(
                f"part {rule.name!r} has {unknown[0]!r}, but the description has {listed(known)}"
            )
        self.sizes: dict[Var, int] = {
            param: int(arrays[param.name])
            for param in self.func.params
            if not param.dtype.is_handle and arrays.get(param.name) is not None
        }
        self.starts: dict[Axis, Array] = {}
        self.widths: dict[Axis, int] = {}
        self.indices: dict[Axis, Array] = {}
        self.counts: dict[Axis, int] = {}
        self.places: dict[Axis, Array] = {}

    def enter(self, axis: Axis) -> None:
        """Take over what an axis stores; its parent is known."""
        parents = 1 if axis.parent is None else self.counts[axis.parent]
        if axis.indptr is None:
            self.widths[axis] = self._width(axis, parents)
            self.counts[axis] = parents * self.widths[axis]
        else:
            starts = self.starts[axis] = self._array(axis.indptr, axis, "indptr", parents + 1)
            self.counts[axis] = int(starts[-1])
        if axis.indices is not None:
            self.indices[axis] = self._array(axis.indices, axis, "indices", self.counts[axis])

    def extent(self, axis: Axis, is_local: bool) -> int:
        """How many elements a dimension of memory has."""
        return self.widths[axis] if is_local else self.counts[axis]

    def slots(self, count: int) -> Array:
        """The slots that hold elements."""
        given = self.arrays.get(MASK)
        if given is None:
            return np.arange(count)
        full = np.asarray(given).reshape(-1)
        if len(full) != count:
            raise ShapeError(
                f"the mask of part {self.rule.name!r} has {len(full)} elements; the part {count}"
            )
        return np.flatnonzero(full)

    def climb(self, axis: Axis) -> None:
        """Enter the positions above those on a variable axis."""
        while axis.parent is not None and axis in self.starts:
            count = self.counts[axis.parent]
            above = np.repeat(np.arange(count), np.diff(self.starts[axis]))
            self.places[axis.parent] = above[self.places[axis]]
            axis = axis.parent
            while axis.parent is not None and axis in self.widths:
                self.places[axis.parent] = self.places[axis] // max(1, self.widths[axis])
                axis = axis.parent

    def coordinate(self, axis: Axis, count: int) -> Array:
        """The coordinate of each element on an axis; 0 if the elements do not have it."""
        if axis not in self.places:
            return np.zeros(count, np.int64)
        place = self.places[axis]
        if axis in self.indices:
            return self.indices[axis][place]
        if axis.parent is None:
            return place
        return place - self.starts[axis][self.places[axis.parent]]

    def _array(self, param: Var, axis: Axis, what: str, length: int) -> Array:
        array = self._given(param.name)
        if len(array) != length:
            raise ShapeError(
                f"the {what} of axis {axis.name!r} of part {self.rule.name!r} has {len(array)} "
                f"elements; {length} are needed"
            )
        return array

    def _given(self, name: str) -> Array:
        if name not in self.arrays:
            raise ArgumentError(f"part {self.rule.name!r} has no array {name!r}")
        return np.asarray(self.arrays[name]).reshape(-1).astype(np.int64, copy=False)

    def _width(self, axis: Axis, parents: int) -> int:
        """How many positions are below each of the parent."""
        size = axis.positions
        if free_vars(size) <= self.sizes.keys():
            return int(evaluate_index(size, self.sizes))
        found = self._told(axis, parents)
        if found is None:
            raise ArgumentError(f"part {self.rule.name!r} does not tell the size {size}")
        if isinstance(size, Var):
            self.sizes[size] = found
        return found

    def _told(self, axis: Axis, parents: int) -> int | None:
        """A width as arrays tell it: its own indices, or the indptr of an axis below."""
        if axis.indices is not None:
            return len(self._given(axis.indices.name)) // max(1, parents)
        for child in self.func.sp_axes:
            if child.parent is axis and child.indptr is not None:
                return len(self._given(child.indptr.name)) - 1
        return None
