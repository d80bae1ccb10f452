"""Blocks that are annotated "atomic" add by atomic calls."""

from __future__ import annotations

from ...base.errors import UserError
from ...tir import Block, PrimFunc, StmtRewriter
from ...tir.atomic_blocks import ATOMIC, added_atomically
from ..common import on_body


def lower_atomic(func: PrimFunc) -> PrimFunc:
    """Stores of blocks with the annotation "atomic" become `T.atomic_add` (SparseTIR).

    Needs: the blocks stage.
    Ensures: no block has the annotation.

    Raises:
        UserError: such a block does more than add to elements.
    """
    return on_body(func, _Lower().visit)


class _Lower(StmtRewriter):
    def visit_Block(self, stmt: Block) -> Block:
        if not stmt.annotations.get(ATOMIC):
            return super().visit_Block(stmt)
        added = added_atomically(stmt)
        if added is None:
            starts = stmt.init is not None
            raise UserError(
                f"block {stmt.name_hint!r} has the annotation {ATOMIC!r}, but does not only add to "
                f"elements{': it starts them, too' if starts else ''}",
                span=stmt.span,
                hint='let it make a sum of its own: reverse_cache_write(block, 0, "local")'
                if starts
                else "write `C[i] = C[i] + x`, where `x` does not read C",
            )
        rest = {key: value for key, value in stmt.annotations.items() if key != ATOMIC}
        return super().visit_Block(added.replace(annotations=rest))
