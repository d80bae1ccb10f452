"""Calls that only a GPU has: barriers and shuffles."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from ..base.errors import UnsupportedError
from ..expr import Call, StringImm
from .emitter import Emitter
from .types import F16, F32, F64, I16, I32, I64

Handler = Callable[[Emitter, Call], ir.Value]


def _asm(
    e: Emitter, text: str, constraint: str, result: ir.Type, args: list[ir.Value], effect: bool
) -> ir.Value:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return e.builder.asm(kind, text, constraint, args, effect)


def _sync(e: Emitter, call: Call) -> ir.Value:
    """A barrier of all threads that share memory: of a block, or of a warp."""
    (scope,) = call.args[:1]
    if not isinstance(scope, StringImm):
        raise UnsupportedError(f"a barrier names the memory that it orders: {call}")
    text = "bar.warp.sync 0xffffffff;" if scope.value == "warp" else "bar.sync 0;"
    if scope.value not in ("warp", "shared", "shared.dyn"):
        raise UnsupportedError(f"no barrier orders {scope.value!r} memory within a kernel")
    _asm(e, text, "~{memory}", ir.VoidType(), [], True)
    return I32(0)


def _active_mask(e: Emitter, call: Call) -> ir.Value:
    """All lanes: where our passes write it, all lanes of a warp take part."""
    return I32(-1)


def _shuffle(mode: str) -> Handler:
    """`shfl.sync`: the value of another lane of the same segment of a warp."""

    def emit(e: Emitter, call: Call) -> ir.Value:
        mask, value, lane, width, _ = (e.value(arg) for arg in call.args)
        b, kind = e.builder, value.type
        segment = b.sub(I32(32), width)
        clamp = I32(0) if mode == "up" else I32(31)
        control = b.or_(b.shl(segment, I32(8)), clamp)
        text = f"shfl.sync.{mode}.b32 $0, $1, $2, $3, $4;"

        def move(part: ir.Value) -> ir.Value:
            return _asm(e, text, "=r,r,r,r,r", I32, [part, lane, control, mask], True)

        if kind in (I64, F64):
            bits = b.bitcast(value, I64)
            low = b.zext(move(b.trunc(bits, I32)), I64)
            high = b.zext(move(b.trunc(b.lshr(bits, I64(32)), I32)), I64)
            return b.bitcast(b.or_(low, b.shl(high, I64(32))), kind)
        return _from_bits(b, move(_to_bits(b, value)), kind)

    return emit


def _to_bits(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    kind = value.type
    if kind == F32:
        return b.bitcast(value, I32)
    if kind == F16:
        return b.zext(b.bitcast(value, I16), I32)
    return value if kind == I32 else b.zext(value, I32)


def _from_bits(b: ir.IRBuilder, bits: ir.Value, kind: ir.Type) -> ir.Value:
    if kind == F32:
        return b.bitcast(bits, F32)
    if kind == F16:
        return b.bitcast(b.trunc(bits, I16), F16)
    return bits if kind == I32 else b.trunc(bits, kind)


#: By op; every other call has the code that it has on a CPU.
HANDLERS: dict[str, Handler] = {
    "tir.tvm_storage_sync": _sync,
    "tir.tvm_warp_activemask": _active_mask,
    "tir.tvm_warp_shuffle": _shuffle("idx"),
    "tir.tvm_warp_shuffle_up": _shuffle("up"),
    "tir.tvm_warp_shuffle_down": _shuffle("down"),
    "tir.tvm_warp_shuffle_xor": _shuffle("bfly"),
}
