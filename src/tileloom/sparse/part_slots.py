"""The slots of a part that is given by arrays, and the coordinates of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, ShapeError
from ..base.record import Record
from ..expr import Var, free_vars
from ..tir import Axis
from .format_rule import FormatRewriteRule, listed, sparse_buffers
from .index_values import Array, evaluate_index, evaluate_map
from .stored import dimensions

#: The name under which it is said which slots hold elements.
MASK = "mask"


class PartSlots(Record):
    """The slots of a part.

    Attributes:
        coordinates: for each axis that the rule rewrites the coordinates of all slots.
        order: for each slot its number in the memory of the part's buffers.
        is_full: for each slot whether it holds an element.
    """

    coordinates: tuple[Array, ...]
    order: Array
    is_full: Array


def part_slots(rule: FormatRewriteRule, arrays: Mapping[str, Any]) -> PartSlots:
    """All slots of a part, in the order in which an iteration over its axes comes to them.

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
    found: dict[Axis, _Level] = {}
    for axis in buffer.axes:
        found = stored.below(axis, found)
    count = stored.slots(found)
    number = np.zeros(count, np.int64)
    size = 1
    for part in dimensions(buffer):
        axis = buffer.axes[part.axis]
        level = found[axis]
        extent = level.width if part.is_local or axis.parent is None else stored.counts[axis]
        number = number * extent + (level.local if part.is_local else level.position)
        size *= extent
    new = [
        found[axis].coordinate if axis in found else np.zeros(count, np.int64)
        for axis in stored.mapped
    ]
    coordinates = evaluate_map(rule.inv_idx_map, new, stored.sizes)
    return PartSlots(tuple(coordinates), number, stored.mask(number, size))


class _Level(Record):
    """What the slots are on one axis.

    Attributes:
        coordinate: on the axis.
        position: among all positions of the axis.
        local: among those below the position of the parent.
        width: how many are below each, if that is fixed; otherwise 0.
    """

    coordinate: Array
    position: Array
    local: Array
    width: int


class _Stored:
    """The arrays and the sizes of a part."""

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
        self.counts: dict[Axis, int] = {}

    def slots(self, found: Mapping[Axis, _Level]) -> int:
        """How many slots there are."""
        return next((len(level.coordinate) for level in found.values()), 1)

    def below(self, axis: Axis, found: Mapping[Axis, _Level]) -> dict[Axis, _Level]:
        """The slots with one more axis: those below each that there is."""
        count = self.slots(found)
        if axis.parent is None:
            above, parents = np.zeros(count, np.int64), 1
        else:
            above, parents = found[axis.parent].position, self.counts[axis.parent]
        width = 0
        if axis.indptr is None:
            width = self._width(axis, parents)
            starts = np.arange(parents + 1, dtype=np.int64) * width
        else:
            starts = self._array(axis.indptr, axis, "indptr", parents + 1)
        self.counts[axis] = int(starts[-1])
        lengths = starts[above + 1] - starts[above]
        each = np.repeat(np.arange(count), lengths)
        first = np.cumsum(lengths) - lengths
        local = np.arange(len(each)) - first[each]
        position = starts[above][each] + local
        coordinate = local
        if axis.indices is not None:
            indices = self._array(axis.indices, axis, "indices", self.counts[axis])
            coordinate = indices[position]
        wider = {
            other: _Level(old.coordinate[each], old.position[each], old.local[each], old.width)
            for other, old in found.items()
        }
        return {**wider, axis: _Level(coordinate, position, local, width)}

    def mask(self, number: Array, size: int) -> Array:
        """For each slot whether it holds an element."""
        given = self.arrays.get(MASK)
        if given is None:
            return np.ones(len(number), bool)
        full = np.asarray(given).reshape(-1)
        if len(full) != size:
            raise ShapeError(
                f"the mask of part {self.rule.name!r} has {len(full)} elements; the part {size}"
            )
        return full.astype(bool)[number]

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
