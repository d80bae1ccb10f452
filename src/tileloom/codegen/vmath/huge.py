"""Quarter turns of huge angles, after Payne and Hanek ("Radian reduction for trigonometric
functions", 1983), and remainders of far apart numbers: scalar integer functions in LLVM IR."""

from __future__ import annotations

import llvmlite.ir as ir

from .blocks import internal
from .lanes import Lanes

_I64, _I128, _F64 = ir.IntType(64), ir.IntType(128), ir.DoubleType()

#: The binary digits of 2/pi behind the point, after 64 zeros.
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip


def reduce_huge(k: Lanes) -> ir.Function:
    """`{double high, double low, i64 quarter} f(double)` for finite `|x| >= 2**16`."""
    result = ir.LiteralStructType([_F64, _F64, _I64])
    return internal(k, "tileloom.huge_angle", result, [_F64], _reduce_body)


def _digits(b: ir.IRBuilder) -> ir.GlobalVariable:
    name = "tileloom.two_over_pi"
    found = b.module.globals.get(name)
    if found is None:
        typ = ir.ArrayType(_I64, len(_TWO_OVER_PI))
        found = ir.GlobalVariable(b.module, typ, name)
        found.linkage, found.global_constant = "internal", True
        found.initializer = ir.Constant(typ, list(_TWO_OVER_PI))
    return found


def _window(b: ir.IRBuilder, start: ir.Value) -> list[ir.Value]:
    """192 digits of 2/pi from bit `start`, in three words."""
    table, index = _digits(b), b.lshr(start, _I64(6))
    shift = b.and_(start, _I64(63))
    words = [
        b.load(b.gep(table, [b.add(index, _I64(i))], source_etype=_I64), typ=_I64) for i in range(4)
    ]
    name = "llvm.fshl.i64"
    funnel = b.module.globals.get(name)
    if funnel is None:
        funnel = ir.Function(b.module, ir.FunctionType(_I64, [_I64] * 3), name)
    return [b.call(funnel, [words[i], words[i + 1], shift]) for i in range(3)]


def _fraction(b: ir.IRBuilder, x_bits: ir.Value) -> ir.Value:
    """`|x| 2/pi` modulo 4 as an integer of 128 bits, 126 of them behind the point."""
    field = b.and_(b.lshr(x_bits, _I64(52)), _I64(0x7FF))
    implied = _I64(1 << 52)
    mantissa = b.zext(b.or_(b.and_(x_bits, _I64((1 << 52) - 1)), implied), _I128)
    # |x| = mantissa 2**(field - 1075): digits of weight 4 and more after the product fall away.
    words = _window(b, b.sub(field, _I64(1075 - 62)))
    high, middle, low = (b.mul(mantissa, b.zext(word, _I128)) for word in words)
    carried = b.add(middle, b.lshr(low, _I128(64)))
    return b.add(b.shl(high, _I128(64)), carried)


def _to_double(b: ir.IRBuilder, signed: ir.Value) -> tuple[ir.Value, ir.Value]:
    """`|signed| / 2**128` as a sum of two doubles."""
    negative = b.icmp_signed("<", signed, _I128(0))
    size = b.select(negative, b.neg(signed), signed)
    size = b.or_(size, _I128(1))  # never zero
    name = "llvm.ctlz.i128"
    ctlz = b.module.globals.get(name)
    if ctlz is None:
        ctlz = ir.Function(b.module, ir.FunctionType(_I128, [_I128, ir.IntType(1)]), name)
    zeros = b.call(ctlz, [size, ir.IntType(1)(1)])
    normal = b.shl(size, zeros)
    top = b.trunc(b.lshr(normal, _I128(75)), _I64)  # 53 bits
    rest = b.trunc(b.and_(b.lshr(normal, _I128(22)), _I128((1 << 53) - 1)), _I64)
    scale = b.shl(b.sub(_I64(1023), b.trunc(zeros, _I64)), _I64(52))
    power = b.bitcast(scale, _F64)
    high = b.fmul(b.fmul(b.sitofp(top, _F64), _F64(2.0**-53)), power)
    low = b.fmul(b.fmul(b.sitofp(rest, _F64), _F64(2.0**-106)), power)
    return high, low


def _reduce_body(b: ir.IRBuilder) -> None:
    x = b.function.args[0]
    x_bits = b.bitcast(x, _I64)
    turns = _fraction(b, x_bits)
    quarter = b.lshr(b.add(b.lshr(turns, _I128(125)), _I128(1)), _I128(1))
    signed = b.shl(turns, _I128(2))
    high, low = _to_double(b, signed)
    k = Lanes(b, 64, None)
    part, rest = k.wrap(high), k.wrap(low)
    r = part * 1.5707963267948966
    error = k.fma(part, 1.5707963267948966, -r)
    tail = k.fma(part, 6.123233995736766e-17, k.fma(rest, 1.5707963267948966, error))
    number = b.trunc(quarter, _I64)
    minus = b.icmp_signed("<", x_bits, _I64(0))
    number = b.select(minus, b.neg(number), number)
    flip = b.xor(minus, b.icmp_signed("<", signed, _I128(0)))
    packed = ir.Constant(b.function.function_type.return_type, ir.Undefined)
    for i, value in enumerate((r.value, tail.value)):
        packed = b.insert_value(packed, b.select(flip, b.fneg(value), value), i)
    b.ret(b.insert_value(packed, number, 2))
