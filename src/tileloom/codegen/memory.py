"""Loads and stores: scalars, contiguous vectors, masked ones, gathers and scatters."""

from __future__ import annotations

import llvmlite.ir as ir

from ..base import DType
from ..base.errors import UnsupportedError
from ..expr import Broadcast, Expr, IntImm, Ramp, is_int
from ..tir import Buffer, BufferLoad, BufferStore
from . import strided
from .arith import intrinsic
from .emitter import Emitter
from .types import I1, I8, I32, I64, PTR, element_bytes, filled, lanes_of, memory_type, splat


def load(e: Emitter, expr: BufferLoad) -> ir.Value:
    """The value of a load of one element or of a vector of them."""
    index, mask = _flat(expr.buffer, expr.indices), e.mask
    if expr.predicate is not None:
        own = e.value(expr.predicate)
        mask = own if mask is None or mask.type != own.type else e.builder.and_(own, mask)
    lanes = index.dtype.lanes
    if mask is not None and (lanes == 1 or lanes_of(mask) != lanes):
        value = _load_if(e, expr, mask)
    elif lanes == 1:
        value = _load_at(e, expr.buffer, e.index(index), expr.buffer.dtype.lanes, None)
    else:
        value = _load_vector(e, expr.buffer, index, mask)
    return _to_register(e, expr.buffer.dtype, value)


def _load_if(e: Emitter, expr: BufferLoad, mask: ir.Value) -> ir.Value:
    """What serves several lanes at once, loaded if any of them wants it; else zeros."""
    b, index = e.builder, expr.indices[0]
    wanted = mask
    if lanes_of(mask) > 1:
        reduce = intrinsic(b, "llvm.vector.reduce.or", I1, [mask.type], (mask.type,))
        wanted = b.call(reduce, [mask])
    scalar = index.dtype.lanes == 1
    place = e.index(index) if scalar else e.value(index)  # has the guard of its own loads
    before = b.block
    with b.if_then(wanted):
        if scalar:
            value = _load_at(e, expr.buffer, place, expr.buffer.dtype.lanes, None)
        else:
            value = _gather(e, expr.buffer, place, index.dtype, None)
        inside = b.block
    phi = b.phi(value.type)
    phi.add_incoming(value, inside)
    phi.add_incoming(ir.Constant(value.type, None), before)
    return phi


def store(e: Emitter, stmt: BufferStore) -> None:
    """A store of one element or of a vector of them."""
    index = _flat(stmt.buffer, stmt.indices)
    value = _to_memory(e, stmt.buffer.dtype, e.value(stmt.value))
    mask = None if stmt.predicate is None else e.value(stmt.predicate)
    if index.dtype.lanes == 1:
        _store_at(e, stmt.buffer, e.index(index), value, mask)
        return
    if lanes_of(value) == 1:
        value = splat(e.builder, value, index.dtype.lanes)
    if isinstance(index, Ramp) and is_int(index.stride, 1):
        align = e.alignment(stmt.buffer, index.base)
        _store_at(e, stmt.buffer, e.index(index.base), value, mask, align)
    else:
        _scatter(e, stmt.buffer, index, value, mask)


def _flat(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    if len(indices) != 1:
        raise UnsupportedError(
            f"buffer {buffer.name!r} has {len(indices)} dimensions; flatten_buffers runs first"
        )
    return indices[0]


def address(e: Emitter, buffer: Buffer, index: ir.Value) -> ir.Value:
    """The address of element `index`."""
    element = memory_type(buffer.dtype)
    base = e.lookup(buffer.data)
    if isinstance(index, ir.Constant) and index.constant == 0:
        return base
    return e.builder.gep(base, [index], inbounds=True, source_etype=element)


def _load_at(
    e: Emitter,
    buffer: Buffer,
    index: ir.Value,
    lanes: int,
    mask: ir.Value | None,
    align: int | None = None,
) -> ir.Value:
    kind = memory_type(buffer.dtype.element.with_lanes(lanes))
    align = align or element_bytes(buffer.dtype)
    pointer = address(e, buffer, index)
    if mask is None or lanes == 1:
        return e.builder.load(pointer, align=align, typ=kind)
    function = intrinsic(
        e.builder, "llvm.masked.load", kind, [PTR, I32, mask.type, kind], (kind, PTR)
    )
    return e.builder.call(function, [pointer, I32(align), mask, ir.Constant(kind, None)])


def load_at(e: Emitter, buffer: Buffer, base: Expr, index: ir.Value, lanes: int) -> ir.Value:
    """Neighbours from `index` on, which is as well aligned as the expression `base`."""
    align = e.alignment(buffer, base) if lanes > 1 else None
    return _to_register(e, buffer.dtype, _load_at(e, buffer, index, lanes, None, align))


def _load_vector(e: Emitter, buffer: Buffer, index: Expr, mask: ir.Value | None) -> ir.Value:
    lanes = index.dtype.lanes
    if isinstance(index, Broadcast) and mask is None:
        scalar = _load_at(e, buffer, e.index(index.value), 1, None)
        return splat(e.builder, scalar, lanes)
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        step = index.stride.value
        if step == 1:
            align = e.alignment(buffer, index.base)
            return _load_at(e, buffer, e.index(index.base), lanes, mask, align)
        if step == -1 and mask is None:
            first = e.builder.sub(e.index(index.base), I64(lanes - 1))
            picks = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes - 1, -1, -1)))
            value = _load_at(e, buffer, first, lanes, None)
            return e.builder.shuffle_vector(value, value, picks)
        if strided.pays(step, lanes):
            base = e.index(index.base)

            def piece(offset: int, wanted: ir.Value | None) -> ir.Value:
                start = e.builder.add(base, I64(offset), flags=("nsw",)) if offset else base
                return _load_at(e, buffer, start, lanes, wanted)

            return strided.load_strided(e.builder, piece, step, lanes, mask)
    return _gather(e, buffer, e.value(index), index.dtype, mask)


def _gather(
    e: Emitter, buffer: Buffer, index: ir.Value, index_type: DType, mask: ir.Value | None
) -> ir.Value:
    lanes = index_type.lanes
    kind = memory_type(buffer.dtype.with_lanes(lanes))
    pointers = _addresses(e, buffer, index, index_type)
    flags = ir.VectorType(I1, lanes)
    function = intrinsic(
        e.builder, "llvm.masked.gather", kind, [pointers.type, I32, flags, kind],
        (kind, ir.VectorType(PTR, lanes)),
    )  # fmt: skip
    mask = filled(flags, 1) if mask is None else mask
    align = I32(element_bytes(buffer.dtype))
    return e.builder.call(function, [pointers, align, mask, ir.Constant(kind, None)])


def _scatter(
    e: Emitter, buffer: Buffer, index: Expr, value: ir.Value, mask: ir.Value | None
) -> None:
    pointers = _addresses(e, buffer, e.value(index), index.dtype)
    flags = ir.VectorType(I1, index.dtype.lanes)
    function = intrinsic(
        e.builder, "llvm.masked.scatter", ir.VoidType(), [value.type, pointers.type, I32, flags],
        (value.type, pointers.type),
    )  # fmt: skip
    mask = filled(flags, 1) if mask is None else mask
    e.builder.call(function, [value, pointers, I32(element_bytes(buffer.dtype)), mask])


def _addresses(e: Emitter, buffer: Buffer, value: ir.Value, kind: DType) -> ir.Value:
    b, wide = e.builder, ir.VectorType(I64, kind.lanes)
    if value.type != wide:
        value = b.zext(value, wide) if kind.is_unsigned else b.sext(value, wide)
    base, element = e.lookup(buffer.data), memory_type(buffer.dtype)
    pointers = ir.VectorType(PTR, kind.lanes)
    result = b.gep(base, [value], inbounds=True, source_etype=element)
    result.type = pointers
    return result


def _plain_store(
    e: Emitter, buffer: Buffer, value: ir.Value, pointer: ir.Value, align: int
) -> None:
    """A store, past the caches where that is asked for; then vectors are aligned as promised."""
    promised = e.streamed(buffer)
    if not promised or lanes_of(value) == 1:
        e.builder.store(value, pointer, align=align)
        return
    made = e.builder.store(value, pointer, align=max(align, promised))
    made.set_metadata("nontemporal", e.builder.module.add_metadata([I32(1)]))


def _store_at(
    e: Emitter,
    buffer: Buffer,
    index: ir.Value,
    value: ir.Value,
    mask: ir.Value | None,
    align: int | None = None,
) -> None:
    pointer, align = address(e, buffer, index), align or element_bytes(buffer.dtype)
    if mask is None or lanes_of(value) == 1:
        if mask is None:
            _plain_store(e, buffer, value, pointer, align)
            return
        with e.builder.if_then(mask):
            e.builder.store(value, pointer, align=align)
        return
    function = intrinsic(
        e.builder, "llvm.masked.store", ir.VoidType(), [value.type, PTR, I32, mask.type],
        (value.type, PTR),
    )  # fmt: skip
    e.builder.call(function, [value, pointer, I32(align), mask])


def _to_register(e: Emitter, kind: DType, value: ir.Value) -> ir.Value:
    if not kind.is_bool:
        return value
    return e.builder.icmp_unsigned("!=", value, filled(value.type, 0))


def _to_memory(e: Emitter, kind: DType, value: ir.Value) -> ir.Value:
    if not kind.is_bool:
        return value
    lanes = lanes_of(value)
    return e.builder.zext(value, I8 if lanes == 1 else ir.VectorType(I8, lanes))
