"""Independent nests of different lengths in one parallel loop: workers are woken once for all.

Each nest is cut into as many shares as there are workers, and the loops over shares are merged.
Nests that would not be worth a worker by themselves are shared in passing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ...schedule.errors import ScheduleError
from ...schedule.schedule import Schedule
from ...target import Target
from ...target.cost import PARALLEL_WORK
from ...tir import Block
from .choices import fixed_work
from .fusion_groups import FusionGroup, depends
from .nests import ParallelLoop, known_length

#: Nests of which no worker would be woken for one are worth it from so much work on.
TOGETHER = 4 * PARALLEL_WORK


def independent_runs(sch: Schedule, fusions: Sequence[FusionGroup]) -> list[list[FusionGroup]]:
    """Fusions in their order, those together that need nothing of each other."""
    runs: list[list[FusionGroup]] = []
    before: list[Block] = []
    for fusion in fusions:
        blocks = [sch.get(sch.get_block(name)) for name in fusion.names]
        if runs and not any(depends(block, before) for block in blocks):
            runs[-1].append(fusion)
            before += blocks
        else:
            runs.append([fusion])
            before = blocks
    return runs


def pays_together(sch: Schedule, run: Sequence[FusionGroup], target: Target) -> bool:
    """Whether fusions of known sizes are enough work for workers, all of them if not one alone."""
    if target.cores < 2 or len(run) < 2:
        return False
    amounts = [fixed_work(sch, fusion) or 0 for fusion in run]
    return all(amounts) and (max(amounts) >= PARALLEL_WORK or sum(amounts) >= TOGETHER)


def fuse_horizontally(
    sch: Schedule, found: Sequence[ParallelLoop], workers: int
) -> list[ParallelLoop]:
    """One loop over shares of all loops that are long enough; others that are worth it alone."""
    together = [one for one in found if known_length(sch, one.loop) >= workers]
    rest = [one for one in found if one not in together]
    if sum(one.plan.work for one in together) < PARALLEL_WORK:
        together, rest = [], [*found]
    alone = [one for one in rest if one.plan.work >= PARALLEL_WORK]
    lengths = {known_length(sch, one.loop) for one in together}
    if len(lengths) < 2:
        return [*together, *alone]
    shares = [_shares(sch, one, workers) for one in together]
    with suppress(ScheduleError):  # each is shared by itself
        shares = [ParallelLoop(sch.merge(*(one.loop for one in shares)), shares[0].plan)]
    return [*shares, *alone]


def _shares(sch: Schedule, one: ParallelLoop, workers: int) -> ParallelLoop:
    """A loop as one over shares, one for each worker."""
    if known_length(sch, one.loop) == workers:
        return one
    outer, _ = sch.split(one.loop, [workers, None])
    return ParallelLoop(outer, one.plan)
