"""Reductions in one pass over the data, where rows do not fit into registers.

A maximum and the sum of exponentials relative to it, or a sum and the sum of squares around its
mean, are two passes; rows that threads cannot keep would be read from memory for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...schedule.errors import ScheduleError
from ...schedule.schedule import Schedule
from ..domain import Domain
from ..loops import reduces
from .canonical import normalise


def reduce_in_one_pass(sch: Schedule, names: Sequence[str]) -> list[tuple[str, str]]:
    """Reduce blocks together where that is known; the pairs of blocks that were.

    The blocks have one variable for rows and one for positions. The second one of a pair is a
    elementwise block of rows afterwards.
    """
    found: list[tuple[str, str]] = []
    for k, later in enumerate(names):
        for name in names[:k]:
            both = [sch.get(sch.get_block(n)) for n in (name, later)]
            if not all(map(reduces, both)) or len(both[0].writes) > 1:
                continue
            try:
                sch.reduce_online(name, later)
            except ScheduleError:
                continue
            found.append((name, later))
    return found


def find_pairs(sch: Schedule, names: Sequence[str], domain: Domain) -> list[tuple[str, str]]:
    """The pairs of blocks that could be reduced together."""
    reductions = [n for n in names if reduces(sch.get(sch.get_block(n)))]
    if len(reductions) < 2:
        return []
    trial = sch.copy()
    try:
        for name in reductions:
            normalise(trial, name, domain)
    except ScheduleError:
        return []
    return reduce_in_one_pass(trial, reductions)
