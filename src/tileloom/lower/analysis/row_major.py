"""Buffers as rows of elements: how long they are, and where an element is in them."""

from __future__ import annotations

from collections.abc import Sequence

from ...base import DType, dtype
from ...expr import Expr, IntImm, cast, const
from ...tir import Buffer
from . import lanes
from .linear import linear, number
from .rejoin import PositionTerm, rejoined

_INT32, _INT64 = dtype("int32"), dtype("int64")
_INT32_LIMIT = 1 << 31


def starts_at_zero(offset: Expr | None) -> bool:
    """Whether a buffer with this offset begins where its pointer points."""
    return offset is None or (isinstance(offset, IntImm) and offset.value == 0)


def buffer_span(buffer: Buffer) -> Expr:
    """How many elements from its pointer a buffer reaches."""
    if not buffer.strides:
        size = element_count(buffer.shape)
    elif buffer.static_shape is not None and 0 in buffer.static_shape:
        size = const(0, index_type(buffer))
    else:
        kind = index_type(buffer)
        last = number(1)
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            last = last.plus(linear((cast(kind, extent) - 1) * cast(kind, stride)))
        size = last.to_expr(kind)
    if starts_at_zero(buffer.elem_offset) or buffer.elem_offset is None:
        return size
    return size + cast(size.dtype, buffer.elem_offset)  # type: ignore[no-any-return]


def element_count(extents: Sequence[Expr]) -> Expr:
    """The product of extents, in a type that holds it."""
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
    if buffer.ndim <= 1 and not buffer.strides and starts_at_zero(buffer.elem_offset):
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
    total = number(0)
    if buffer.elem_offset is not None:
        total = linear(cast(kind, buffer.elem_offset))
    vector: Expr | None = None
    strides = row_major_strides(buffer, kind)
    for term in rejoined(list(map(PositionTerm, indices, strides))):
        index, stride = term.index, term.stride
        if index.dtype.lanes > 1:
            lane = lanes.multiply(lanes.convert(index, kind), stride)
            vector = lane if vector is None else lanes.add(vector, lane)
        elif isinstance(stride, IntImm):
            total = total.plus(linear(index), stride.value)
        else:
            total = total.plus(linear(cast(kind, index) * stride))
    scalar = total.to_expr(kind)
    return scalar if vector is None else lanes.add(scalar, vector)


def _common_type(kind: DType, indices: Sequence[Expr]) -> DType:
    # An index that is already wide stays so; narrow_index_dtype knows whether it may be narrowed.
    return _INT64 if any(index.dtype.bits > 32 for index in indices) else kind
