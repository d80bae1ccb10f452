"""get_consumers: the blocks that read what a block writes."""

from __future__ import annotations

from ..analysis import scope
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


@primitive("GetConsumers", pure=True)
def get_consumers(state: ScheduleState, block: BlockRef) -> list[BlockRef]:
    """The blocks of the scope that read what a block writes after it, in program order."""
    return scope.consumers(state, block)
