"""Operators on LLVM values, with the meaning that tensor IR gives them.

Nothing here traps: an integer division by zero gives zero, and shifts by the width or more give
what shifting one bit at a time would.
"""

from __future__ import annotations

import llvmlite.ir as ir
from llvmlite.ir import IRBuilder as Builder

from ..base import DType, dtype
from ..base.errors import UnsupportedError
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
)
from . import vmath
from .types import BF16, F32, I16, I32, filled, known_integer, like, register_type

#: A product may be fused into a following sum: one rounding less.
CONTRACT = ("contract",)

#: Attribute of modules for machines that round to bfloat16 by an instruction.
ROUNDS_BFLOAT = "rounds_bfloat"

#: Attribute of modules for CPUs: LLVM's names of the features that the code may use.
FEATURES = "cpu_features"

_FLOAT = dtype("float32")
_COMPARE = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_FLOAT_OPS: dict[type[Expr], str] = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv"}
_INT_OPS: dict[type[Expr], str] = {Add: "add", Sub: "sub", Mul: "mul"}


def binary(
    b: Builder,
    op: type[Expr],
    kind: DType,
    x: ir.Value,
    y: ir.Value,
    flags: tuple[str, ...] = CONTRACT,
) -> ir.Value:
    """`op` of two values of type `kind`; `flags` say what may be done to roundings."""
    if op is And:
        return b.and_(x, y)
    if op is Or:
        return b.or_(x, y)
    if kind.code == "bfloat":
        result = binary(b, op, _FLOAT, widen_bfloat(b, x), widen_bfloat(b, y), flags)
        return result if op in _COMPARE else round_bfloat(b, result)
    _need_arithmetic(kind)
    if kind.is_float:
        return _float_binary(b, op, x, y, flags)
    return _int_binary(b, op, kind, x, y)


def _need_arithmetic(kind: DType) -> None:
    if kind.code == "float8":
        raise UnsupportedError(f"there is no arithmetic on {kind} outside of matrix units")


def _float_binary(
    b: Builder, op: type[Expr], x: ir.Value, y: ir.Value, flags: tuple[str, ...]
) -> ir.Value:
    if op in _FLOAT_OPS:
        return getattr(b, _FLOAT_OPS[op])(x, y, flags=flags)
    if op in _COMPARE:
        compare = b.fcmp_unordered if op is NE else b.fcmp_ordered
        return compare(_COMPARE[op], x, y)
    if op is Min or op is Max:
        return vmath.emit(b, "min" if op is Min else "max", [x, y])
    if op is FloorDiv:
        return vmath.emit(b, "floor", [b.fdiv(x, y)])
    if op is Mod:
        return vmath.emit(b, "fmod", [x, y])
    if op is FloorMod:
        rest = vmath.emit(b, "fmod", [x, y])
        zero = filled(x.type, 0.0)
        opposite = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
        fix = b.and_(opposite, b.fcmp_ordered("!=", rest, zero))
        return b.select(fix, b.fadd(rest, y), rest)
    raise UnsupportedError(f"no code for {op.__name__} on floating point")


def _int_binary(b: Builder, op: type[Expr], kind: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    signed = kind.code == "int"
    if op in _INT_OPS:
        return getattr(b, _INT_OPS[op])(x, y)
    if op in _COMPARE:
        return (b.icmp_signed if signed else b.icmp_unsigned)(_COMPARE[op], x, y)
    if op is Min or op is Max:
        less = (b.icmp_signed if signed else b.icmp_unsigned)("<", x, y)
        return b.select(less, x, y) if op is Min else b.select(less, y, x)
    return _divide(b, op, signed, x, y)


def _divide(b: Builder, op: type[Expr], signed: bool, x: ir.Value, y: ir.Value) -> ir.Value:
    zero, one = filled(x.type, 0), filled(x.type, 1)
    remainder = op in (Mod, FloorMod)
    constant = known_integer(y) not in (None, 0, -1)
    if not constant:  # a user's zero must not end the process
        bad = b.icmp_unsigned("==", y, zero)
        y = b.select(bad, one, y)
    if not signed:
        result = b.urem(x, y) if remainder else b.udiv(x, y)
        return result if constant else b.select(bad, zero, result)
    if not constant:  # neither must the one quotient that overflows
        minus = b.icmp_signed("==", y, filled(x.type, -1))
        safe = b.select(minus, one, y)
        quotient = b.select(minus, b.neg(x), b.sdiv(x, safe))
        rest = b.sub(x, b.mul(quotient, y))
    else:
        quotient, rest = b.sdiv(x, y), b.srem(x, y)
    if op in (FloorDiv, FloorMod):
        apart = b.icmp_signed("<", b.xor(rest, y), zero)
        fix = b.and_(apart, b.icmp_signed("!=", rest, zero))
        quotient = b.select(fix, b.sub(quotient, one), quotient)
        rest = b.select(fix, b.add(rest, y), rest)
    result = rest if remainder else quotient
    return result if constant else b.select(bad, zero, result)


def cast(b: Builder, value: ir.Value, source: DType, target: DType) -> ir.Value:
    """A conversion; a float out of an integer's range saturates, NaN becomes 0."""
    if source.element is target.element:
        return value
    if source.code == "bfloat":
        return cast(b, widen_bfloat(b, value), _FLOAT.with_lanes(source.lanes), target)
    if target.code == "bfloat":
        single = _FLOAT.with_lanes(target.lanes)
        return round_bfloat(b, cast(b, value, source, single))
    for kind in (source, target):
        _need_arithmetic(kind)
    to = register_type(target)
    if target.is_bool:
        return _to_bool(b, value, source)
    if source.is_float:
        return _from_float(b, value, source, target, to)
    if target.is_float:
        unsigned = source.is_unsigned or source.is_bool
        return b.uitofp(value, to) if unsigned else b.sitofp(value, to)
    if source.is_handle or target.is_handle:
        return b.ptrtoint(value, to) if source.is_handle else b.inttoptr(value, to)
    if target.bits <= source.bits and not source.is_bool:
        return value if target.bits == source.bits else b.trunc(value, to)
    return b.zext(value, to) if source.is_unsigned or source.is_bool else b.sext(value, to)


def _to_bool(b: Builder, value: ir.Value, source: DType) -> ir.Value:
    if source.is_float:
        return b.fcmp_unordered("!=", value, filled(value.type, 0.0))
    return b.icmp_unsigned("!=", value, filled(value.type, 0))


def _from_float(b: Builder, value: ir.Value, source: DType, target: DType, to: ir.Type) -> ir.Value:
    if target.is_float:
        return b.fpext(value, to) if target.bits > source.bits else b.fptrunc(value, to)
    if source.bits == 16:  # LLVM takes vcvttph2w for vectors, which does not make NaN 0
        value = b.fpext(value, like(value, F32))
    if target.bits < 32 and hasattr(b.module, FEATURES):
        return _to_narrow_integer(b, value, target, to)
    name = "llvm.fptosi.sat" if target.code == "int" else "llvm.fptoui.sat"
    return b.call(intrinsic(b, name, to, [value.type], (to, value.type)), [value])


def _to_narrow_integer(b: Builder, value: ir.Value, target: DType, to: ir.Type) -> ir.Value:
    """Bounded as floats and converted by way of 32 bits: LLVM would take lane after lane."""
    unsigned = target.is_unsigned
    top = 1 << target.bits if unsigned else 1 << (target.bits - 1)
    low, high = filled(value.type, 0.0 if unsigned else -float(top)), filled(value.type, top - 1.0)
    if not unsigned:  # an unsigned NaN becomes the lower bound
        nan = b.fcmp_unordered("uno", value, value)
        value = b.select(nan, filled(value.type, 0.0), value)
    value = b.select(b.fcmp_ordered(">", value, low), value, low)
    value = b.select(b.fcmp_ordered("<", value, high), value, high)
    return b.trunc(b.fptosi(value, like(value, I32)), to)


def widen_bfloat(b: Builder, value: ir.Value) -> ir.Value:
    """A bfloat16 as float."""
    wide = like(value, I32)
    return b.bitcast(b.shl(b.zext(value, wide), filled(wide, 16)), like(value, F32))


def round_bfloat(b: Builder, value: ir.Value) -> ir.Value:
    """A float rounded to the nearest bfloat16, ties to even; a NaN stays a NaN."""
    if getattr(b.module, ROUNDS_BFLOAT, False):
        return b.bitcast(b.fptrunc(value, like(value, BF16)), like(value, I16))
    wide = like(value, I32)
    bits = b.bitcast(value, wide)
    odd = b.and_(b.lshr(bits, filled(wide, 16)), filled(wide, 1))
    rounded = b.lshr(b.add(b.add(bits, filled(wide, 0x7FFF)), odd), filled(wide, 16))
    quiet = b.or_(b.lshr(bits, filled(wide, 16)), filled(wide, 0x40))
    nan = b.fcmp_unordered("uno", value, value)
    return b.trunc(b.select(nan, quiet, rounded), like(value, I16))


def shift(b: Builder, op: str, kind: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    """A shift whose amount may be anything."""
    top = filled(x.type, kind.bits - 1)
    fits = b.icmp_unsigned("<=", y, top)
    if op == "tir.shift_left":
        return b.select(fits, b.shl(x, b.select(fits, y, top)), filled(x.type, 0))
    if kind.code == "int":
        return b.ashr(x, b.select(fits, y, top))
    return b.select(fits, b.lshr(x, b.select(fits, y, top)), filled(x.type, 0))


def intrinsic(
    b: Builder, name: str, result: ir.Type, args: list[ir.Type], overloads: tuple[ir.Type, ...]
) -> ir.Function:
    """The declaration of an LLVM intrinsic, named with its overloaded types."""
    full = ".".join([name, *map(mangle, overloads)])
    module = b.module
    found = module.globals.get(full)
    if found is None:
        found = ir.Function(module, ir.FunctionType(result, args), full)
    return found


def mangle(typ: ir.Type) -> str:
    """A type's spelling in the name of an intrinsic."""
    if isinstance(typ, ir.VectorType):
        return f"v{typ.count}{mangle(typ.element)}"
    if isinstance(typ, ir.IntType):
        return f"i{typ.width}"
    if isinstance(typ, ir.PointerType):
        return "p0"
    return {"half": "f16", "float": "f32", "double": "f64"}[str(typ)]
