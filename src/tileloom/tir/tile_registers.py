"""The meaning of calls on tile registers (`expr.tile_ops`), for the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import VerifyError
from ..expr import tile_ops as ops

Array = np.ndarray[Any, Any]
#: An array, which of its elements are written if that is known, and the indices of one.
Place = tuple[Array, Array | None, tuple[int, ...]]


class TileRegisters:
    """Eight tiles, each of the size that the last `configure` gave it; none before.

    >>> tiles, memory = TileRegisters(), np.arange(8, dtype=np.int32)
    >>> tiles.configure(2, 8)
    >>> tiles.load(0, (memory, None, (4,)), 8); tiles.store(0, (memory, None, (0,)), 8)
    >>> memory.tolist()
    [4, 5, 6, 7, 4, 5, 6, 7]
    """

    def __init__(self) -> None:
        self.tiles: list[Array] = []

    def configure(self, *sizes: int) -> None:
        """All tiles anew, of zeros: (rows, bytes) for each."""
        pairs = zip(sizes[::2], sizes[1::2], strict=True)
        self.tiles = [np.zeros((rows, width), np.uint8) for rows, width in pairs]

    def release(self) -> None:
        """There are no tiles."""
        self.tiles = []

    def tile(self, number: int) -> Array:
        """A tile as bytes."""
        if not 0 <= number < len(self.tiles):
            raise VerifyError(f"tile {number} has no size: amx_configure comes first")
        return self.tiles[number]

    def zero(self, number: int) -> None:
        """Zeros in a tile."""
        self.tile(number)[:] = 0

    def load(self, number: int, place: Place, stride: int) -> None:
        """Rows of a tile from memory, from an element on, `stride` bytes apart."""
        tile, (data, written, size) = self.tile(number), _bytes_of(place)
        for row, start in enumerate(_starts(tile, place, stride)):
            part = slice(start, start + tile.shape[1])
            if written is not None and not written[_elements(part, size)].all():
                raise VerifyError("a tile is loaded from memory before it is written")
            tile[row] = data[part]

    def store(self, number: int, place: Place, stride: int) -> None:
        """Rows of a tile to memory."""
        tile, (data, written, size) = self.tile(number), _bytes_of(place)
        for row, start in enumerate(_starts(tile, place, stride)):
            part = slice(start, start + tile.shape[1])
            data[part] = tile[row]
            if written is not None:
                written[_elements(part, size)] = True

    def dot(self, op: str, c: int, a: int, b: int) -> None:
        """Tile c plus the products of the words of a and b."""
        left, right, total = self.tile(a), self.tile(b), self.tile(c)
        read = _FACTORS[op]
        # [row, word, part] times [word, column, part]
        x = read[0](left).reshape(left.shape[0], left.shape[1] // 4, -1)
        y = read[1](right).reshape(right.shape[0], right.shape[1] // 4, -1)
        kind = np.float32 if op == ops.DOT_BF16 else np.int32
        sums = np.einsum("rwp,wcp->rc", x, y[: x.shape[1]]) + total.view(kind)
        total[:] = np.ascontiguousarray(sums.astype(kind)).view(np.uint8)


def _whole(array: Array) -> Array:
    """The array in one piece that an array is a part of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _bytes_of(place: Place) -> tuple[Array, Array | None, int]:
    """All bytes of the memory of a place, which elements are written, and the size of one."""
    memory, written, _ = place
    data = _whole(memory).reshape(-1).view(np.uint8)
    return data, None if written is None else _whole(written).reshape(-1), memory.itemsize


def _starts(tile: Array, place: Place, stride: int) -> list[int]:
    """Where in memory each row begins, in bytes."""
    memory, _, indices = place
    whole = _whole(memory)
    first = memory.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    first += sum(int(i) * n for i, n in zip(indices, memory.strides, strict=True))
    starts = [first + row * stride for row in range(tile.shape[0])]
    if any(start < 0 or start + tile.shape[1] > whole.nbytes for start in starts):
        raise VerifyError(f"a tile reaches out of memory of {whole.nbytes} bytes")
    return starts


def _elements(part: slice, size: int) -> slice:
    """The elements that bytes are of."""
    return slice(part.start // size, -(-part.stop // size))


def _bfloat(tile: Array) -> Array:
    bits = tile.view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64)


def _integer(kind: str) -> Callable[[Array], Array]:
    return lambda tile: tile.view(kind).astype(np.int64)


_FACTORS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    ops.DOT_BF16: (_bfloat, _bfloat),
    **{
        op: (_integer("i1" if left else "u1"), _integer("i1" if right else "u1"))
        for (left, right), op in ops.DOT_INT8.items()
    },
}
