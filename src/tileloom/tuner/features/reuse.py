"""How soon what a store accesses is accessed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...tir import Buffer
from .program import Loop
from .regions import BufferUse, Work, iterations

BY_LOOP, BY_NEXT, NONE = 0, 1, 2


class Reuse(NamedTuple):
    """How a buffer is used again.

    Attributes:
        kind: by a loop that does not move the access, by another store in the same loop, or not.
        iterations: of inner loops until then.
        bytes: that are accessed until then.
        times: how often.
    """

    kind: int = NONE
    iterations: float = 0.0
    bytes: float = 0.0
    times: float = 0.0


_NO_REUSE = Reuse()


class Reuses:
    """Finds reuse store by store: what the stores before have accessed in a loop counts."""

    def __init__(self) -> None:
        self._elements: dict[tuple[Loop, Buffer], list[float]] = {}
        self._bytes: dict[Loop, float] = {}

    def of(self, work: Work) -> list[Reuse]:
        """The reuse of each buffer of the next store."""
        for place, loop in enumerate(work.nest):
            self._bytes[loop] = self._bytes.get(loop, 0.0) + work.bytes[place]
            for use in work.uses:
                known = self._elements.setdefault((loop, use.memory.buffer), [])
                known.append(use.elements[place])
        return [self._find(use, work) for use in work.uses]

    def _find(self, use: BufferUse, work: Work) -> Reuse:
        nest = work.nest
        for place in range(len(nest) - 1, -1, -1):
            loop, inner = nest[place], nest[place + 1 :]
            extent = loop.extent or 1
            if place not in use.steps:
                if inner:
                    distance = self._bytes[inner[0]]
                else:  # one element of each buffer, as TVM counts
                    distance = sum(other.bytes for other in work.uses)
                return Reuse(BY_LOOP, iterations(inner), distance, extent)
            known = self._elements[loop, use.memory.buffer]
            if len(known) > 1:
                return Reuse(
                    BY_NEXT, min(known) / extent, self._bytes[loop] / extent, len(known) - 1
                )
        return _NO_REUSE


def reuses_of(works: Sequence[Work]) -> list[list[Reuse]]:
    """The reuse of each buffer of each store."""
    found = Reuses()
    return [found.of(work) for work in works]
