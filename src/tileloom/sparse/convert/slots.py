"""Which element of the input each slot of a format holds, and how values follow it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tileloom.base.errors import DTypeError, ShapeError, UserError
from tileloom.base.record import Record

from .chunks import even_chunks, for_chunks
from .index_arrays import Array, fitting


class Slots(Record):
    """The slots of a format. No element of the input is in two of them.

    Attributes:
        source: for each slot the position of its element in the input's array of values, -1 for
            padding.
        source_count: how many elements the input has.

    >>> slots = Slots(np.array([[2, -1], [0, 1]]), 3)
    >>> data = np.array([1.0, 2.0, 3.0])
    >>> slots.values(data)
    array([[3., 0.], [1., 2.]])
    >>> slots.scatter(slots.values(data))
    array([1., 2., 3.])
    """

    source: Array
    source_count: int

    @property
    def mask(self) -> Array:
        """For each slot whether it holds an element."""
        return self.source >= 0

    @property
    def padding(self) -> float:
        """The part of the slots that holds no element: between 0 and 1."""
        slots = self.source.size
        return 1.0 - np.count_nonzero(self.mask) / slots if slots else 0.0

    def values(self, data: Array, fill: Any = 0) -> Array:
        """The values of each slot.

        Args:
            data: the input's values, or anything else of its elements: shape
                `(source_count, *trailing)`, any type.
            fill: what padding holds.

        Returns:
            An array of shape `(*source.shape, *trailing)` and of the type of `data`.
        """
        data = np.ascontiguousarray(data)
        if data.ndim == 0 or len(data) != self.source_count:
            raise ShapeError(
                f"data has shape {data.shape}; the input has {self.source_count} elements"
            )
        filling = _filling(fill, data.dtype)
        trailing = data.shape[1:]
        out = np.empty(self.source.shape + trailing, data.dtype)
        if not self.source_count:
            out[...] = filling
            return out
        source, slots = self.source.reshape(-1), out.reshape(self.source.size, *trailing)

        def work(begin: int, end: int) -> None:
            chunk, part = source[begin:end], slots[begin:end]
            np.take(data, chunk, axis=0, out=part, mode="clip")
            empty = chunk < 0
            if empty.any():
                part[empty] = filling

        for_chunks(work, even_chunks(len(source), prod(trailing)))
        return out

    def scatter(self, values: Array, out: Array | None = None) -> Array:
        """Values of slots back in the order of the input: the inverse of `values`.

        Args:
            values: shape `(*source.shape, *trailing)`; those of padding are left out.
            out: what to write to, of shape `(source_count, *trailing)`; elements that are in no
                slot stay as they are. By default an array of zeros.
        """
        values = np.asarray(values)
        held = self.source.ndim
        trailing = values.shape[held:]
        if values.shape[:held] != self.source.shape:
            raise ShapeError(f"values have shape {values.shape}; slots have {self.source.shape}")
        if out is None:
            out = np.zeros((self.source_count, *trailing), values.dtype)
        if out.shape != (self.source_count, *trailing):
            wanted = (self.source_count, *trailing)
            raise ShapeError(f"out has shape {out.shape}; {wanted} is needed")
        if not np.can_cast(values.dtype, out.dtype, "same_kind"):
            raise DTypeError(f"values of type {values.dtype} do not fit into {out.dtype}")
        source, slots = self.source.reshape(-1), values.reshape(self.source.size, *trailing)

        def work(begin: int, end: int) -> None:
            chunk, part = source[begin:end], slots[begin:end]
            full = chunk >= 0
            if full.all():
                out[chunk] = part
            else:
                out[chunk[full]] = part[full]

        for_chunks(work, even_chunks(len(source), prod(trailing)))
        return out


def _filling(fill: Any, dtype: np.dtype[Any]) -> Array:
    """What padding holds, as a number of the data's type that is the same number."""
    try:
        with np.errstate(invalid="ignore"):
            filling = np.asarray(fill).astype(dtype)
    except (TypeError, ValueError, OverflowError):
        filling = None
    if filling is None or filling.ndim or (dtype.kind in "biu" and filling != fill):
        raise DTypeError(f"fill {fill!r} is no value of type {dtype}")
    return filling


def fill_slots(
    shape: tuple[int, ...],
    count: int,
    bounds: Array,
    slots_between: Callable[[int, int], tuple[Array, Array]],
    dtype: np.dtype[Any],
    *,
    is_exclusive: bool,
) -> tuple[Array, tuple[int, int] | None]:
    """The source of each slot of a format, from the slot of each element.

    Args:
        shape: of the slots.
        count: how many elements there are.
        bounds: the chunks in which slots are found.
        slots_between: for a chunk the numbers of its elements, and of the slot of each in C order.
        dtype: the type of indices that the format has.
        is_exclusive: elements of different chunks never have one slot.

    Returns:
        The sources, and two elements that have one slot if there are such.
    """
    check_countable(shape)
    source = np.full(prod(shape), -1, fitting(dtype, count))

    clashes: list[tuple[int, int]] = []

    def fill(begin: int, end: int) -> None:
        elements, slots = slots_between(begin, end)
        source[slots] = elements
        if is_exclusive:
            compare(elements, slots)

    def compare(elements: Array, slots: Array) -> None:
        lost = source[slots] != elements
        if lost.any():
            place = int(np.argmax(lost))
            pair = int(elements[place]), int(source[slots[place]])
            clashes.append((min(pair), max(pair)))

    for_chunks(fill, bounds)
    if not is_exclusive:
        for_chunks(lambda begin, end: compare(*slots_between(begin, end)), bounds)
    return source.reshape(shape), min(clashes, default=None)


def check_countable(shape: tuple[int, ...]) -> None:
    """Refuse a format with more slots than an array can have."""
    if prod(extent for extent in shape if extent) > np.iinfo(np.int64).max >> 3:
        raise UserError(f"the format would have {shape} slots, more than can be counted")
