"""Fast approximations of functions on GPUs; `target.approximations` says which, and how exact."""

from __future__ import annotations

import re

import llvmlite.ir as ir

from ...base import dtype
from ...expr import Call, Div, Expr
from ...target.approximations import Approximation, approximation
from .. import arith
from ..emitter import Emitter
from ..types import F16, F32, I16, I32, lanes_of

_SINGLE = dtype("float32")
_LETTERS = {str(F32): "f", str(I16): "h", str(I32): "r"}


def approximate(e: Emitter, expr: Expr) -> ir.Value | None:
    """The value of a call or a division by approximation; None where there is none."""
    if not isinstance(expr, Call | Div):
        return None
    op, args = expr.op if isinstance(expr, Call) else "/", expr.children
    kind, capability = expr.dtype, e.compute_capability()
    found = approximation(op, str(kind.element), capability)
    if found is not None:
        return _lanes(e.builder, found, [e.value(arg) for arg in args])
    found = approximation(op, "float32", capability)
    if found is None or not kind.is_float or kind.bits != 16:
        return None
    wide = _SINGLE.with_lanes(kind.lanes)
    values = [arith.cast(e.builder, e.value(arg), kind, wide) for arg in args]
    return arith.cast(e.builder, _lanes(e.builder, found, values), wide, kind)


def _lanes(b: ir.IRBuilder, found: Approximation, args: list[ir.Value]) -> ir.Value:
    lanes = lanes_of(args[0])
    if lanes == 1:
        return _one(b, found, args)
    if found.packed and lanes % 2 == 0:
        return _pairs(b, found.packed, args[0], lanes)
    result = ir.Constant(args[0].type, ir.Undefined)
    for lane in map(I32, range(lanes)):
        part = _one(b, found, [b.extract_element(arg, lane) for arg in args])
        result = b.insert_element(result, part, lane)
    return result


def _one(b: ir.IRBuilder, found: Approximation, args: list[ir.Value]) -> ir.Value:
    kind = args[0].type
    bits = [b.bitcast(arg, I16) if kind == F16 else arg for arg in args]
    result = _run(b, found.code, bits)
    return b.bitcast(result, F16) if kind == F16 else result


def _pairs(b: ir.IRBuilder, code: str, value: ir.Value, lanes: int) -> ir.Value:
    """Two 16-bit numbers at once, in a register of 32 bits."""
    words = ir.VectorType(I32, lanes // 2)
    source = b.bitcast(value, words)
    result = ir.Constant(words, ir.Undefined)
    for lane in map(I32, range(lanes // 2)):
        part = _run(b, code, [b.extract_element(source, lane)])
        result = b.insert_element(result, part, lane)
    return b.bitcast(result, value.type)


def _run(b: ir.IRBuilder, code: str, args: list[ir.Value]) -> ir.Value:
    """Instructions without side effect, so that LLVM may join or drop them."""
    kind = args[0].type
    letter = _LETTERS[str(kind)]
    text = re.sub(r"\$t", "%t", code)
    if "%t" in text:
        text = f"{{ .reg .f32 %t; {text}; }}"
    else:
        text += ";"
    function = ir.FunctionType(kind, [kind] * len(args))
    return b.asm(function, text, ",".join([f"={letter}", *[letter] * len(args)]), args, False)
