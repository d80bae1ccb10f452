"""get_child_blocks: the blocks inside a block or loop."""

from __future__ import annotations

from ..analysis.tree import child_blocks
from ..instruction import BlockRef, PlaceRef, primitive
from ..state import ScheduleState


@primitive("GetChildBlocks", pure=True, coordinates=True)
def get_child_blocks(state: ScheduleState, block_or_loop: PlaceRef) -> list[BlockRef]:
    """The blocks directly inside a block or below a loop, in program order."""
    return child_blocks(state, block_or_loop)
