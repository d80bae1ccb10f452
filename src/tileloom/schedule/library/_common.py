"""What tactics share: looking at a schedule, and recording their steps in a readable order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...expr import SPATIAL, IntImm
from ..analysis.blocks import loop_iter_type
from ..errors import ScheduleError, refuse
from ..rv import BlockRV, LoopRV

if TYPE_CHECKING:
    from ..schedule import Schedule

BlockLike = BlockRV | str


def block_of(sch: Schedule, block: BlockLike) -> BlockRV:
    """A block given by its variable or its name."""
    found: BlockRV = sch.get_block(block) if isinstance(block, str) else block
    return found


def is_spatial(sch: Schedule, loop: LoopRV) -> bool:
    """Whether a loop runs nothing but data-parallel iteration variables, all independent."""
    return loop_iter_type(sch.state, sch.get_sref(loop)) == SPATIAL


def extent(sch: Schedule, loop: LoopRV) -> int | None:
    """The extent of a loop, if it is a number."""
    found = sch.get(loop).extent
    return found.value if isinstance(found, IntImm) else None


def loops_below(sch: Schedule, block: BlockRV, loop: LoopRV) -> list[LoopRV]:
    """The loops between a loop and a block inside of it."""
    wanted = sch.get_sref(loop)
    loops: list[LoopRV] = sch.get_loops(block)
    for depth, one in enumerate(loops):
        if sch.get_sref(one) is wanted:
            return loops[depth + 1 :]
    raise wrong(sch, f"the loop is not around the block {sch.get(block).name_hint!r}")


def fused(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    """One loop for several."""
    if len(loops) == 1:
        return loops[0]
    made: LoopRV = sch.fuse(*loops)
    return made


def wrong(sch: Schedule, message: str, hint: str | None = None) -> ScheduleError:
    """The refusal of a tactic, to raise; it shows the program."""
    error = refuse(message, hint=hint)
    error.complete(sch.mod, "", "", "detail")
    return error
