"""fuse_horizontally, fuse_vertically: nests with the same outer loops become one."""

from __future__ import annotations

from itertools import pairwise

from ....schedule.errors import ScheduleError
from ....schedule.library._common import extent
from ....schedule.rv import LoopRV
from ....schedule.schedule import Schedule
from ...loops import blocks_by_name, writes_output


def fuse_horizontally(sch: Schedule) -> list[str]:
    """Merge the nests of results, which do not read each other.

    Returns:
        What was done, a line a block.
    """
    ends = [name for name, block in blocks_by_name(sch).items() if writes_output(sch, block)]
    return _merge_all(sch, ends)


def fuse_vertically(sch: Schedule) -> list[str]:
    """Merge the nests of blocks and of what reads them, as deep as order allows.

    Returns:
        What was done, a line a block.
    """
    return _merge_all(sch, list(blocks_by_name(sch)))


def _merge_all(sch: Schedule, names: list[str]) -> list[str]:
    said = []
    for first, second in pairwise(names):
        said.append(f"{second} with {first}: {_merge(sch, first, second)}")
    return said


def _merge(sch: Schedule, first: str, second: str) -> str:
    """Merge two nests at the deepest loops that can be merged."""
    a, b = (_free_loops(sch, name) for name in (first, second))
    start = 0
    while start < min(len(a), len(b)) and sch.get_sref(a[start]) is sch.get_sref(b[start]):
        start += 1
    depth = start
    while depth < min(len(a), len(b)) and extent(sch, a[depth]) == extent(sch, b[depth]):
        depth += 1
    if depth == start:
        return "one nest already" if start else "their outer loops differ"
    reason = ""
    for at in range(depth, start, -1):
        try:
            sch.merge(a[at - 1], b[at - 1])
        except ScheduleError as error:
            reason = error.message
        else:
            return f"{at - start} loops merged"
    return reason


def _free_loops(sch: Schedule, name: str) -> list[LoopRV]:
    """The outer loops of a block up to the first that is bound to threads."""
    found: list[LoopRV] = []
    for loop in sch.get_loops(name):
        if sch.get(loop).thread_binding is not None:
            break
        found.append(loop)
    return found
