"""Words, their dot products, and roundings (`expr.dot_ops`) by instructions, or spelled out."""

from __future__ import annotations

import llvmlite.ir as ir

from ..base.errors import InternalError
from ..expr import Call
from ..expr.dot_ops import DOT_BF16, DOT_INT8, DOT_OFFSET, FLIP_SIGNS, LEAST_NORMAL
from . import arith
from .emitter import Emitter
from .types import BF16, F32, I16, I32, element_bytes, filled, lanes_of, like

_WIDTHS = {4: 128, 8: 256, 16: 512}


def emit_dot(e: Emitter, call: Call) -> ir.Value:
    """The sum of an accumulator and of the products in two words, for each lane."""
    total, x, y = (e.value(arg) for arg in call.args)
    features: frozenset[str] = getattr(e.builder.module, arith.FEATURES, frozenset())
    bits = _WIDTHS.get(lanes_of(total), 0)
    if call.op == DOT_BF16:
        return _bf16(e.builder, bits if "avx512bf16" in features else 0, total, x, y)
    if call.op in _OFFSET:
        x = e.builder.xor(x, filled(x.type, FLIP_SIGNS))
    known = "avx512vnni" in features or (bits < 512 and "avxvnni" in features)
    signed = _SIGNED[call.op]
    if signed == (True, False):
        x, y, signed = y, x, (False, True)
    if not bits or not known or signed != (False, True):
        return _bytes(e.builder, signed, total, x, y)
    words = like(total, I32)
    return _call(e.builder, f"llvm.x86.avx512.vpdpbusd.{bits}", total, words, x, y)


_OFFSET = {name: (signed, signed) for signed, name in DOT_OFFSET.items()}
_SIGNED = {name: signed for signed, name in DOT_INT8.items()} | _OFFSET


def emit_word(e: Emitter, call: Call) -> ir.Value:
    """Neighbours in 32 bits, lane by lane; the first in the lowest."""
    b, parts = e.builder, [e.value(arg) for arg in call.args]
    bits = 8 * element_bytes(call.args[0].dtype.element)
    total: ir.Value | None = None
    for k, part in enumerate(parts):
        whole = b.zext(b.bitcast(part, like(part, ir.IntType(bits))), like(part, I32))
        own = b.shl(whole, filled(whole.type, k * bits)) if k else whole
        total = own if total is None else b.or_(total, own)
    if total is None:
        raise InternalError("a word has parts")
    return total


def emit_round(e: Emitter, call: Call) -> ir.Value:
    """A float32 rounded to bfloat16, subnormal ones to zero."""
    b, (value,) = e.builder, [e.value(arg) for arg in call.args]
    if "avx512bf16" in getattr(b.module, arith.FEATURES, frozenset()):
        return b.bitcast(b.fptrunc(value, like(value, BF16)), like(value, I16))
    words = like(value, I32)
    bits = b.bitcast(value, words)
    size = b.bitcast(b.and_(bits, filled(words, 0x7FFFFFFF)), value.type)
    zero = b.bitcast(b.and_(bits, filled(words, -0x80000000)), value.type)
    small = b.fcmp_ordered("<", size, filled(value.type, LEAST_NORMAL))
    return arith.round_bfloat(b, b.select(small, zero, value))


def _bf16(b: ir.IRBuilder, bits: int, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    if not bits:
        upper = filled(x.type, -65536)
        for low in (False, True):
            factors = [b.shl(v, filled(v.type, 16)) if low else b.and_(v, upper) for v in (x, y)]
            left, right = (b.bitcast(v, like(v, F32)) for v in factors)
            total = b.fadd(total, b.fmul(left, right), flags=arith.CONTRACT)
        return total
    pairs = ir.VectorType(BF16, bits // 16)
    return _call(b, f"llvm.x86.avx512bf16.dpbf16ps.{bits}", total, pairs, x, y)


def _bytes(
    b: ir.IRBuilder, signed: tuple[bool, bool], total: ir.Value, x: ir.Value, y: ir.Value
) -> ir.Value:
    byte, high = filled(x.type, 255), filled(x.type, 24)
    for k in range(4):
        left, right = (
            b.ashr(b.shl(v, filled(v.type, 24 - 8 * k)), high)
            if own
            else b.and_(b.lshr(v, filled(v.type, 8 * k)), byte)
            for v, own in zip((x, y), signed, strict=True)
        )
        total = b.add(total, b.mul(left, right))
    return total


def _call(
    b: ir.IRBuilder, name: str, total: ir.Value, factors: ir.Type, x: ir.Value, y: ir.Value
) -> ir.Value:
    found = b.module.globals.get(name)
    if found is None:
        kind = ir.FunctionType(total.type, [total.type, factors, factors])
        found = ir.Function(b.module, kind, name)
    return b.call(found, [total, b.bitcast(x, factors), b.bitcast(y, factors)])
