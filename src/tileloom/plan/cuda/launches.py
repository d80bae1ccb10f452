"""Launches: nests over blocks of threads, independent ones of like blocks in one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...expr import IntImm
from ...schedule.analysis.tree import child_blocks
from ...schedule.errors import ScheduleError
from ...schedule.rv import LoopRV
from ...schedule.schedule import Schedule
from ...tir import Block, Buffer


@dataclass(frozen=True)
class GridLaunch:
    """A nest over blocks of threads that is not bound yet.

    Attributes:
        loop: over the blocks.
        threads: of a block, along x and y.
    """

    loop: LoopRV
    threads: tuple[int, int]


def bind_launches(sch: Schedule, launches: Sequence[GridLaunch]) -> Schedule:
    """Each launch as a kernel; those that do not need each other share one where they can.

    Launches share a kernel if their blocks have the same threads. The one with fewer blocks leaves
    the others without work.
    """
    groups: list[list[GridLaunch]] = []
    accesses = {launch: _accessed(sch, launch) for launch in launches}
    for launch in launches:
        at = next((k for k in range(_earliest(groups, accesses, launch), len(groups))
                   if groups[k][0].threads == launch.threads), None)  # fmt: skip
        if at is None:
            groups.append([launch])
        else:
            groups[at].append(launch)
    for group in groups:
        sch = _bind(sch, group)
    return sch


def _bind(sch: Schedule, group: Sequence[GridLaunch]) -> Schedule:
    if len(group) > 1:
        trial = sch.copy()
        try:
            trial.bind(_merged(trial, [launch.loop for launch in group]), "blockIdx.x")
        except ScheduleError:
            pass
        else:
            return trial
    for launch in group:
        sch.bind(launch.loop, "blockIdx.x")
    return sch


def _merged(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    sizes = [sch.get(loop).extent for loop in loops]
    if len(set(sizes)) == 1:
        same: LoopRV = sch.merge(*loops)
        return same
    if not all(isinstance(size, IntImm) for size in sizes):
        raise ScheduleError("which of the kernels has more blocks depends")
    extents = list(map(int, sizes))
    most = max(extents)
    equal = [
        loop if extent == most else sch.split(loop, [most, 1])[0]
        for loop, extent in zip(loops, extents, strict=True)
    ]
    merged: LoopRV = sch.merge(*equal)
    return merged


def _earliest(
    groups: Sequence[Sequence[GridLaunch]],
    accesses: dict[GridLaunch, tuple[set[Buffer], set[Buffer]]],
    launch: GridLaunch,
) -> int:
    """The first kernel that a launch may be part of: after all that it depends on."""
    reads, writes = accesses[launch]
    for k in reversed(range(len(groups))):
        for other in groups[k]:
            others = accesses[other]
            if others[1] & (reads | writes) or others[0] & writes:
                return k + 1
    return 0


def _accessed(sch: Schedule, launch: GridLaunch) -> tuple[set[Buffer], set[Buffer]]:
    blocks: list[Block] = [s.block for s in child_blocks(sch.state, sch.get_sref(launch.loop))]
    return (
        {region.buffer for block in blocks for region in block.reads},
        {region.buffer for block in blocks for region in block.writes},
    )
