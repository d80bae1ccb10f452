"""get_loops: the loops around a block."""

from __future__ import annotations

from ..analysis.tree import loops_above
from ..instruction import BlockRef, LoopRef, primitive
from ..state import ScheduleState


@primitive("GetLoops", pure=True, coordinates=True)
def get_loops(state: ScheduleState, block: BlockRef) -> list[LoopRef]:
    """The loops around a block inside of its scope, outermost first."""
    return loops_above(block)
