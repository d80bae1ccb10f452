"""Binary searches: the position of a coordinate, and the row of a position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..expr import EQ, LE, LT, Expr, binary, const
from ..expr.intrin import if_then_else
from ..tir import (
    Axis,
    Buffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    Stmt,
    While,
    make_buffer,
    seq,
)
from .index_arrays import IndexArrays, Path, path_of_count

ABSENT = -1
Write = Callable[[Expr], Stmt]


class Scratch:
    """The bounds of a search, in memory of the block that searches."""

    def __init__(self, idtype: str) -> None:
        self.low = make_buffer((1,), idtype, "low", scope="local")
        self.high = make_buffer((1,), idtype, "high", scope="local")
        self.zero = const(0, "int32")

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Its memory."""
        return (self.low, self.high)

    def at(self, buffer: Buffer) -> Expr:
        """The value of a bound."""
        return BufferLoad(buffer, (self.zero,))

    def set(self, buffer: Buffer, value: Expr) -> Stmt:
        """Store a bound."""
        return BufferStore(buffer, value.astype(buffer.dtype), (self.zero,))

    def first(self, end: Expr, is_before: Callable[[Expr], Expr]) -> Stmt:
        """Let `low` be the first place in [0, end) that is not before what is looked for."""
        low, high = self.at(self.low), self.at(self.high)
        middle = low + (high - low) // 2
        step = IfThenElse(
            is_before(middle), self.set(self.low, middle + 1), self.set(self.high, middle)
        )
        return seq(
            self.set(self.low, const(0, self.low.dtype)),
            self.set(self.high, end),
            While(low < high, step),
        )


def find_coordinate(
    arrays: IndexArrays, axis: Axis, above: Path, wanted: Expr, write: Write
) -> tuple[Stmt, tuple[Buffer, ...]]:
    """Write the position of a coordinate below a position of the parent, `ABSENT` if there is none.

    Returns:
        The statement, and the memory that it works in.
    """
    scratch = Scratch(axis.idtype)
    end = arrays.extent(axis, above).astype(axis.idtype)
    coordinates = arrays.coordinates(axis)
    low = scratch.at(scratch.low)

    def is_before(place: Expr) -> Expr:
        return binary(LT, BufferLoad(coordinates, (*above, place)), wanted)

    is_there = if_then_else(
        low < end, binary(EQ, BufferLoad(coordinates, (*above, low)), wanted), const(False)
    )
    found = if_then_else(is_there, low, const(ABSENT, axis.idtype))
    return seq(scratch.first(end, is_before), write(found)), scratch.buffers


def find_row(
    arrays: IndexArrays, axis: Axis, count: Expr, write: Write
) -> tuple[Stmt, tuple[Buffer, ...]]:
    """Write the position of the parent that the position `count` of a variable axis is below.

    It is the last one that starts at or before it; so empty ones before the next are skipped.
    """
    scratch = Scratch(axis.idtype)
    parent = axis.parent or axis
    starts = arrays.starts(axis)

    def is_before(place: Expr) -> Expr:
        return binary(LE, BufferLoad(starts, path_of_count(parent, place)), count)

    end = parent.nnz.astype(axis.idtype) + const(1, axis.idtype)
    low = scratch.at(scratch.low)
    return seq(scratch.first(end, is_before), write(low - 1)), scratch.buffers


def store_at(buffer: Buffer, indices: Sequence[Expr]) -> Write:
    """Store what is found in an element."""
    return lambda value: BufferStore(buffer, value.astype(buffer.dtype), tuple(indices))
