"""Memory that knows who touched what since which barrier."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import DType
from ..tir import Buffer, Stmt
from .crew import Array, Crew
from .defects import KernelDefect


class Memory:
    """What one pointer points to, once for each row: each block, each thread, or the device.

    Args:
        name: of the buffer.
        data: bytes, [rows, size].
        unit: bytes of the smallest element that is accessed.
        row_of: the row that each thread sees; None for one row that all see.
        starts_empty: whether reading an element before it was written is a defect.
        watched: whether threads may race for it.
    """

    def __init__(
        self,
        name: str,
        data: Array,
        unit: int,
        row_of: Array | None,
        *,
        starts_empty: bool,
        watched: bool,
    ) -> None:
        self.name = name
        self.data = data
        self.unit = max(1, unit)
        self.row_of = row_of
        self.units = data.shape[1] // self.unit
        cells = data.shape[0] * self.units
        self.written = np.zeros(cells, bool) if starts_empty else None
        self.arriving: Array | None = None  # by cell: the thread that copies into it, 0 for none
        self.group: Array | None = None
        if watched:
            self.writer, self.reader = np.zeros((2, cells), np.int64)
            self.write_at, self.read_at = np.zeros((2, 2, cells), np.int32)
            self.readers = np.zeros(cells, np.int8)  # 0 one, else how far apart they are
        self.watched = watched

    # ------------------------------------------------------------------ places

    def cells(self, crew: Crew, lanes: Array, index: Array, buffer: Buffer, stmt: Stmt) -> Array:
        """The cells of elements, [lanes, cells of each]; refuses what is outside.

        Args:
            index: of elements, [lanes] or [lanes, elements of a vector].
        """
        size = buffer.dtype.element.numpy.itemsize * buffer.dtype.lanes
        each = size // self.unit
        wide = index.reshape(len(lanes), -1)
        limit = self.data.shape[1] // size
        wrong = (wide < 0) | (wide >= limit)
        if wrong.any():
            rows, columns = np.nonzero(wrong)
            raise KernelDefect(
                "out of bounds",
                f"{buffer.name}[{wide[rows[0], columns[0]]}] is outside of {limit} elements",
                stmt, crew.places(lanes[np.unique(rows)]), stmt.span,
            )  # fmt: skip
        if wide.shape[1] > 1 and wide.shape[1] & (wide.shape[1] - 1) == 0:
            self._check_alignment(crew, lanes, wide, buffer, stmt)
        row = 0 if self.row_of is None else self.row_of[lanes][:, None]
        cells = row * self.units + wide * each
        if each > 1:
            cells = (cells[:, :, None] + np.arange(each)).reshape(len(lanes), -1)
        return np.asarray(cells)

    @staticmethod
    def _check_alignment(crew: Crew, lanes: Array, wide: Array, buffer: Buffer, stmt: Stmt) -> None:
        """A vector of neighbours must begin at a multiple of its length."""
        count = wide.shape[1]
        steps = (np.diff(wide, axis=1) == 1).all(axis=1)
        wrong = steps & (wide[:, 0] % count != 0)
        if wrong.any():
            first = np.nonzero(wrong)[0]
            raise KernelDefect(
                "misaligned",
                f"{count} elements from {buffer.name}[{wide[first[0], 0]}] on are no whole vector",
                stmt, crew.places(lanes[first]), stmt.span,
            )  # fmt: skip

    # ------------------------------------------------------------------ access

    def load(self, crew: Crew, lanes: Array, index: Array, buffer: Buffer, stmt: Stmt) -> Array:
        """Elements, in the shape of `index`."""
        cells = self.cells(crew, lanes, index, buffer, stmt)
        if self.arriving is not None:
            self._check_arrived(crew, lanes, cells, buffer, stmt)
        if self.written is not None and not self.written[cells].all():
            late = np.nonzero(~self.written[cells].all(axis=1))[0]
            raise KernelDefect(
                "uninitialised",
                f"{buffer.name}[{_first(index, late)}] is read, and nobody has written it",
                stmt, crew.places(lanes[late]), stmt.span,
            )  # fmt: skip
        if self.watched:
            self._note_read(crew, lanes, cells, buffer, index, stmt)
        return np.asarray(self._view(buffer.dtype)[self._rows(lanes, index), index])

    def store(
        self, crew: Crew, lanes: Array, index: Array, value: Any, buffer: Buffer, stmt: Stmt
    ) -> None:
        """Write elements."""
        cells = self.cells(crew, lanes, index, buffer, stmt)
        if self.arriving is not None:
            self._check_arrived(crew, lanes, cells, buffer, stmt)
        if self.watched:
            self._note_write(crew, lanes, cells, buffer, index, stmt)
        if self.written is not None:
            self.written[cells] = True
        self._view(buffer.dtype)[self._rows(lanes, index), index] = value

    def clear(self, lanes: Array) -> None:
        """Forget what these threads' own rows hold."""
        if self.written is not None and self.row_of is not None:
            self.written.reshape(-1, self.units)[self.row_of[lanes]] = False

    def _rows(self, lanes: Array, index: Array) -> Any:
        if self.row_of is None:
            return 0
        rows = self.row_of[lanes]
        return rows[:, None] if index.ndim == 2 else rows

    def _view(self, kind: DType) -> Array:
        return self.data.view(kind.element.numpy)

    # ------------------------------------------------------------------ races

    def _note_read(
        self, crew: Crew, lanes: Array, cells: Array, buffer: Buffer, index: Array, stmt: Stmt
    ) -> None:
        who, flat = _flat(lanes, cells)
        me = crew.number[who]
        self._check(crew, who, flat, self.writer, self.write_at, None, ("reads", "writes"), buffer,
                    index, cells, stmt)  # fmt: skip
        before = self.reader[flat]
        stale = (before == 0) | crew.ordered(who, before, *self.read_at[:, flat])
        stale &= self.readers[flat] < 2
        many = np.where(stale | (before == me), 0, crew.relation(me, np.maximum(before, 1)))
        many = np.where(stale, 0, np.maximum(many, self.readers[flat]))
        self.reader[flat] = me
        self.read_at[0, flat] = crew.passed[crew.block[who]]
        self.read_at[1, flat] = crew.warp_passed[crew.warp[who]]
        self.readers[flat] = many.astype(np.int8)
        last = self.reader[flat]
        shared = last != me
        if shared.any():
            apart = crew.relation(me[shared], last[shared])
            np.maximum.at(self.readers, flat[shared], apart)

    def _note_write(
        self, crew: Crew, lanes: Array, cells: Array, buffer: Buffer, index: Array, stmt: Stmt
    ) -> None:
        who, flat = _flat(lanes, cells)
        me = crew.number[who]
        self._check(crew, who, flat, self.writer, self.write_at, None, ("writes", "writes"), buffer,
                    index, cells, stmt)  # fmt: skip
        self._check(crew, who, flat, self.reader, self.read_at, self.readers, ("writes", "reads"),
                    buffer, index, cells, stmt)  # fmt: skip
        self.writer[flat] = me
        self.write_at[0, flat] = crew.passed[crew.block[who]]
        self.write_at[1, flat] = crew.warp_passed[crew.warp[who]]
        twice = self.writer[flat] != me
        if twice.any():
            at = int(np.nonzero(twice)[0][0])
            self._race(crew, who[at], self.writer[flat[at]], ("writes", "writes"), buffer, index,
                       cells, flat[at], stmt)  # fmt: skip

    def _check(
        self,
        crew: Crew,
        who: Array,
        flat: Array,
        others: Array,
        then: Array,
        many: Array | None,
        words: tuple[str, str],
        buffer: Buffer,
        index: Array,
        cells: Array,
        stmt: Stmt,
    ) -> None:
        before = others[flat]
        apart = before != crew.number[who]
        if many is not None:
            apart |= many[flat] > 0
        suspect = (before != 0) & apart
        if not suspect.any():
            return
        k = np.nonzero(suspect)[0]
        fine = crew.ordered(who[k], before[k], *then[:, flat[k]])
        if many is not None:
            by_block = then[0, flat[k]] < crew.passed[crew.block[who[k]]]
            fine &= np.where(many[flat[k]] == 2, by_block, many[flat[k]] < 2)
        if not fine.all():
            at = k[int(np.nonzero(~fine)[0][0])]
            self._race(crew, who[at], before[at], words, buffer, index, cells, flat[at], stmt)

    def _race(
        self,
        crew: Crew,
        lane: int,
        other: int,
        words: tuple[str, str],
        buffer: Buffer,
        index: Array,
        cells: Array,
        cell: int,
        stmt: Stmt,
    ) -> None:
        element = int(cell) % self.units * self.unit // buffer.dtype.element.numpy.itemsize
        raise KernelDefect(
            "race",
            f"one thread {words[0]} {buffer.name}[{element}] and another {words[1]} it, with no "
            "barrier between",
            stmt, [*crew.places(np.asarray([lane])), crew.place_of(other)], stmt.span,
            hint="put a barrier between the accesses, or let threads keep to their own elements",
        )  # fmt: skip

    # ------------------------------------------------------------------ asynchronous copies

    def expect(self, crew: Crew, lanes: Array, cells: Array) -> None:
        """Copies into these cells have begun; they belong to the threads' open groups."""
        if self.arriving is None:
            self.arriving = np.zeros(len(self.data) * self.units, np.int64)
            self.group = np.zeros(len(self.data) * self.units, np.int32)
        who, flat = _flat(lanes, cells)
        self.arriving[flat] = who + 1
        self.group[flat] = crew.committed[who]  # type: ignore[index]
        if self.written is not None:
            self.written[flat] = True

    def arrive(self, crew: Crew, lanes: Array, finished: Array) -> None:
        """Copies of these threads' groups below `finished` are there."""
        if self.arriving is None or self.group is None:
            return
        flat = np.nonzero(self.arriving)[0]
        who = self.arriving[flat] - 1
        limit = np.full(crew.size, -1)
        limit[lanes] = finished
        there = self.group[flat] < limit[who]
        flat, who = flat[there], who[there]
        self.arriving[flat] = 0
        if self.watched:
            self.writer[flat] = crew.number[who]
            self.write_at[0, flat] = crew.passed[crew.block[who]]
            self.write_at[1, flat] = crew.warp_passed[crew.warp[who]]

    def _check_arrived(
        self, crew: Crew, lanes: Array, cells: Array, buffer: Buffer, stmt: Stmt
    ) -> None:
        late = np.nonzero((self.arriving[cells] != 0).any(axis=1))[0]  # type: ignore[index]
        if len(late):
            raise KernelDefect(
                "missing wait",
                f"{buffer.name} is accessed where an asynchronous copy has not been waited for",
                stmt, crew.places(lanes[late]), stmt.span,
                hint="wait for the group of the copy, and pass a barrier",
            )  # fmt: skip


def _flat(lanes: Array, cells: Array) -> tuple[Array, Array]:
    """Every cell by itself, with the thread that touches it."""
    return np.repeat(lanes, cells.shape[1]), cells.reshape(-1)


def _first(index: Array, rows: Array) -> int:
    return int(index.reshape(len(index), -1)[rows[0], 0])
