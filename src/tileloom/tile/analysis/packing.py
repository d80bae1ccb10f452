"""Places of buffers in one memory: those that are live at a time do not overlap.

This is dynamic storage allocation, which is NP-hard. Every packing in which no buffer can move
down is what first fit makes of the buffers in the order of their offsets; so the search is over
orders: some by size and lifetime first, then all of them for few buffers, then moves of buffers to
the front for many. It ends where the memory is as small as what is live at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FEW = 9  # buffers of which all orders are tried
STEPS = 3000  # placements that the search through all orders may take
MOVES = 60


@dataclass(frozen=True)
class PackedBuffer:
    """What packing needs of a buffer; `live` is the set of points of the program, as bits."""

    size: int
    alignment: int
    live: int


def pack(buffers: Sequence[PackedBuffer]) -> tuple[list[int], int]:
    """Offsets of buffers, and the size of the memory.

    >>> sizes = ((64, 0b011), (32, 0b110), (48, 0b100))
    >>> pack([PackedBuffer(size, 16, live) for size, live in sizes])
    ([0, 64, 0], 96)
    """
    if not buffers:
        return [], 0
    packer = _Packer(buffers)
    packer.search()
    return packer.offsets, packer.total


class _Packer:
    """A search for the smallest memory."""

    def __init__(self, buffers: Sequence[PackedBuffer]) -> None:
        self.buffers = buffers
        self.conflicts = [
            [j for j, other in enumerate(buffers) if j != i and each.live & other.live]
            for i, each in enumerate(buffers)
        ]
        self.bound = _most_live(buffers)
        self.offsets: list[int] = []
        self.total = 1 << 62
        self.order: Sequence[int] = ()
        self.steps = 0

    def search(self) -> None:
        """Tries orders, the best hopes first, until one is known to be the best."""
        count = len(self.buffers)
        for key in (_by_size, _by_area, _by_time, _by_lifetime, _by_alignment):
            if self.try_order(sorted(range(count), key=lambda i: key(self.buffers[i]))):
                return
        weights = [sum(self.buffers[j].size for j in self.conflicts[i]) for i in range(count)]
        if self.try_order(sorted(range(count), key=lambda i: -weights[i])):
            return
        if count <= FEW:
            self.try_all([-1] * count, 0)
        else:
            self.improve()

    def try_order(self, order: Sequence[int]) -> bool:
        """Packs by first fit; whether the memory is as small as it can be."""
        offsets = [-1] * len(self.buffers)
        total = 0
        for index in order:
            offsets[index] = self.first_fit(index, offsets)
            total = max(total, offsets[index] + self.buffers[index].size)
        if total < self.total:
            self.offsets, self.total, self.order = offsets, total, order
        return self.total <= self.bound

    def first_fit(self, index: int, offsets: Sequence[int]) -> int:
        """The lowest place for a buffer among those that have theirs."""
        buffer = self.buffers[index]
        taken = sorted(
            (offsets[j], offsets[j] + self.buffers[j].size)
            for j in self.conflicts[index]
            if offsets[j] >= 0
        )
        place = 0
        for start, end in taken:
            if place + buffer.size <= start:
                break
            place = max(place, -(-end // buffer.alignment) * buffer.alignment)
        return place

    def try_all(self, offsets: list[int], total: int) -> None:
        """Packs in every order that may need less than the best so far, within `STEPS`."""
        left = [i for i, offset in enumerate(offsets) if offset < 0]
        if not left:
            self.offsets, self.total = list(offsets), total
            return
        left.sort(key=lambda i: -self.buffers[i].size)
        for index in left:
            self.steps += 1
            if self.steps > STEPS or self.total <= self.bound:
                return
            place = self.first_fit(index, offsets)
            end = max(total, place + self.buffers[index].size)
            if end < self.total:
                offsets[index] = place
                self.try_all(offsets, end)
                offsets[index] = -1

    def improve(self) -> None:
        """Places the buffers that end last before others, as long as that may help."""
        order = list(self.order)
        for move in range(MOVES):
            ends = [o + b.size for o, b in zip(self.offsets, self.buffers, strict=True)]
            highest = sorted(range(len(ends)), key=lambda i: -ends[i])
            chosen = highest[move % min(3, len(highest))]
            at = order.index(chosen)
            order.insert(at // 2 if move % 2 else 0, order.pop(at))
            if self.try_order(list(order)):
                return


def _most_live(buffers: Iterable[PackedBuffer]) -> int:
    """The most bytes that are live at a point."""
    points: dict[int, int] = {}
    for buffer in buffers:
        live = buffer.live
        while live:
            low = live & -live
            points[low] = points.get(low, 0) + buffer.size
            live ^= low
    return max(points.values(), default=0)


# Orders of buffers.


def _by_size(buffer: PackedBuffer) -> tuple[int, ...]:
    return -buffer.size, -buffer.live.bit_count()


def _by_area(buffer: PackedBuffer) -> tuple[int, ...]:
    return (-buffer.size * buffer.live.bit_count(),)


def _by_time(buffer: PackedBuffer) -> tuple[int, ...]:
    return buffer.live & -buffer.live, -buffer.size


def _by_lifetime(buffer: PackedBuffer) -> tuple[int, ...]:
    return -buffer.live.bit_count(), -buffer.size


def _by_alignment(buffer: PackedBuffer) -> tuple[int, ...]:
    return -buffer.alignment, -buffer.live.bit_count(), -buffer.size
