"""Results of functions: where they are left, and how they are read."""

from __future__ import annotations

import llvmlite.ir as ir

from ..base import DType
from .types import I1, I8, opaque, register_type


def result_slot(builder: ir.IRBuilder, kind: DType) -> ir.Value:
    """Memory for a result of this type, made once in each run of the function around it."""
    with builder.goto_entry_block():
        return opaque(builder.alloca(I8 if kind.is_bool else register_type(kind)))


def store_result(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
    """Leave a result; a truth value takes a byte."""
    builder.store(builder.zext(value, I8) if value.type == I1 else value, pointer)


def load_scalar(builder: ir.IRBuilder, pointer: ir.Value, kind: ir.Type) -> ir.Value:
    """A scalar of a register's type from memory; a truth value takes a byte."""
    if kind == I1:
        return builder.icmp_unsigned("!=", builder.load(pointer, typ=I8), I8(0))
    return builder.load(pointer, typ=kind)
