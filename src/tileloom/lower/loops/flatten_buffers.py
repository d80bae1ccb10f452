"""Multi-dimensional buffers become rows of elements."""

from __future__ import annotations

from ...base.errors import InternalError
from ...expr import Expr, has_load
from ...tir import (
    Allocate,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    PrimFunc,
    Stmt,
    StmtRewriter,
)
from ..analysis.row_major import buffer_span, element_count, flat_index, starts_at_zero

#: The attribute of functions none of whose buffers has 2^31 elements, whatever its extents are.
INT32_INDICES = "int32_indices"


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Every access has one index, counted in elements from the buffer's pointer.

    Needs: the loops stage (no blocks).
    Ensures: buffers, those of the parameters too, have one dimension, no strides and no offset;
    `Allocate` has one extent. Index arithmetic is int64 where int32 might overflow: where the
    buffer is known to be, or might be, longer than 2^31 - 1 elements. That none with variables for
    extents is, an attribute "int32_indices" of the function says.
    """
    walk = _Flatten(bool(func.attrs.get(INT32_INDICES)))
    buffer_map = {param: walk.flat(buffer) for param, buffer in func.buffer_map.items()}
    body = walk.visit(func.body)
    same = all(buffer_map[p] is b for p, b in func.buffer_map.items())
    return func if body is func.body and same else func.replace(body=body, buffer_map=buffer_map)


class _Flatten(StmtRewriter):
    def __init__(self, narrow: bool) -> None:
        self.narrow = narrow
        self.table: dict[Buffer, Buffer] = {}
        self.done: dict[Expr, Expr] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        """The one-dimensional buffer in place of `buffer`."""
        known = self.table.get(buffer)
        if known is None:
            known = self.table[buffer] = _flat_buffer(buffer)
            self.table[known] = known
        return known

    def visit_expr(self, expr: Expr) -> Expr:
        if not has_load(expr):
            return expr
        known = self.done.get(expr)
        if known is not None:
            return known
        result = expr
        new = tuple([self.visit_expr(child) for child in expr.children])
        if any(a is not b for a, b in zip(new, expr.children, strict=True)):
            result = expr.with_children(new)
        if isinstance(result, BufferLoad):
            buffer = self.flat(result.buffer)
            if buffer is not result.buffer:
                index = flat_index(result.buffer, result.indices, self.narrow)
                result = BufferLoad(buffer, (index,), result.predicate)
        self.done[expr] = result
        return result

    def visit_BufferStore(self, stmt: BufferStore) -> Stmt:
        result = StmtRewriter.visit_BufferStore(self, stmt)
        buffer = self.flat(stmt.buffer)
        if buffer is stmt.buffer or not isinstance(result, BufferStore):
            return result
        index = flat_index(stmt.buffer, result.indices, self.narrow)
        return result.replace(buffer=buffer, indices=(index,))

    def visit_Allocate(self, stmt: Allocate) -> Stmt:
        result = StmtRewriter.visit_Allocate(self, stmt)
        if len(stmt.extents) == 1 or not isinstance(result, Allocate):
            return result
        return result.replace(extents=(element_count(result.extents),))

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        return self.update(stmt, buffer=self.flat(stmt.buffer), body=self.visit(stmt.body))

    def visit_Block(self, stmt: Block) -> Block:
        raise InternalError(f"flatten_buffers met the block {stmt.name_hint!r}")


def _flat_buffer(buffer: Buffer) -> Buffer:
    if buffer.ndim == 1 and not buffer.strides and starts_at_zero(buffer.elem_offset):
        if buffer.elem_offset is None:
            return buffer
        return buffer.replace(elem_offset=None, offset_factor=0)
    return buffer.replace(
        shape=(buffer_span(buffer),),
        strides=(),
        elem_offset=None,
        offset_factor=0,
        axis_separators=(),
    )
