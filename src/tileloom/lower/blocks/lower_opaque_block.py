"""Blocks are gone: what is left are loops, branches and allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.errors import InternalError
from ...expr import IntImm, StringImm, as_expr, const
from ...tir import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    DeclBuffer,
    For,
    PrimFunc,
    Stmt,
    seq,
)
from ..analysis.row_major import buffer_span
from ..common import Replacer, branch, on_body

DOUBLE_BUFFER = "double_buffer_scope"
_TRUE = const(True)


def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """Predicates become branches, `alloc_buffers` become `Allocate`, unit loops go.

    Needs: blocks without iteration variables, init and match_buffers.
    Ensures: the loops stage. A loop of one iteration is replaced by its body unless it is bound to
    a thread. Block annotations that begin with "pragma_" become attributes of the body, and so does
    "double_buffer_scope" (the number of the block's write); the others have been consumed by the
    passes before, and go.
    """
    return on_body(func, _LowerBlocks({}, {}).visit)


class _LowerBlocks(Replacer):
    def visit_BlockRealize(self, stmt: BlockRealize) -> Stmt:
        block = stmt.block
        if stmt.iter_values or block.iter_vars or block.init or block.match_buffers:
            raise InternalError(f"lower_opaque_block met the block {block.name_hint!r} as it was")
        predicate = self.visit_expr(stmt.predicate)
        buffers = [self.visit_buffer(buffer) for buffer in block.alloc_buffers]
        body = branch(predicate, self.visit(block.body)) or seq()
        for key, value in block.annotations.items():
            body = _pragma(key, value, body)
        if DOUBLE_BUFFER in block.annotations and block.writes:
            written = block.writes[int(block.annotations[DOUBLE_BUFFER])].buffer
            body = AttrStmt(self.visit_buffer(written).data, DOUBLE_BUFFER, const(1), body)
        for buffer in reversed(buffers):
            body = allocate(buffer, body)
        return body

    def visit_Block(self, stmt: Block) -> Block:
        raise InternalError(f"the block {stmt.name_hint!r} stands outside a BlockRealize")

    def visit_For(self, stmt: For) -> Stmt:
        extent = self.visit_expr(stmt.extent)
        if isinstance(extent, IntImm) and extent.value == 1 and stmt.thread_binding is None:
            self.define(stmt.loop_var, self.visit_expr(stmt.min))
            body = self.visit(stmt.body)
            return _keep_pragmas(stmt.annotations, body)
        return super().visit_For(stmt)


def _keep_pragmas(annotations: Mapping[str, Any], body: Stmt) -> Stmt:
    for key, value in annotations.items():
        body = _pragma(key, value, body)
    return body


def _pragma(key: str, value: Any, body: Stmt) -> Stmt:
    if not key.startswith("pragma_"):
        return body
    return AttrStmt(StringImm(key), key, as_expr(value), body)


def allocate(buffer: Buffer, body: Stmt) -> Stmt:
    """Memory for a buffer around a body."""
    extents = (buffer_span(buffer),) if buffer.strides else buffer.shape
    inner = DeclBuffer(buffer, body)
    return Allocate(buffer.data, buffer.dtype, extents, _TRUE, inner)
