"""Global memory of a running program: buffers, each in a range of addresses of its own.

An address has the number of the buffer above bit 40 and the offset in bytes below. Ranges are far
apart, so that an access outside of its buffer is never inside of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, OutOfBoundsError
from .values import Array, poison, unsigned

RANGE_BITS = 40
RANGE = 1 << RANGE_BITS


@dataclass(frozen=True, eq=False)
class GlobalBuffer:
    """Some bytes, and what messages call them."""

    name: str
    data: np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of an access that goes to one buffer."""

    where: Array  # which elements of the access
    elements: Array  # the buffer, by elements
    indices: Array


class GlobalMemory:
    """All buffers that a program may access."""

    def __init__(self) -> None:
        self.buffers: list[GlobalBuffer] = []

    def add(self, array: np.ndarray[Any, Any], name: str) -> int:
        """Makes an array a buffer, which stores change in place.

        Returns:
            The address of the first element.

        Raises:
            ArgumentError: if its elements are not in one piece, row after row.
        """
        if not array.flags.c_contiguous:
            raise ArgumentError(f"{name} is not contiguous", hint="pass a contiguous copy")
        self.buffers.append(GlobalBuffer(name, array.reshape(-1).view(np.uint8)))
        return len(self.buffers) << RANGE_BITS

    def allocate(self, size: int, name: str) -> int:
        """A buffer of some undefined bytes."""
        return self.add(poison(np.dtype(np.int8), (size,)), name)

    def load(self, addresses: Array, dtype: np.dtype[Any], mask: Array | None = None) -> Array:
        """The elements at addresses; where the mask does not hold, poison."""
        loaded = poison(dtype, np.shape(addresses)).reshape(-1)
        for part in self._parts(addresses, dtype, mask):
            loaded[part.where] = part.elements[part.indices]
        return loaded.reshape(np.shape(addresses))

    def store(self, addresses: Array, values: Array, mask: Array | None = None) -> None:
        """Changes the elements at addresses, where the mask holds."""
        flat = np.broadcast_to(values, np.shape(addresses)).reshape(-1)
        for part in self._parts(addresses, values.dtype, mask):
            part.elements[part.indices] = flat[part.where]

    def exchange(
        self,
        addresses: Array,
        operands: tuple[Array, ...],
        update: Callable[..., Array],
        mask: Array | None = None,
    ) -> Array:
        """Changes elements one after another by `update(old, *operands)`; gives the old ones."""
        dtype = operands[0].dtype
        old = poison(dtype, np.shape(addresses)).reshape(-1)
        flat = [operand.reshape(-1) for operand in operands]
        for part in self._parts(addresses, dtype, mask):
            given = [operand[part.where] for operand in flat]
            if len(np.unique(part.indices)) == len(part.indices):
                old[part.where] = part.elements[part.indices]
                part.elements[part.indices] = update(part.elements[part.indices], *given)
                continue
            for place, index, *values in zip(part.where, part.indices, *given):
                old[place] = part.elements[index]
                part.elements[index] = update(old[place], *values)
        return old.reshape(np.shape(addresses))

    def _parts(self, addresses: Array, dtype: np.dtype[Any], mask: Array | None) -> Iterator[_Part]:
        flat = np.asarray(addresses).reshape(-1)
        if mask is None:
            where = np.arange(flat.size)
        else:
            where = np.flatnonzero(np.broadcast_to(mask, np.shape(addresses)))
        active = flat[where]
        # Offsets may be negative: the nearest range counts.
        numbers = (active + RANGE // 2) >> RANGE_BITS
        for number in np.unique(numbers):
            inside = numbers == number
            offsets = active[inside] - (int(number) << RANGE_BITS)
            elements = self._elements(int(number), offsets, dtype)
            yield _Part(where[inside], elements, offsets // dtype.itemsize)

    def _elements(self, number: int, offsets: Array, dtype: np.dtype[Any]) -> Array:
        """A buffer by elements, once all offsets are seen to be in it, and aligned."""
        if not 1 <= number <= len(self.buffers):
            raise OutOfBoundsError(f"address {int(offsets[0]):#x} is in no buffer")
        buffer = self.buffers[number - 1]
        size = dtype.itemsize
        outside = (offsets < 0) | (offsets > len(buffer.data) - size)
        if outside.any():
            first = int(offsets[outside][0])
            raise OutOfBoundsError(
                f"{int(outside.sum())} accesses are outside of {buffer.name}, which has "
                f"{len(buffer.data)} bytes: the first is at byte {first}, element {first // size}"
            )
        if (offsets % size).any():
            raise OutOfBoundsError(
                f"byte {int(offsets[offsets % size != 0][0])} of {buffer.name} is no place for an "
                f"element of {size} bytes"
            )
        whole = len(buffer.data) // size * size
        return buffer.data[:whole].view(dtype)


def _of_unsigned(function: Any) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(unsigned(a), unsigned(b)).view(a.dtype)


ATOMIC_UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "fadd": lambda a, b: (a + b).astype(a.dtype),
    "max": np.maximum,
    "min": np.minimum,
    "umax": _of_unsigned(np.maximum),
    "umin": _of_unsigned(np.minimum),
    "exch": lambda _old, new: new,
}


def swap_if_equal(old: Array, expected: Array, new: Array) -> Array:
    """What a compare-and-swap leaves."""
    return np.where(np.asarray(old == expected), new, old)
