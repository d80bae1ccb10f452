"""get_output_blocks: the blocks that write the results of a scope."""

from __future__ import annotations

from ..analysis.tree import child_blocks, scope_root
from ..instruction import BlockRef, primitive
from ..sref import StmtSRef
from ..state import ScheduleState


@primitive("GetOutputBlocks", pure=True)
def get_output_blocks(state: ScheduleState, scope_block: BlockRef) -> list[BlockRef]:
    """The blocks inside a block, nested ones too, that write a buffer their scope does not own.

    They come in program order, a block before those inside it. The scope of a block is the block
    around it, so what fills a buffer of `scope_block` from within another block is listed.
    """
    return [block for block in _below(state, scope_block) if _writes_out(block)]


def _below(state: ScheduleState, scope: StmtSRef) -> list[StmtSRef]:
    found: list[StmtSRef] = []
    for block in child_blocks(state, scope):
        found += [block, *_below(state, block)]
    return found


def _writes_out(block: StmtSRef) -> bool:
    local = scope_root(block).block.alloc_buffers
    return any(region.buffer not in local for region in block.block.writes)
