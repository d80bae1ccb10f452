"""Buffers and stored values from notes, under the name that the script gives them."""

from __future__ import annotations

from ..base import DType, UserError
from ..base.dtype import wrap_int
from ..base.errors import DTypeError
from ..base.late import TYPE_CHECKING
from ..expr import Cast, Expr, ExprLike, FloatImm, IntImm, Var, as_expr, broadcast_to, const
from ..tir import Buffer
from ..tir.nodes import check_extents
from .notes import BufferNote, VarNote, as_region

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Define = Callable[[str, Var], Any]  # enters a name that a declaration brings about

_FIELDS = {
    "shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor",
    "buffer_type", "axis_separators",
}  # fmt: skip


def make_buffer(note: BufferNote, name: str, define: Define) -> Buffer:
    """The buffer that a note describes."""
    fields = note.fields
    unknown = [key for key in fields if key not in _FIELDS]
    if unknown:
        raise UserError(f"a buffer has no {unknown[0]!r}", hint=f"known are {sorted(_FIELDS)}")
    shape = _shape(note, define)
    check_extents(shape, name)
    kind: DType = fields["dtype"]
    data = fields.get("data")
    scope = fields.get("scope")
    if data is not None and not (isinstance(data, Var) and data.dtype.is_handle):
        raise UserError(f"data must be a pointer variable, got {data!r}")
    if scope is None:
        scope = data.pointee[1] if data is not None and data.pointee is not None else "global"
    strides = fields.get("strides") or ()
    if strides and len(strides) != len(shape):
        raise UserError(
            f"a buffer of {len(shape)} dimensions has as many strides, not {len(strides)}"
        )
    align = fields.get("align", 64)
    buffer_type = fields.get("buffer_type") or "default"
    return Buffer(
        Var(name, "handle", (kind, scope)) if data is None else data,
        kind,
        shape,
        name,
        tuple(_dimension(s, f"{name}_s{i}", define) for i, s in enumerate(strides)),
        _offset(fields, name, shape, define),
        scope,
        64 if align in (-1, 0) else int(align),
        int(fields.get("offset_factor", 0)),
        tuple(int(axis) for axis in fields.get("axis_separators") or ()),
        "auto_broadcast" if buffer_type == "auto" else buffer_type,
    )


def _shape(note: BufferNote, define: Define) -> tuple[Expr, ...]:
    shape = note.fields["shape"]
    if shape is None:
        if isinstance(note.source, Var):
            raise UserError("match_buffer of a parameter needs a shape")
        return tuple(item.extent for item in as_region(note.source).region)
    return tuple(_dimension(extent, f"d{i}", define) for i, extent in enumerate(shape))


def _dimension(value: Any, name: str, define: Define) -> Expr:
    """An extent or a stride; a string or a bare type is a new variable."""
    if isinstance(value, str):
        var = Var(value, "int32")
        define(value, var)
        return var
    if isinstance(value, VarNote):
        return value.named(name)
    result = as_expr(value)
    if not result.dtype.is_int:
        raise DTypeError(f"an extent or stride must be an integer, got {result.dtype}: {result}")
    return result


def _offset(
    fields: dict[str, Any], name: str, shape: tuple[Expr, ...], define: Define
) -> Expr | None:
    if "elem_offset" in fields:
        offset = fields["elem_offset"]
        return None if offset is None else _dimension(offset, f"{name}_elem_offset", define)
    if fields.get("offset_factor", 0):
        return Var(f"{name}_elem_offset", shape[0].dtype if shape else "int32")
    return None


def stored_value(buffer: Buffer, indices: tuple[Expr, ...], value: ExprLike) -> Expr:
    """What is stored, in the buffer's type: numbers and integers are cast, scalars repeated."""
    lanes = buffer.dtype.lanes * (indices[-1].dtype.lanes if indices else 1)
    kind = buffer.dtype.element
    expr = _number(value, kind) if not hasattr(value, "__tileloom_expr__") else as_expr(value)
    if isinstance(expr, (IntImm, FloatImm)) and expr.dtype is not kind:
        expr = _number(expr.value, kind)
    if expr.dtype.is_int and not expr.dtype.is_bool and kind.is_float:
        expr = Cast(kind.with_lanes(expr.dtype.lanes), expr)
    if expr.dtype.element is not kind:
        raise DTypeError(
            f"cannot store {expr.dtype} in {buffer.name}, which holds {buffer.dtype}",
            hint=f'write T.Cast("{kind}", ...)',
        )
    return broadcast_to(expr, lanes)


def _number(value: Any, kind: DType) -> Expr:
    if isinstance(value, Expr):
        return value
    if isinstance(value, float) and not kind.is_float:
        raise DTypeError(f"cannot store the float {value} as {kind}", hint="cast it first")
    if kind.is_int and wrap_int(int(value), kind) != value:
        raise DTypeError(f"{value} is out of the range of {kind}")
    return const(value, kind)
