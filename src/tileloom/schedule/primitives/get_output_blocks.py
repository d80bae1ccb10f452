"""get_output_blocks: the blocks that write the results of a scope."""

from __future__ import annotations

from ..analysis.tree import child_blocks
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


@primitive("GetOutputBlocks", pure=True)
def get_output_blocks(state: ScheduleState, scope_block: BlockRef) -> list[BlockRef]:
    """The blocks of a scope that write a buffer the scope does not allocate, in program order."""
    local = set(scope_block.block.alloc_buffers)
    return [
        block
        for block in child_blocks(state, scope_block)
        if any(region.buffer not in local for region in block.block.writes)
    ]
