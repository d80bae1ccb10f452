"""Places of buffers in one memory: those that are live at a time do not overlap.

This is dynamic storage allocation, which is NP-hard. Every packing in which no buffer can move
down is what first fit makes of the buffers in the order of their offsets; so the search is over
orders: some by size and lifetime first, then all of them for few buffers, and random exchanges for
many. It ends where the memory is as small as what is live at once. A buffer that fits into the
place of another, and conflicts with no more than it does, follows it and is not searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

FEW = 12  # buffers of which all orders are tried
STEPS = 3000  # placements that the search through all orders may take
EXCHANGES = 300


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
    leaders = _leaders(buffers)
    chosen = sorted(set(leaders))
    packer = _Packer([buffers[index] for index in chosen])
    packer.search()
    places = dict(zip(chosen, packer.offsets, strict=True))
    return [places[leader] for leader in leaders], packer.total


def _leaders(buffers: Sequence[PackedBuffer]) -> list[int]:
    """For each buffer the one whose place it can have, or itself."""
    conflicts = []
    for each in buffers:
        hit = (1 << j for j, other in enumerate(buffers) if other.live & each.live)
        conflicts.append(sum(hit))
    leaders = list(range(len(buffers)))
    by_size = sorted(leaders, key=lambda i: buffers[i].size)
    kept = (1 << len(buffers)) - 1
    for i in by_size:
        others = conflicts[i] & kept & ~(1 << i)
        for j in reversed(by_size):
            fits = buffers[i].size <= buffers[j].size
            if i == j or leaders[j] != j or not fits or conflicts[i] >> j & 1:
                continue
            if buffers[j].alignment % buffers[i].alignment == 0 and not others & ~conflicts[j]:
                leaders[i] = j
                kept &= ~(1 << i)
                break
    for i in reversed(by_size):  # leaders of leaders
        while leaders[leaders[i]] != leaders[i]:
            leaders[i] = leaders[leaders[i]]
    return leaders


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
            self.try_all([-1] * count, (-1, -1))
        else:
            self.improve()

    def try_order(self, order: Sequence[int]) -> bool:
        """Packs by first fit; whether the memory is as small as it can be."""
        offsets = [-1] * len(self.buffers)
        total = 0
        for index in order:
            offsets[index] = self.first_fit(index, offsets)
            total = max(total, offsets[index] + self.buffers[index].size)
        if total <= self.total:
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

    def try_all(self, offsets: list[int], last: tuple[int, int]) -> None:
        """Packs in every order that may need less than the best so far, within `STEPS`. Each
        buffer comes after `last`, the offset and number of the one before it: such an order there
        is for each packing."""
        places = {i: self.first_fit(i, offsets) for i, at in enumerate(offsets) if at < 0}
        if not places:
            self.offsets = list(offsets)
            pairs = zip(offsets, self.buffers, strict=True)
            self.total = max(offset + buffer.size for offset, buffer in pairs)
            return
        for index in sorted(places, key=lambda i: (places[i], -self.buffers[i].size)):
            self.steps += 1
            if self.steps > STEPS or self.total <= self.bound:
                return
            if any(places[i] + self.buffers[i].size >= self.total for i in places):
                return  # one that is left cannot end below the best
            if (places[index], index) > last:
                offsets[index] = places[index]
                self.try_all(offsets, (places[index], index))
                offsets[index] = -1

    def improve(self) -> None:
        """Exchanges buffers of the best order so far at random, the highest ones first."""
        random = Random(len(self.buffers))
        for _ in range(EXCHANGES):
            order = list(self.order)
            ends = [o + b.size for o, b in zip(self.offsets, self.buffers, strict=True)]
            highest = max(order, key=ends.__getitem__)
            first = order.index(highest) if random.random() < 0.5 else random.randrange(len(order))
            order.insert(random.randrange(len(order)), order.pop(first))
            if self.try_order(order):
                return


def _most_live(buffers: Sequence[PackedBuffer]) -> int:
    """The most bytes that are live at a point, or that the most aligned ones of them take."""
    points = 0
    for buffer in buffers:
        points |= buffer.live
    most, seen = 0, set()
    while points:
        low = points & -points
        points ^= low
        live = tuple(buffer for buffer in buffers if buffer.live & low)
        if live not in seen:
            seen.add(live)
            most = max(most, sum(buffer.size for buffer in live), _aligned_size(live))
    return most


def _aligned_size(live: Sequence[PackedBuffer]) -> int:
    """The bytes from the first to the end of the last of those with the largest alignment."""
    largest = max(buffer.alignment for buffer in live)
    sizes = [buffer.size for buffer in live if buffer.alignment == largest]
    gaps = [-size % largest for size in sizes]
    return sum(sizes) + sum(gaps) - max(gaps)


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
