"""Memory that knows who touched what since which barrier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from ..base import DType
from ..expr import Expr, Ramp, modular_set
from ..tir import Buffer, Stmt
from .access_history import AccessHistory, access_history
from .defects import KernelDefect
from .fences import word_of
from .thread_batch import Array, ThreadBatch


@dataclass(frozen=True, eq=False)
class ThreadAccess:
    """What some threads do with a buffer at once.

    Attributes:
        lanes: the threads, by position.
        index: of elements, [lanes] or [lanes, elements of a vector].
        stmt: the statement that does it.
        written: the index as the program has it. Then code takes neighbours together only as far
            as they provably begin at multiples; without it, all of them.
    """

    batch: ThreadBatch
    lanes: Array
    index: Array
    buffer: Buffer
    stmt: Stmt
    written: Expr | None = None

    @property
    def vectors(self) -> Array:
        """The indices, [lanes, elements]."""
        count = self.index.shape[1] if self.index.ndim > 1 else 1
        return self.index.reshape(len(self.lanes), -1 if len(self.lanes) else count)

    def defect(self, kind: str, what: str, rows: Array, hint: str | None = None) -> KernelDefect:
        """A defect of the threads in these rows of the access."""
        places = self.batch.places(np.unique(self.lanes[rows]))
        return KernelDefect(kind, what, self.stmt, places, self.stmt.span, hint)


class Allocation:
    """What one pointer points to, once for each row: each block, each thread, or the device.

    Args:
        name: of the buffer.
        data: bytes, [rows, size].
        unit: bytes of the smallest element that is accessed.
        row_of: the row that each thread sees; None for one row that all see.
        starts_empty: whether reading an element before it was written is a defect.
        watched: whether threads may race for it.
        warps: of a block, if each runs on its own; 0 for all in lockstep.
        timed: whether fences may order what blocks do to it.
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
        warps: int = 0,
        timed: bool = False,
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
        self.unfenced: Array | None = None  # by cell: the thread that wrote it, unseen by engines
        self.warps = warps
        self.timed = timed
        self.writes = access_history(cells, warps, timed) if watched else None
        self.reads = access_history(cells, warps, timed) if watched else None
        self.lent: Array | None = None  # by cell: how many copies under way read it
        self.loans: list[tuple[Array, Array, Array]] = []  # cells, threads, groups of copies
        self.changes: AccessHistory | None = None  # atomic calls; made when there is one

    # ------------------------------------------------------------------ places

    def cells(self, access: ThreadAccess) -> Array:
        """The cells of elements, [lanes, cells of each]; refuses what is outside."""
        kind = access.buffer.dtype
        size = kind.element.numpy.itemsize * kind.lanes
        each, limit = size // self.unit, self.data.shape[1] // size
        wide = access.vectors
        wrong = (wide < 0) | (wide >= limit)
        if wrong.any():
            rows, columns = np.nonzero(wrong)
            element = f"{access.buffer.name}[{wide[rows[0], columns[0]]}]"
            what = f"{element} is outside of {limit} elements"
            raise access.defect("out of bounds", what, np.unique(rows))
        count = wide.shape[1]
        if count > 1 and count & (count - 1) == 0:
            self._check_alignment(access)
        row = 0 if self.row_of is None else self.row_of[access.lanes][:, None]
        if each == 0:  # vectors of elements that share cells
            wide = wide[:, :: self.unit // size] * size // self.unit
            return np.asarray(row * self.units + wide)
        cells = row * self.units + wide * each
        if each > 1:
            cells = (cells[:, :, None] + np.arange(each)).reshape(len(wide), -1)
        return np.asarray(cells)

    @staticmethod
    def _check_alignment(access: ThreadAccess) -> None:
        """What is accessed together must begin at a multiple of its length."""
        wide = access.vectors
        count = wide.shape[1]
        neighbours = (np.diff(wide, axis=1) == 1).all(axis=1)
        wrong = neighbours & (wide[:, 0] % count != 0)
        if wrong.any() and access.written is not None:
            start = access.written.base if isinstance(access.written, Ramp) else access.written
            wrong = neighbours & (wide[:, 0] % gcd(*modular_set(start), count) != 0)
        if wrong.any():
            rows = np.nonzero(wrong)[0]
            first = f"{access.buffer.name}[{wide[rows[0], 0]}]"
            what = f"{count} elements from {first} on are no whole vector"
            raise access.defect("misaligned", what, rows)

    # ------------------------------------------------------------------ access

    def load(self, access: ThreadAccess) -> Array:
        """Elements, in the shape of the index."""
        cells = self.cells(access)
        self._check_arrived(access, cells)
        if self.written is not None and not self.written[cells].all():
            rows = np.nonzero(~self.written[cells].all(axis=1))[0]
            element = f"{access.buffer.name}[{access.vectors[rows[0], 0]}]"
            what = f"{element} is read, and nobody has written it"
            raise access.defect("uninitialised", what, rows)
        if self.writes is not None and self.reads is not None:
            who, flat = _flat(access.lanes, cells)
            self._check(access, self.writes, who, flat, ("reads", "writes"))
            self._check(access, self.changes, who, flat, ("reads", "changes"))
            self.reads.note(access.batch, who, flat)
        return np.asarray(self._view(access.buffer.dtype)[self._rows(access), access.index])

    def store(self, access: ThreadAccess, value: Any) -> None:
        """Write elements."""
        cells = self.cells(access)
        self._check_arrived(access, cells)
        if self.writes is not None and self.reads is not None:
            who, flat = _flat(access.lanes, cells)
            self._check(access, self.writes, who, flat, ("writes", "writes"))
            self._check(access, self.reads, who, flat, ("writes", "reads"))
            self._check(access, self.changes, who, flat, ("writes", "changes"))
            self.writes.note(access.batch, who, flat)
            self._check(access, self.writes, who, flat, ("writes", "writes"))  # each other
        self._check_lent(access, cells)
        if self.written is not None:
            self.written[cells] = True
        if self.unfenced is not None:
            self.unfenced[cells] = access.lanes[:, None] + 1
        self._view(access.buffer.dtype)[self._rows(access), access.index] = value

    @property
    def is_private(self) -> bool:
        """Whether each thread has a row of its own, and nothing is under way to any."""
        return (
            self.row_of is not None
            and len(self.data) == len(self.row_of)
            and (self.writes is None and self.arriving is None)
        )

    def own(self, lanes: Any, first: int, count: int) -> Array | None:
        """Bytes of some threads' own rows; None if not all have been written."""
        if self.written is not None:
            cells = slice(first // self.unit, -(-(first + count) // self.unit))
            if not self.written.reshape(-1, self.units)[lanes, cells].all():
                return None
        return np.ascontiguousarray(self.data[lanes, first : first + count])

    def keep(self, lanes: Any, first: int, given: Array) -> None:
        """Write bytes into some threads' own rows."""
        cells = slice(first // self.unit, -(-(first + given.shape[1]) // self.unit))
        if self.written is not None:
            self.written.reshape(-1, self.units)[lanes, cells] = True
        if self.unfenced is not None:
            owners = np.arange(len(self.data))[lanes, None] + 1
            self.unfenced.reshape(-1, self.units)[lanes, cells] = owners
        self.data[lanes, first : first + given.shape[1]] = given

    def look(self, access: ThreadAccess) -> Array:
        """Elements that only an engine sees: they may be under way."""
        cells = self.cells(access)
        if self.arriving is not None and (self.arriving[cells] != 0).any():
            return np.asarray(self._view(access.buffer.dtype)[self._rows(access), access.index])
        return self.load(access)

    def change(
        self,
        access: ThreadAccess,
        apply: Callable[[Array, Array], Array],
        *,
        changes: bool,
        finds: bool = True,
        order: str = "relaxed",
    ) -> Array:
        """Atomic calls, which do not disturb each other; plain accesses of other threads they do.

        Args:
            access: one element for each thread.
            apply: what is done to elements, given which of them each thread means; gives what
                each thread found.
            changes: whether the elements may be others afterwards.
            finds: whether it matters what they were before.
            order: of the call: "relaxed", "acquire", "release" or "acq_rel".
        """
        cells = self.cells(access)
        self._check_arrived(access, cells)
        if self.written is not None and finds and not self.written[cells].all():
            rows = np.nonzero(~self.written[cells].all(axis=1))[0]
            element = f"{access.buffer.name}[{access.vectors[rows[0], 0]}]"
            what = f"{element} is changed, and nobody has written it"
            raise access.defect("uninitialised", what, rows)
        if self.written is not None:
            self.written[cells] = True
        if self.writes is not None and self.reads is not None:
            who, flat = _flat(access.lanes, cells)
            word = "changes" if changes else "reads"
            self._check(access, self.writes, who, flat, (word, "writes"))
            if changes:
                self._check(access, self.reads, who, flat, (word, "reads"))
            if self.changes is None:
                self.changes = access_history(len(self.data) * self.units, self.warps, self.timed)
            self.changes.note(access.batch, who, flat)
        if changes:
            self._check_lent(access, cells)
        if self.timed and access.batch.fences is not None:
            called = [word_of(self, cell) for cell in cells[:, 0].tolist()]
            access.batch.fences.change(access.batch.number[access.lanes], called, order, changes)
        table = self._view(access.buffer.dtype)
        row = np.zeros(1, np.int64) if self.row_of is None else self.row_of[access.lanes]
        places, where = np.unique(row * table.shape[1] + access.index, return_inverse=True)
        at = np.divmod(places, table.shape[1])
        elements = table[at]
        found = apply(elements, where)
        table[at] = elements
        return found

    def clear(self, lanes: Array) -> None:
        """Forget what these threads' own rows hold."""
        if self.written is not None and self.row_of is not None:
            self.written.reshape(-1, self.units)[self.row_of[lanes]] = False

    def _rows(self, access: ThreadAccess) -> Any:
        if self.row_of is None:
            return 0
        rows = self.row_of[access.lanes]
        return rows[:, None] if access.index.ndim == 2 else rows

    def _view(self, kind: DType) -> Array:
        return self.data.view(kind.element.numpy)

    def _check(
        self,
        access: ThreadAccess,
        others: AccessHistory | None,
        who: Array,
        cells: Array,
        words: tuple[str, str],
    ) -> None:
        """Refuse a race: between what these threads do and what others did."""
        if others is None:
            return
        conflicts = others.conflicts(access.batch, who, cells)
        if others is self.changes and conflicts.any() and access.batch.fences is not None:
            those = [word_of(self, cell) for cell in cells[conflicts].tolist()]
            last = access.batch.fences.last(access.batch.number[who[conflicts]], those)
            conflicts[conflicts] = ~last
        if not conflicts.any():
            return
        at = int(np.nonzero(conflicts)[0][0])
        size = access.buffer.dtype.element.numpy.itemsize
        element = int(cells[at]) % self.units * self.unit // size
        places = [
            *access.batch.places(who[at : at + 1]),
            access.batch.place_of(others.number[cells[at]]),
        ]
        raise KernelDefect(
            "race",
            f"one thread {words[0]} {access.buffer.name}[{element}] and another {words[1]} it, "
            "with no barrier between",
            access.stmt, places, access.stmt.span,
            hint="put a barrier between the accesses, or let threads keep to their own elements",
        )  # fmt: skip

    # ------------------------------------------------------------------ asynchronous copies

    def expect(
        self,
        access: ThreadAccess,
        value: Array | float,
        group: Array | int | None = None,
        again: bool = False,
    ) -> None:
        """Values for these places are under way.

        Args:
            group: that they belong to; without, the threads' open groups of copies.
            again: whether others may be under way there.
        """
        cells = self.cells(access)
        if not again:
            self._check_arrived(access, cells)
        if self.arriving is None or self.group is None:
            self.arriving = np.zeros(len(self.data) * self.units, np.int64)
            self.group = np.zeros(len(self.data) * self.units, np.int32)
        who, flat = _flat(access.lanes, cells)
        for others, word in ((self.writes, "writes"), (self.reads, "reads")):
            self._check(access, others, who, flat, ("copies into", word))
        self.arriving[flat] = who + 1
        twice = (self.arriving[cells] != access.lanes[:, None] + 1).any(axis=1)
        if twice.any():
            row = np.nonzero(twice)[0][:1]
            what = (
                f"{access.buffer.name}[{access.vectors[row[0], 0]}] is copied into by two threads"
            )
            raise access.defect("race", what, row)
        self.group[flat] = access.batch.committed[who] if group is None else group
        if group is not None and self.writes is not None:
            self.writes.note(access.batch, who, flat)
        if self.written is not None:
            self.written[flat] = True
        self._view(access.buffer.dtype)[self._rows(access), access.index] = value

    def lend(self, access: ThreadAccess) -> None:
        """The open groups of copies of these threads read elements, until they are waited for."""
        if self.lent is None:
            self.lent = np.zeros(len(self.data) * self.units, np.int32)
        who, flat = _flat(access.lanes, self.cells(access))
        np.add.at(self.lent, flat, 1)
        self.loans.append((flat, who, access.batch.committed[who]))

    def give_back(self, lanes: Array | None = None, finished: Array | None = None) -> None:
        """Copies of these threads' groups below `finished` have read; without, all copies have."""
        loans, self.loans = self.loans, []
        for flat, who, group in loans:
            there = np.ones(len(flat), bool)
            if lanes is not None and finished is not None:
                limit = np.full(max(int(who.max()), int(lanes.max())) + 1, -1)
                limit[lanes] = finished
                there = group < limit[who]
            if self.lent is not None:
                np.subtract.at(self.lent, flat[there], 1)
            if not there.all():
                self.loans.append((flat[~there], who[~there], group[~there]))

    def _check_lent(self, access: ThreadAccess, cells: Array) -> None:
        if self.lent is None or not self.loans:
            return
        early = np.nonzero((self.lent[cells] != 0).any(axis=1))[0]
        if len(early):
            what = "is overwritten while an asynchronous copy reads it"
            hint = "wait for the group of the copy before"
            raise access.defect("missing wait", f"{access.buffer.name} {what}", early, hint)

    def arrive(self, batch: ThreadBatch, lanes: Array, finished: Array) -> None:
        """Copies of these threads' groups below `finished` are there."""
        if self.loans:
            self.give_back(lanes, np.broadcast_to(finished, lanes.shape))
        if self.arriving is None or self.group is None:
            return
        flat = np.nonzero(self.arriving)[0]
        who = self.arriving[flat] - 1
        limit = np.full(batch.size, -1)
        limit[lanes] = finished
        there = self.group[flat] < limit[who]
        flat, who = flat[there], who[there]
        self.arriving[flat] = 0
        if self.writes is not None:
            self.writes.note(batch, who, flat)

    @property
    def watched(self) -> bool:
        """Whether threads may race for it."""
        return self.writes is not None

    def land(self, access: ThreadAccess) -> None:
        """What was under way to these places is there."""
        if self.arriving is not None:
            self.arriving[self.cells(access)] = 0

    def hide(self) -> None:
        """From now on engines see what threads write when they have fenced it."""
        self.unfenced = np.zeros(len(self.data) * self.units, np.int64)

    def fence(self, lanes: Array) -> None:
        """What these threads wrote can be seen by engines from now on."""
        if self.unfenced is not None:
            self.unfenced[np.isin(self.unfenced, lanes + 1)] = 0

    def check_fenced(self, access: ThreadAccess, what: str, fence: str) -> None:
        """Refuse that an engine touches what a thread wrote without a fence."""
        if self.unfenced is None:
            return
        hidden = np.flatnonzero((self.unfenced[self.cells(access)] != 0).any(axis=1))
        if len(hidden):
            element = f"{access.buffer.name}[{access.vectors[hidden[0], 0]}]"
            what = f"{what} {element}, which a thread wrote with no fence since"
            raise access.defect("missing fence", what, hidden, f"call {fence} between")

    def _check_arrived(self, access: ThreadAccess, cells: Array) -> None:
        if self.arriving is None:
            return
        late = np.nonzero((self.arriving[cells] != 0).any(axis=1))[0]
        if len(late):
            what = "is accessed where an asynchronous copy has not been waited for"
            hint = "wait for the group of the copy, and pass a barrier"
            raise access.defect("missing wait", f"{access.buffer.name} {what}", late, hint)


def _flat(lanes: Array, cells: Array) -> tuple[Array, Array]:
    """Every cell by itself, with the thread that touches it."""
    return np.repeat(lanes, cells.shape[1]), cells.reshape(-1)
