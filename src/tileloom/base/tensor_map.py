"""Maps of tensors: what a copy by boxes needs to know of an array (`CUtensorMap`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError

_MOST_AXES, _MOST_IN_BOX, _UNIT = 5, 256, 16
_SWIZZLES = (0, 32, 64, 128)


@dataclass(frozen=True, eq=False)
class TensorMap:
    """An array, and the box of it that one copy moves.

    It is an argument for a kernel's parameter `T.handle("uint8", "grid_constant")`. The emulator
    takes it as it is; for a GPU the runtime encodes it by `cuTensorMapEncodeTiled`, with what the
    properties say, and passes the 128 bytes by value.

    Args:
        array: with `shape`, `strides` (in bytes) and `dtype`; elements along the last axis adjoin.
        box: how many elements a copy moves along each axis.
        swizzle: 0, or the bytes (32, 64, 128) within which rows in shared memory are permuted.

    Raises:
        ArgumentError: the hardware has no such map.

    >>> import numpy as np
    >>> m = TensorMap(np.zeros((64, 128), "float16"), (8, 64), swizzle=128)
    >>> m.sizes, m.steps, m.extents, m.bytes
    ((128, 64), (256,), (64, 8), 1024)
    """

    array: Any
    box: tuple[int, ...]
    swizzle: int = 0

    def __post_init__(self) -> None:
        shape, size = tuple(self.array.shape), self.array.dtype.itemsize
        if not 1 <= len(shape) <= _MOST_AXES or len(self.box) != len(shape):
            raise ArgumentError(
                f"a map has 1 to {_MOST_AXES} axes and a box as many: {shape} and {self.box}"
            )
        if 0 in shape or not all(1 <= n <= _MOST_IN_BOX for n in self.box):
            raise ArgumentError(f"a box has 1 to {_MOST_IN_BOX} elements along an axis: {self.box}")
        inner = self.box[-1] * size
        if self.array.strides[-1] != size and shape[-1] > 1:
            raise ArgumentError("the elements along the last axis of a map adjoin")
        if inner % _UNIT or any(step % _UNIT for step in self.steps):
            raise ArgumentError(f"rows of a map, and of its box, are multiples of {_UNIT} bytes")
        if self.swizzle not in _SWIZZLES or (self.swizzle and inner > self.swizzle):
            raise ArgumentError(
                f"a swizzle has 32, 64 or 128 bytes, and rows of the box no more: {self.swizzle} "
                f"for rows of {inner}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """`globalDim`: the array's extents, innermost first."""
        return tuple(int(n) for n in reversed(self.array.shape))

    @property
    def steps(self) -> tuple[int, ...]:
        """`globalStrides`: bytes from one row to the next, and so on outward."""
        return tuple(int(n) for n in reversed(self.array.strides[:-1]))

    @property
    def extents(self) -> tuple[int, ...]:
        """`boxDim`: the box's extents, innermost first."""
        return tuple(reversed(self.box))

    @property
    def bytes(self) -> int:
        """What a copy moves, which its barrier must expect."""
        total = int(self.array.dtype.itemsize)
        for extent in self.box:
            total *= extent
        return total


def swizzled(address: Any, width: int) -> Any:
    """Where what belongs to an address of shared memory is, rows being permuted.

    Bits 4 to 6 change by bits 7 to 9, for 128 bytes; fewer of them for less.

    >>> swizzled(0x90, 128), swizzled(0x90, 32), swizzled(0x90, 0)
    (128, 128, 144)
    """
    if width == 0:
        return address
    return address ^ ((address >> 3) & (width // 16 - 1) << 4)


@dataclass(frozen=True)
class TileLayout:
    """How a factor of `wgmma` lies in shared memory: the canonical layouts of the PTX ISA.

    Attributes:
        size: bytes of an element.
        leading, stride: bytes, as in a descriptor.
        swizzle: 0, 32, 64 or 128 bytes.
        across: whether steps of k lie one after another, rows adjoining; else the other way round.
    """

    size: int
    leading: int
    stride: int
    swizzle: int = 0
    across: bool = False

    def offset(self, row: Any, depth: Any) -> Any:
        """The byte at which an element is, counted from the tile's head, before swizzling.

        >>> TileLayout(2, leading=1024, stride=128).offset(9, 8)   # second piece, second eight rows
        1168
        >>> TileLayout(2, 16, 1024, swizzle=128).offset(9, 8)
        1168
        """
        pitch = self.swizzle or _UNIT
        line, other = (row, depth) if self.across else (depth, row)  # what adjoins, what does not
        byte = line * self.size
        near = byte % pitch + other % 8 * pitch
        if self.across and self.swizzle == 0:
            return near + byte // pitch * self.stride + other // 8 * self.leading
        return near + byte // pitch * self.leading + other // 8 * self.stride
