"""How types and constants of tensor IR look in LLVM.

A bool is `i1` in a register and a byte in memory. A bfloat16 is an `i16` everywhere: arithmetic
widens it to float and rounds back, which every CPU can do exactly.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import llvmlite.ir as ir
import numpy as np

from ..base import DType
from ..base.errors import UnsupportedError

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
PTR = ir.PointerType()
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's type of bfloat16, of which llvmlite has none."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


#: Only where an instruction asks for it: elsewhere bfloat16 is I16.
BF16 = _BFloat()
_FLOATS = {16: F16, 32: F32, 64: F64}


def register_type(kind: DType) -> ir.Type:
    """The type of a value of this type in a register."""
    if kind.is_handle:
        return PTR
    if kind.is_bool:
        element = I1
    elif kind.code == "bfloat":
        element = I16
    elif kind.code == "float8":
        element = I8
    elif kind.code == "float":
        element = _FLOATS[kind.bits]
    elif kind.is_int and kind.bits in (8, 16, 32, 64):
        element = ir.IntType(kind.bits)
    else:
        raise UnsupportedError(f"the CPU code generator has no type for {kind}")
    return element if kind.lanes == 1 else ir.VectorType(element, kind.lanes)


def memory_type(kind: DType) -> ir.Type:
    """The type of an element in memory."""
    if not kind.is_bool:
        return register_type(kind)
    return I8 if kind.lanes == 1 else ir.VectorType(I8, kind.lanes)


def element_bytes(kind: DType) -> int:
    """The size of one element in memory."""
    return max(1, kind.bits // 8)


def constant(kind: DType, value: float | int) -> ir.Constant:
    """A scalar constant."""
    if kind.code == "bfloat":
        return ir.Constant(I16, int(np.float32(value).astype(kind.numpy).view(np.uint16)))
    if kind.code == "float8":
        return ir.Constant(I8, int(np.float32(value).astype(kind.numpy).view(np.uint8)))
    if kind.is_float:
        return _float_constant(kind, float(value))
    if kind.code == "uint" and value >= 1 << (kind.bits - 1):
        value = int(value) - (1 << kind.bits)
    return ir.Constant(register_type(kind), int(value))


def _float_constant(kind: DType, value: float) -> ir.Constant:
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(value).astype(kind.numpy))
    if math.isfinite(rounded):
        return ir.Constant(_FLOATS[kind.bits], rounded)
    return _Special(_FLOATS[kind.bits], rounded)


class _Special(ir.Constant):  # type: ignore[misc]
    """An infinity or NaN, which llvmlite would write in a form that only some types accept."""

    def __init__(self, typ: ir.Type, value: float) -> None:
        super().__init__(typ, 0.0)
        double = struct.unpack("<Q", struct.pack("<d", value))[0]
        self._text = f"0x{double:016X}"
        if typ is F16:
            half = struct.unpack("<H", struct.pack("<e", value))[0]
            self._text = f"0xH{half:04X}"

    def get_reference(self) -> str:
        """The bits in hexadecimal."""
        return self._text


class _Splat(ir.Constant):  # type: ignore[misc]
    """The same constant in each lane; llvmlite would write it out lane by lane."""

    def __init__(self, scalar: ir.Constant, lanes: int) -> None:
        super().__init__(ir.VectorType(scalar.type, lanes), None)
        self.scalar = scalar

    def get_reference(self) -> str:
        """LLVM's short form."""
        return f"splat ({self.scalar.type} {self.scalar.get_reference()})"


def splat(builder: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A vector of `lanes` copies."""
    if isinstance(value, ir.Constant):
        return _Splat(value, lanes)
    vector = ir.VectorType(value.type, lanes)
    undef = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undef, value, I32(0))
    return builder.shuffle_vector(first, undef, filled(ir.VectorType(I32, lanes), 0))


def known_integer(value: ir.Value) -> int | None:
    """The number that an integer constant is in each lane; None for what is not constant."""
    if isinstance(value, _Splat):
        value = value.scalar
    number = value.constant if isinstance(value, ir.Constant) else None
    return number if isinstance(number, int) else None


def lanes_of(value: ir.Value) -> int:
    """The number of lanes of a value."""
    return value.type.count if isinstance(value.type, ir.VectorType) else 1


def like(value: ir.Value, element: ir.Type) -> ir.Type:
    """`element`, with the lanes of `value`."""
    lanes = lanes_of(value)
    return element if lanes == 1 else ir.VectorType(element, lanes)


def filled(typ: ir.Type, value: Any) -> ir.Constant:
    """A constant of a scalar or vector type, the same in each lane."""
    if isinstance(typ, ir.VectorType):
        return _Splat(ir.Constant(typ.element, value), typ.count)
    return ir.Constant(typ, value)


def opaque(value: ir.Value) -> ir.Value:
    """A stack slot, global or function as a plain `ptr`, whatever llvmlite says it points to."""
    value.type = PTR
    return value
