"""What primitives share that change a buffer everywhere it is used in its scope."""

from __future__ import annotations

from ...expr import Expr, rewrite
from ...tir import (
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    MatchBufferRegion,
    Stmt,
    StmtRewriter,
)
from ..errors import refuse
from ..sref import StmtSRef


def allocating_block(block: StmtSRef, buffer: Buffer) -> StmtSRef:
    """The block around (or itself) that allocates a buffer; refuses parameters and aliases."""
    for place in (block, *block.ancestors()):
        if not place.is_block:
            continue
        if buffer in place.block.alloc_buffers:
            return place
        if any(match.buffer is buffer for match in place.block.match_buffers):
            raise refuse(
                f"the buffer {buffer.name!r} is another name for a part of a buffer",
                at=[place],
                fast="The buffer is defined by match_buffer",
            )
    raise refuse(
        f"the buffer {buffer.name!r} is a parameter of the function",
        at=[block],
        hint="use a buffer that a block allocates, such as one made by cache_read or cache_write",
        fast="The input buffer is not allocated by a block",
    )


class ReplaceBuffer(StmtRewriter):
    """One buffer in place of another, in accesses, regions and allocations.

    Attributes:
        block_map: the blocks that changed, for `ScheduleState.replace`.
    """

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.buffers: dict[Buffer, Buffer] = {old: new}
        self.block_map: dict[Block, Block] = {}

    def _rule(self, expr: Expr) -> Expr | None:
        if isinstance(expr, BufferLoad) and expr.buffer in self.buffers:
            return BufferLoad(self.buffers[expr.buffer], expr.indices, expr.predicate)
        for old, new in self.buffers.items():
            if expr is old.data:
                return new.data
        return None

    def visit_expr(self, expr: Expr) -> Expr:
        return rewrite(expr, self._rule)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        new = super().visit_BufferStore(stmt)
        if isinstance(new, BufferStore) and new.buffer in self.buffers:
            return new.replace(buffer=self.buffers[new.buffer])
        return new

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        region = super().visit_region(region)
        new = self.buffers.get(region.buffer)
        return region if new is None else BufferRegion(new, region.region)

    def visit_match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        source = self.visit_region(match.source)
        return match if source is match.source else MatchBufferRegion(match.buffer, source)

    def visit_Block(self, stmt: Block) -> Stmt:
        new = super().visit_Block(stmt)
        if isinstance(new, Block):
            allocated = tuple(self.buffers.get(b, b) for b in new.alloc_buffers)
            if allocated != new.alloc_buffers:
                new = new.replace(alloc_buffers=allocated)
            if new is not stmt:
                self.block_map[stmt] = new
        return new
