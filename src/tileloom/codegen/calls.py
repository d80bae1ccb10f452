"""Calls: intrinsics of tensor IR and external functions."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from ..base import dtype
from ..base.errors import UnsupportedError
from ..expr import Call, Expr, IntImm, StringImm
from ..expr.atomic_ops import ATOMIC_VALUES
from ..expr.dot_ops import DOT_MEANINGS, ROUND_BF16, WORD
from ..expr.effects import CALL_FUNCTION, PREFETCH
from ..expr.tile_ops import TILE_CALLS
from ..tir import BufferLoad
from . import arith, atomics, memory, vmath
from .amx import emit_tile_call
from .arith import intrinsic
from .dots import emit_dot, emit_round, emit_word
from .emitter import Emitter
from .returns import load_scalar, result_slot
from .types import I1, I8, I32, I64, PTR, filled, like, opaque, register_type


def emit_call(e: Emitter, call: Call) -> ir.Value:
    """The value of a call."""
    handler = _HANDLERS.get(call.op)
    if handler is not None:
        return handler(e, call)
    name = call.op.removeprefix("tir.")
    if call.op.startswith("tir.") and vmath.supported(name) and call.args:
        return _math(e, call, name)
    raise UnsupportedError(f"the CPU target has no code for the call {call.op!r}")


def _math(e: Emitter, call: Call, name: str) -> ir.Value:
    b, args = e.builder, [e.value(arg) for arg in call.args]
    kind = call.args[0].dtype
    if kind.code == "bfloat":
        result = vmath.emit(b, name, [arith.widen_bfloat(b, arg) for arg in args])
        return arith.round_bfloat(b, result) if call.dtype.code == "bfloat" else result
    if not kind.is_float:
        raise UnsupportedError(f"{name} needs floating-point arguments, got {kind}")
    return vmath.emit(b, name, args)


def _if_then_else(e: Emitter, call: Call) -> ir.Value:
    condition, yes, no = call.args
    return e.where(condition, yes, no)


def _likely(e: Emitter, call: Call) -> ir.Value:
    return e.value(call.args[0])


def _assume(e: Emitter, call: Call) -> ir.Value:
    """A promise that earlier passes have made use of: nothing is computed."""
    return I32(0)


def _bitwise(name: str) -> Callable[[Emitter, Call], ir.Value]:
    def emit(e: Emitter, call: Call) -> ir.Value:
        return getattr(e.builder, name)(*(e.value(arg) for arg in call.args))

    return emit


def _bitwise_not(e: Emitter, call: Call) -> ir.Value:
    return e.builder.not_(e.value(call.args[0]))


def _shift(e: Emitter, call: Call) -> ir.Value:
    x, y = (e.value(arg) for arg in call.args)
    return arith.shift(e.builder, call.op, call.dtype, x, y)


def _reinterpret(e: Emitter, call: Call) -> ir.Value:
    b, value, source, kind = e.builder, e.value(call.args[0]), call.args[0].dtype, call.dtype
    if source.is_handle:
        value = b.ptrtoint(value, I64)
    elif source.is_bool:  # a byte in memory, a bit in a register
        value = b.zext(value, like(value, I8))
    if kind.is_handle:
        return b.inttoptr(b.bitcast(value, I64), PTR)
    if kind.is_bool:
        bytes_ = b.bitcast(value, ir.VectorType(I8, kind.lanes) if kind.lanes > 1 else I8)
        return b.icmp_unsigned("!=", bytes_, filled(bytes_.type, 0))
    return b.bitcast(value, register_type(kind))


def _abs(e: Emitter, call: Call) -> ir.Value:
    kind, value = call.args[0].dtype, e.value(call.args[0])
    if kind.is_float:
        return _math(e, call, "fabs")
    if kind.is_unsigned or kind.is_bool:
        return value
    types = [value.type, I1]
    return e.builder.call(
        arith.intrinsic(e.builder, "llvm.abs", value.type, types, (value.type,)), [value, I1(0)]
    )


def _bit_count(name: str) -> Callable[[Emitter, Call], ir.Value]:
    def emit(e: Emitter, call: Call) -> ir.Value:
        value = e.value(call.args[0])
        extra = [I1(0)] if name == "llvm.ctlz" else []
        types = [value.type, *(x.type for x in extra)]
        function = arith.intrinsic(e.builder, name, value.type, types, (value.type,))
        result = e.builder.call(function, [value, *extra])
        unsigned = dtype(f"uint{call.args[0].dtype.bits}").with_lanes(call.args[0].dtype.lanes)
        return arith.cast(e.builder, result, unsigned, call.dtype)

    return emit


def _fma(e: Emitter, call: Call) -> ir.Value:
    b, args = e.builder, [e.value(arg) for arg in call.args]
    if call.dtype.code == "bfloat":
        wide = [arith.widen_bfloat(b, arg) for arg in args]
        return arith.round_bfloat(b, b.fadd(b.fmul(*wide[:2]), wide[2]))
    kind = args[0].type
    return b.call(arith.intrinsic(b, "llvm.fma", kind, [kind] * 3, (kind,)), args)


def _classify(e: Emitter, call: Call) -> ir.Value:
    """isnan, isinf, isfinite; integers are always finite."""
    kind, value = call.args[0].dtype, e.value(call.args[0])
    if not kind.is_float:
        return filled(like(value, I1), int(call.op == "tir.isfinite"))
    if kind.code == "bfloat":
        value = arith.widen_bfloat(e.builder, value)
    return vmath.emit(e.builder, call.op.removeprefix("tir."), [value])


def _extern(e: Emitter, call: Call) -> ir.Value:
    name, *args = call.args
    if not isinstance(name, StringImm):
        raise UnsupportedError(f"an external call needs the function's name: {call}")
    values = [e.value(arg) for arg in args]
    void = call.dtype == "void"
    result = ir.VoidType() if void else register_type(call.dtype)
    signature = ir.FunctionType(result, [value.type for value in values])
    found = e.builder.module.globals.get(name.value)
    if found is None:
        found = ir.Function(e.builder.module, signature, name.value)
    elif not isinstance(found, ir.Function) or str(found.function_type) != str(signature):
        raise UnsupportedError(f"{name.value!r} is called with arguments of other types: {call}")
    value = e.builder.call(found, values)
    return I32(0) if void else value


def _function(e: Emitter, call: Call) -> ir.Value:
    """The result of another function of the module.

    Of one that returns nothing, the number of what went wrong, 0 for nothing.
    """
    name, *args = call.args
    if call.dtype == "void":
        return _extern(e, Call("int32", "tir.call_extern", (name, *args)))
    if e.compute_capability():
        raise UnsupportedError(
            f"kernels of GPUs cannot call the function {name}", hint="write what it computes inline"
        )
    found = e.builder.module.globals.get(getattr(name, "value", ""))
    if not isinstance(found, ir.Function):
        raise UnsupportedError(f"the module has no function {name} to call")
    values = [e.value(arg) for arg in args]
    slot = result_slot(e.builder, call.dtype)
    wanted = [str(kind) for kind in found.function_type.args]
    if [str(value.type) for value in (*values, slot)] != wanted:
        raise UnsupportedError(f"{name} is called with arguments of other types: {call}")
    e.check_call(e.builder.call(found, [*values, slot]))
    return load_scalar(e.builder, slot, register_type(call.dtype))


def _address_of(e: Emitter, call: Call) -> ir.Value:
    load = call.args[0]
    if not isinstance(load, BufferLoad) or len(load.indices) != 1:
        raise UnsupportedError(f"address_of needs an element of a flat buffer: {call}")
    return memory.address(e, load.buffer, e.index(load.indices[0]))


def _prefetch(e: Emitter, call: Call) -> ir.Value:
    """A hint to the caches; the last argument says whether data or instructions are meant."""
    place, *hints = call.args
    function = intrinsic(e.builder, "llvm.prefetch", ir.VoidType(), [PTR, I32, I32, I32], (PTR,))
    e.builder.call(function, [e.value(place), *map(_number, hints)])
    return I32(0)


def _number(expr: Expr) -> ir.Constant:
    if not isinstance(expr, IntImm):
        raise UnsupportedError(f"a hint of prefetch is a number, not {expr}")
    return I32(expr.value)


def _lookup_param(e: Emitter, call: Call) -> ir.Value:
    """Constant data that the loader provides under this name."""
    (name,) = call.args
    if not isinstance(name, StringImm):
        raise UnsupportedError(f"lookup_param needs a name: {call}")
    module = e.builder.module
    found = module.globals.get(name.value)
    return found or opaque(ir.GlobalVariable(module, I8, name.value))


_HANDLERS: dict[str, Callable[[Emitter, Call], ir.Value]] = {
    "tir.if_then_else": _if_then_else,
    "tir.likely": _likely,
    "tir.assume": _assume,
    "tir.bitwise_and": _bitwise("and_"),
    "tir.bitwise_or": _bitwise("or_"),
    "tir.bitwise_xor": _bitwise("xor"),
    "tir.bitwise_not": _bitwise_not,
    "tir.shift_left": _shift,
    "tir.shift_right": _shift,
    "tir.reinterpret": _reinterpret,
    "tir.abs": _abs,
    "tir.fabs": _abs,
    "tir.popcount": _bit_count("llvm.ctpop"),
    "tir.clz": _bit_count("llvm.ctlz"),
    "tir.fma": _fma,
    "tir.isnan": _classify,
    "tir.isinf": _classify,
    "tir.isfinite": _classify,
    "tir.address_of": _address_of,
    "tir.lookup_param": _lookup_param,
    "tir.call_extern": _extern,
    CALL_FUNCTION: _function,
    "tir.call_pure_extern": _extern,
    **dict.fromkeys(DOT_MEANINGS, emit_dot),
    ROUND_BF16: emit_round,
    WORD: emit_word,
    **dict.fromkeys(TILE_CALLS, emit_tile_call),
    **dict.fromkeys(ATOMIC_VALUES, atomics.CPU.emit),
    "tir.memory_fence": atomics.CPU.fence,
    PREFETCH: _prefetch,
}
