"""Sequences and optionals: lists and None while the graph is made."""

from __future__ import annotations

import numpy as np

from ....base.errors import ShapeError, UserError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import normalize_axis
from ..call import Call
from ..registry import handler
from ..values import Array, Value, constant_of
from .rearrange import shape_of


@handler("SequenceConstruct")
def sequence_construct(call: Call) -> list[Value]:
    return list(call.inputs)


@handler("SequenceEmpty")
def sequence_empty(call: Call) -> list[Value]:
    return []


@handler("SequenceLength")
def sequence_length(call: Call) -> Tensor:
    return constant_of(np.array(len(call.sequence(0)), np.int64))


@handler("SequenceAt")
def sequence_at(call: Call) -> Value:
    items = call.sequence(0)
    return items[_place(call, 1, len(items), len(items) - 1)]


def _place(call: Call, index: int, length: int, most: int) -> int:
    place = int(call.scalar(index))
    if not -length <= place <= most:
        raise UserError(f"position {place} is out of range for a sequence of {length}")
    return place + length if place < 0 else place


@handler("SequenceInsert")
def sequence_insert(call: Call) -> list[Value]:
    items = list(call.sequence(0))
    place = _place(call, 2, len(items), len(items)) if call.has(2) else len(items)
    items.insert(place, call.inputs[1])
    return items


@handler("SequenceErase")
def sequence_erase(call: Call) -> list[Value]:
    items = list(call.sequence(0))
    del items[_place(call, 1, len(items), len(items) - 1) if call.has(1) else -1]
    return items


@handler("SplitToSequence")
def split_to_sequence(call: Call) -> list[Value]:
    shape, axis = shape_of(call, 0), call.integer("axis", 0)
    normalize_axis(axis, len(shape))
    extent = shape[axis]
    sizes = [1] * extent
    if call.has(1):
        given = call.integers(1)
        scalar = call.array(1).ndim == 0
        if scalar and given[0] < 1:
            raise UserError(f"cannot split into parts of {given[0]}")
        starts = range(0, extent, given[0]) if scalar else ()
        sizes = [min(given[0], extent - s) for s in starts] if scalar else given
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise ShapeError(f"parts of {sizes} do not make up dimension {axis} of {list(shape)}")
    squeeze = not call.has(1) and not call.flag("keepdims", True)
    value = call.inputs[0]
    if isinstance(value, np.ndarray):
        return _split_array(value, sizes, axis, squeeze)
    parts = ops.split(call.tensor(0), sizes, axis)
    return [ops.squeeze(part, axis) if squeeze else part for part in parts]


def _split_array(array: Array, sizes: list[int], axis: int, squeeze: bool) -> list[Value]:
    parts = np.split(array, np.cumsum(sizes)[:-1], axis)
    return [np.squeeze(part, axis) if squeeze else part for part in parts]


@handler("ConcatFromSequence")
def concat_from_sequence(call: Call) -> Value:
    items, axis = call.sequence(0), call.integer("axis")
    if not items:
        raise UserError("the sequence is empty")
    fresh = call.flag("new_axis")
    tensors = [item for item in items if isinstance(item, Tensor)]
    if len(tensors) == len(items):
        return ops.stack(tensors, axis) if fresh else ops.concat(tensors, axis)
    return call.unsupported("a sequence of strings")


@handler("Optional")
def optional(call: Call) -> Value:
    return call.inputs[0] if call.inputs else None


@handler("OptionalHasElement")
def optional_has_element(call: Call) -> Tensor:
    return constant_of(np.array(call.has(0), np.bool_))


@handler("OptionalGetElement")
def optional_get_element(call: Call) -> Value:
    if not call.has(0):
        raise UserError("the optional is empty")
    return call.inputs[0]
