"""get_producers: the blocks that write what a block reads."""

from __future__ import annotations

from ..analysis import scope
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


@primitive("GetProducers", pure=True)
def get_producers(state: ScheduleState, block: BlockRef) -> list[BlockRef]:
    """The blocks of the scope that write what a block reads before it, in program order."""
    return scope.producers(state, block)
