"""Declarations of buffers as text: `T.match_buffer(a, (n, m), "float16", strides=("s", 1))`."""

from __future__ import annotations

from ..expr import Expr, SizeVar, Var
from ..tir import Buffer
from .show_expr import ExprPrinter, show_string


def is_simple(buffer: Buffer) -> bool:
    """Whether shape and type say it all, so that a parameter can be written `T.Buffer(...)`."""
    return (
        not buffer.strides
        and buffer.static_shape is not None
        and buffer.elem_offset is None
        and buffer.scope == "global"
        and buffer.data_alignment == 64
        and buffer.offset_factor in (0, 1)
        and buffer.buffer_type == "default"
        and not buffer.axis_separators
    )


def type_text(var: Var) -> str:
    """The annotation of a parameter or variable."""
    if var.dtype.is_handle and var.pointee is not None:
        kind, scope = var.pointee
        tail = "" if scope == "global" else f', "{scope}"'
        return f'T.handle("{kind}"{tail})'
    if isinstance(var, SizeVar):
        return f"T.{var.dtype}(is_size_var=True)"
    return f"T.{var.dtype}"


def declaration(var: Var) -> str:
    """What makes a new variable of the same type: `T.int32()`."""
    text = type_text(var)
    return text if text.endswith(")") else f"{text}()"


class BufferPrinter:
    """Prints buffers' declarations; names the variables that a declaration binds."""

    def __init__(self, expr: ExprPrinter) -> None:
        self.expr = expr
        self.names = expr.names

    def define(self, buffer: Buffer) -> str:
        """Name a buffer, and let its pointer be `name.data` unless it has a name."""
        name = self.names.define(buffer, buffer.name)
        if buffer.data not in self.names:
            self.names.alias(buffer.data, f"{name}.data")
        return name

    def call(self, function: str, *leading: str, buffer: Buffer, data: Expr | None = None) -> str:
        """`function(leading..., shape, dtype, fields...)`; a pointer only if one is given."""
        parts = [*leading, self.expr.tuple(buffer.shape) if buffer.shape else "()"]
        if buffer.dtype != "float32":
            parts.append(f'"{buffer.dtype}"')
        if data is not None:
            parts.append(f"data={self.expr(data)}")
        return f"{function}({', '.join([*parts, *self._fields(buffer, data is not None)])})"

    def annotation(self, buffer: Buffer) -> str:
        """The annotation of a parameter whose buffer is simple."""
        shape = self.expr.tuple(buffer.shape) if buffer.shape else "()"
        return f'T.Buffer({shape}, "{buffer.dtype}")'

    def _fields(self, buffer: Buffer, over_data: bool) -> list[str]:
        name = self.expr.buffer(buffer)
        parts = []
        if buffer.strides:
            strides = [
                self._stride(s, f"{name}.strides[{i}]") for i, s in enumerate(buffer.strides)
            ]
            comma = "," if len(strides) == 1 else ""
            parts.append(f"strides=({', '.join(strides)}{comma})")
        if buffer.elem_offset is None:
            parts += ["elem_offset=None"] if buffer.offset_factor else []
        elif not self._binds_offset(buffer, f"{name}.elem_offset"):
            parts.append(f"elem_offset={self._own(buffer.elem_offset, f'{name}.elem_offset')}")
        if buffer.scope != "global" and not (over_data and _scope_of(buffer.data) == buffer.scope):
            parts.append(f"scope={show_string(buffer.scope)}")
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor:
            parts.append(f"offset_factor={buffer.offset_factor}")
        if buffer.buffer_type != "default":
            kind = "auto" if buffer.buffer_type == "auto_broadcast" else buffer.buffer_type
            parts.append(f'buffer_type="{kind}"')
        if buffer.axis_separators:
            parts.append(f"axis_separators={list(buffer.axis_separators)}")
        return parts

    def _stride(self, stride: Expr, place: str) -> str:
        if type(stride) is Var and stride.dtype == "int32" and stride not in self.names:
            self.names.alias(stride, place)
            return show_string(stride.name)
        return self._own(stride, place)

    def _own(self, expr: Expr, place: str) -> str:
        """An expression, or the type of a variable that is new here."""
        if isinstance(expr, Var) and expr not in self.names:
            self.names.alias(expr, place)
            return declaration(expr)
        return self.expr(expr)

    def _binds_offset(self, buffer: Buffer, place: str) -> bool:
        """Whether the offset is a new variable, which an offset factor brings about."""
        offset = buffer.elem_offset
        kind = buffer.shape[0].dtype if buffer.shape else "int32"
        plain = type(offset) is Var and offset.dtype == kind
        if isinstance(offset, Var) and plain and offset not in self.names and buffer.offset_factor:
            self.names.alias(offset, place)
            return True
        return False


def _scope_of(pointer: Var) -> str:
    return "global" if pointer.pointee is None else pointer.pointee[1]
