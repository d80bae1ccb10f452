"""Where the elements of tensors are: in which registers, of which lanes, of which warps.

A tensor that threads hold is an array of (warps, lanes, registers). Thread blocks of a group that
shares a tensor count as more warps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..ir.types import MemDescType, TensorType
from ..layouts.encodings import DistributedEncoding, SharedEncoding
from ..layouts.to_linear import to_linear_layout
from .values import Array, ExecutionError, dtype_of


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the elements of a tensor are.

    Attributes:
        elements: for every warp, lane and register the number of the element there, row by row.
        first: for every element the first place of it, as an index of `elements` made flat.
        copies: whether an element has several places.
    """

    elements: Array
    first: Array
    copies: bool


@cache
def placement_of(type: TensorType) -> Placement:
    """Where the elements of a tensor of a type are."""
    if not isinstance(type.encoding, DistributedEncoding):
        raise ExecutionError(f"{type} has no layout over threads")
    table = to_linear_layout(type.shape, type.encoding).table()
    elements = table.reshape(-1, *table.shape[2:])
    numbers, first = np.unique(elements, return_index=True)
    if len(numbers) != type.size:
        raise ExecutionError(f"the layout of {type} leaves elements out")
    return Placement(elements, first, elements.size > type.size)


@cache
def offsets_of(type: MemDescType) -> Array:
    """Where the elements of a whole buffer are in memory, counted in elements: an array of the
    buffer's shape. Thread blocks that share a buffer have one part after the other."""
    if not isinstance(type.encoding, SharedEncoding):
        raise ExecutionError(f"{type} has no layout of shared memory")
    bits = 8 * dtype_of(type).itemsize
    extra = type.rank - type.encoding.rank  # buffers one after the other, of any number
    shape = type.shape[extra:]
    numbers = to_linear_layout(shape, type.encoding, bits).table().reshape(-1)
    offsets = np.zeros(numbers.size, np.int64)
    offsets[numbers] = np.arange(numbers.size)
    starts = np.arange(type.size // numbers.size) * numbers.size
    return (starts[:, None] + offsets).reshape(type.shape)


def find_in_threads(held: Array, wanted: Array) -> Array:
    """For every wanted number, the register of the same thread that has it, or -1.

    >>> find_in_threads(np.array([[[5, 3]]]), np.array([[[3, 5, 4]]])).tolist()
    [[[1, 0, -1]]]
    """
    count = held.shape[-1]
    threads = np.arange(held.shape[0] * held.shape[1]).reshape(*held.shape[:2], 1)
    span = int(max(held.max(), wanted.max())) + 1
    keys = (held + threads * span).reshape(-1)
    order = np.argsort(keys, kind="stable")
    targets = wanted + threads * span
    places = np.searchsorted(keys, targets.reshape(-1), sorter=order)
    places = order[np.minimum(places, len(order) - 1)].reshape(wanted.shape)
    return np.where(keys[places] == targets, places % count, -1)
