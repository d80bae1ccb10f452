"""Blocks that update buffers in place: each instance its own element."""

from __future__ import annotations

from ...expr import SPATIAL, IntImm, Var, post_order
from ...tir import Block, Buffer, BufferLoad, BufferStore, pre_order, stmt_exprs


def updated_in_place(block: Block) -> set[Buffer]:
    """The buffers of which each instance of a block accesses one element that no other one does.

    Instances may run in any order then, though the block both reads and writes them.
    """
    if any(axis.iter_type != SPATIAL for axis in block.iter_vars):
        return set()
    live = {
        axis.var
        for axis in block.iter_vars
        if not (isinstance(axis.domain.extent, IntImm) and axis.domain.extent.value == 1)
    }
    places: dict[Buffer, set[tuple[object, ...]]] = {}
    for stmt in pre_order(block.body):
        if isinstance(stmt, Block):
            return set()
        if isinstance(stmt, BufferStore):
            places.setdefault(stmt.buffer, set()).add(tuple(stmt.indices))
        for expr in stmt_exprs(stmt):
            for part in post_order(expr):
                if isinstance(part, BufferLoad):
                    places.setdefault(part.buffer, set()).add(tuple(part.indices))
    return {
        buffer
        for buffer, found in places.items()
        if len(found) == 1 and live <= {i for i in next(iter(found)) if isinstance(i, Var)}
    }
