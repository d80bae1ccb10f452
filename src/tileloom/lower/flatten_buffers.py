"""Multi-dimensional buffers become rows of elements."""

from __future__ import annotations

from collections.abc import Sequence

from ..base import DType, dtype
from ..base.errors import InternalError
from ..expr import Expr, IntImm, cast, const
from ..tir import (
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
from . import lanes
from .common import has_load
from .linear import Linear, linear

_INT32, _INT64 = dtype("int32"), dtype("int64")
_INT32_LIMIT = 1 << 31
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
        return result.replace(extents=(_product(result.extents),))

    def visit_DeclBuffer(self, stmt: DeclBuffer) -> Stmt:
        return self.update(stmt, buffer=self.flat(stmt.buffer), body=self.visit(stmt.body))

    def visit_Block(self, stmt: Block) -> Stmt:
        raise InternalError(f"flatten_buffers met the block {stmt.name_hint!r}")


def _flat_buffer(buffer: Buffer) -> Buffer:
    if buffer.ndim == 1 and not buffer.strides and _is_zero(buffer.elem_offset):
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


def _is_zero(offset: Expr | None) -> bool:
    return offset is None or (isinstance(offset, IntImm) and offset.value == 0)


def buffer_span(buffer: Buffer) -> Expr:
    """How many elements from its pointer a buffer reaches."""
    if not buffer.strides:
        size = _product(buffer.shape)
    elif buffer.static_shape is not None and 0 in buffer.static_shape:
        size = const(0, index_type(buffer))
    else:
        kind = index_type(buffer)
        last = Linear({}, 1)
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            last = last.plus(linear((cast(kind, extent) - 1) * cast(kind, stride)))
        size = last.to_expr(kind)
    if _is_zero(buffer.elem_offset) or buffer.elem_offset is None:
        return size
    return size + cast(size.dtype, buffer.elem_offset)  # type: ignore[no-any-return]


def _product(extents: Sequence[Expr]) -> Expr:
    if all(isinstance(extent, IntImm) for extent in extents):
        total = 1
        for extent in extents:
            total *= int(extent)  # type: ignore[call-overload]
        return const(total, _INT32 if total < _INT32_LIMIT else _INT64)
    result: Expr = cast(_INT64, extents[0])
    for extent in extents[1:]:
        result = result * cast(_INT64, extent)
    return result


def index_type(buffer: Buffer) -> DType:
    """The type in which the buffer's flat indices are computed without overflow."""
    parts = (*buffer.shape, *buffer.strides)
    if buffer.elem_offset is not None:
        parts = (*parts, buffer.elem_offset)
    if buffer.ndim <= 1 and not buffer.strides and _is_zero(buffer.elem_offset):
        return buffer.shape[0].dtype if buffer.shape else _INT32
    if any(part.dtype.bits > 32 and not isinstance(part, IntImm) for part in parts):
        return _INT64
    if not all(isinstance(part, IntImm) for part in parts):
        return _INT64
    return _INT32 if _reach(buffer) < _INT32_LIMIT else _INT64


def _reach(buffer: Buffer) -> int:
    """An upper bound of the index of a buffer with constant shape, strides and offset."""
    shape = [max(int(extent), 1) for extent in buffer.shape]  # type: ignore[call-overload]
    strides = [abs(int(stride)) for stride in buffer.strides]  # type: ignore[call-overload]
    if not strides:
        total = 1
        for extent in shape:
            total *= extent
    else:
        total = sum(e * s for e, s in zip(shape, strides, strict=True))
    offset = buffer.elem_offset
    return total + (abs(offset.value) if isinstance(offset, IntImm) else 0)


def row_major_strides(buffer: Buffer, kind: DType) -> list[Expr]:
    """The strides, in elements, those of a compact buffer spelt out."""
    if buffer.strides:
        return [cast(kind, stride) for stride in buffer.strides]
    strides: list[Expr] = []
    step: Expr = const(1, kind)
    for extent in reversed(buffer.shape):
        strides.append(step)
        step = step * cast(kind, extent)
    return strides[::-1]


def flat_index(buffer: Buffer, indices: Sequence[Expr], narrow: bool = False) -> Expr:
    """The position of an element, counted from the buffer's pointer.

    Args:
        narrow: whether buffers of unknown extents have less than 2^31 elements.
    """
    known = all(isinstance(part, IntImm) for part in (*buffer.shape, *buffer.strides))
    kind = _common_type(_INT32 if narrow and not known else index_type(buffer), indices)
    strides = row_major_strides(buffer, kind)
    total = Linear({}, 0)
    if buffer.elem_offset is not None:
        total = linear(cast(kind, buffer.elem_offset))
    vector: Expr | None = None
    for index, stride in zip(indices, strides, strict=True):
        if index.dtype.lanes > 1:
            part = lanes.multiply(lanes.convert(index, kind), stride)
            vector = part if vector is None else lanes.add(vector, part)
        elif isinstance(stride, IntImm):
            total = total.plus(linear(index), stride.value)
        else:
            total = total.plus(linear(cast(kind, index) * stride))
    scalar = total.to_expr(kind)
    return scalar if vector is None else lanes.add(scalar, vector)


def _common_type(kind: DType, indices: Sequence[Expr]) -> DType:
    # An index that is already wide stays so; narrow_index_dtype knows whether it may be narrowed.
    return _INT64 if any(index.dtype.bits > 32 for index in indices) else kind
