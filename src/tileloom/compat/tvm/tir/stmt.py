"""`tvm.tir.stmt`: statement nodes, built from TVM's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from .... import tir
from ....expr import Expr, ExprLike, Range, StringImm, as_expr, const
from ....tir import Buffer, Stmt, parts_of
from .._names import NodeType, missing, node_type


class ForKind(StrEnum):
    """The kinds of loops; `loop.kind == ForKind.PARALLEL`."""

    SERIAL = tir.SERIAL
    PARALLEL = tir.PARALLEL
    VECTORIZED = tir.VECTORIZED
    UNROLLED = tir.UNROLLED
    THREAD_BINDING = tir.THREAD_BINDING

    @classmethod
    def _missing_(cls, value: object) -> ForKind | None:
        return list(cls)[value] if isinstance(value, int) else None


def _exprs(values: Sequence[ExprLike]) -> tuple[Expr, ...]:
    return tuple(as_expr(value) for value in values)


def _for(
    loop_var: Any,
    min: ExprLike,
    extent: ExprLike,
    kind: Any,
    body: Stmt,
    thread_binding: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> tir.For:
    low, size = as_expr(min, loop_var.dtype), as_expr(extent, loop_var.dtype)
    name = str(ForKind(kind).value)
    return tir.For(loop_var, low, size, name, body, thread_binding, dict(annotations or {}))


def _block(
    iter_vars: Sequence[Any],
    reads: Sequence[Any],
    writes: Sequence[Any],
    name_hint: str,
    body: Stmt,
    init: Stmt | None = None,
    alloc_buffers: Sequence[Buffer] | None = None,
    match_buffers: Sequence[Any] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> tir.Block:
    return tir.Block(
        tuple(iter_vars),
        tuple(reads),
        tuple(writes),
        name_hint,
        body,
        init,
        tuple(alloc_buffers or ()),
        tuple(match_buffers or ()),
        dict(annotations or {}),
    )


def _allocate(
    buffer_var: Any,
    dtype: str,
    extents: Sequence[ExprLike],
    condition: ExprLike,
    body: Stmt,
    annotations: Mapping[str, Any] | None = None,
) -> tir.Allocate:
    kind = const(0, dtype).dtype
    size, when = _exprs(extents), as_expr(condition).astype("bool")
    return tir.Allocate(buffer_var, kind, size, when, body, dict(annotations or {}))


def _allocate_const(
    buffer_var: Any,
    dtype: str,
    extents: Sequence[ExprLike],
    data_or_idx: Any,
    body: Stmt,
    annotations: Mapping[str, Any] | None = None,
) -> tir.AllocateConst:
    kind = const(0, dtype).dtype
    data = np.asarray(data_or_idx)
    return tir.AllocateConst(buffer_var, kind, _exprs(extents), data, body, dict(annotations or {}))


def _assert(condition: ExprLike, message: Any, body: Stmt) -> tir.AssertStmt:
    text = message.value if isinstance(message, StringImm) else str(message)
    return tir.AssertStmt(as_expr(condition), text, body)


For = node_type(tir.For, _for)
Block = node_type(tir.Block, _block)
Allocate = node_type(tir.Allocate, _allocate)
AllocateConst = node_type(tir.AllocateConst, _allocate_const)
AssertStmt = node_type(tir.AssertStmt, _assert)
BlockRealize = node_type(
    tir.BlockRealize,
    lambda iter_values, predicate, block: tir.BlockRealize(
        _exprs(iter_values), as_expr(predicate).astype("bool"), block
    ),
)
BufferStore = node_type(
    tir.BufferStore,
    lambda buffer, value, indices, predicate=None: tir.BufferStore(
        buffer, as_expr(value, buffer.dtype), _exprs(indices), predicate
    ),
)
MatchBufferRegion = node_type(tir.MatchBufferRegion)
SeqStmt = node_type(tir.SeqStmt, lambda seq: tir.SeqStmt(tuple(seq)))
IfThenElse = node_type(
    tir.IfThenElse,
    lambda condition, then_case, else_case=None: tir.IfThenElse(
        as_expr(condition), then_case, else_case
    ),
)
LetStmt = node_type(
    tir.LetStmt, lambda var, value, body: tir.LetStmt(var, as_expr(value, var.dtype), body)
)
AttrStmt = node_type(
    tir.AttrStmt,
    lambda node, attr_key, value, body: tir.AttrStmt(node, attr_key, as_expr(value), body),
)
While = node_type(tir.While, lambda condition, body: tir.While(as_expr(condition), body))
Evaluate = node_type(tir.Evaluate, lambda value: tir.Evaluate(as_expr(value)))
DeclBuffer = node_type(tir.DeclBuffer)


class BufferRegion(metaclass=NodeType, node=tir.BufferRegion):
    """A box of a buffer; an index stands for the range of one element."""

    @staticmethod
    def build(buffer: Buffer, region: Sequence[Any]) -> tir.BufferRegion:
        """The box of some ranges and indices."""
        parts = (part if isinstance(part, Range) else Range(part, 1) for part in region)
        return tir.BufferRegion(buffer, tuple(parts))

    @staticmethod
    def full_region(buffer: Buffer) -> tir.BufferRegion:
        """The whole buffer."""
        return tir.BufferRegion.full(buffer)

    @staticmethod
    def from_point(buffer: Buffer, indices: Sequence[ExprLike]) -> tir.BufferRegion:
        """One element."""
        return tir.BufferRegion.point(buffer, _exprs(indices))


def stmt_seq(*args: Any) -> Stmt:
    """Statements in a row; an expression is evaluated."""
    return tir.seq(*(tir.Evaluate(arg) if isinstance(arg, Expr) else arg for arg in args))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence."""
    return list(parts_of(stmt))


__all__ = [
    "Allocate", "AllocateConst", "AssertStmt", "AttrStmt", "Block", "BlockRealize", "BufferRegion",
    "BufferStore", "DeclBuffer", "Evaluate", "For", "ForKind", "IfThenElse", "LetStmt",
    "MatchBufferRegion", "SeqStmt", "Stmt", "While", "stmt_list", "stmt_seq",
]  # fmt: skip
__getattr__ = missing(__name__)
