"""Blocks whose annotation says that what they store is added, atomically (SparseTIR)."""

from __future__ import annotations

from ..expr import Add, Call, Expr, post_order
from ..expr.combiners import match_combination
from .atomics import ADDRESS_OF
from .nodes import Block, Buffer, BufferLoad, BufferStore, Evaluate, Stmt
from .walk import StmtRewriter, pre_order

#: The annotation of such a block.
ATOMIC = "atomic"
_OF_MANY = ("", "global", "shared")  # scopes whose memory several threads have in common


def added_atomically(block: Block) -> Block | None:
    """The block with atomic additions for its stores; None where some do something else.

    `C[i] = C[i] + x` adds `x`, and so does `C[i] = x`, of which a block that writes back a sum of
    its own is made. Memory that threads have for themselves is stored to as it is.
    """
    if block.init is not None:
        return None
    own = {b for node in pre_order(block) if isinstance(node, Block) for b in node.alloc_buffers}
    walk = _Additions(own)
    body = walk.visit(block.body)
    return None if walk.failed else block.replace(body=body)


class _Additions(StmtRewriter):
    def __init__(self, own: set[Buffer]) -> None:
        self.own = own
        self.failed = False

    def visit_Block(self, stmt: Block) -> Block:
        if stmt.init is not None and self.visit(stmt.init) is not stmt.init:
            self.failed = True
        return super().visit_Block(stmt)

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        buffer = stmt.buffer
        if buffer in self.own or buffer.scope.split(".")[0] not in _OF_MANY:
            return stmt
        place = BufferLoad(buffer, stmt.indices)
        value = _addend(place, stmt.value)
        if value is None or stmt.predicate is not None or buffer.dtype.lanes > 1:
            self.failed = True
            return stmt
        pointer = Call("handle", ADDRESS_OF, (place,))
        return Evaluate(Call(buffer.dtype, "tir.atomic_add", (pointer, value)), span=stmt.span)


def _addend(place: BufferLoad, value: Expr) -> Expr | None:
    """What is added to an element, by a store of this value."""
    found = match_combination(lambda a, b: [Add(a[0], b[0])], [place], [value])
    addend = value if found is None else found[0]
    loads = (node for node in post_order(addend) if isinstance(node, BufferLoad))
    return None if any(load.buffer is place.buffer for load in loads) else addend
