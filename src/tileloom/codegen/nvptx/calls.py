"""Calls that only a GPU has: barriers and shuffles."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Call, StringImm
from ...expr.atomic_ops import ATOMIC_VALUES
from ...target.instructions import BARRIER_SCOPES
from .. import atomics
from ..emitter import Emitter
from ..types import F64, I32, I64
from . import pointers, warps, wgmma
from .warps import from_bits, nvvm, to_bits

Handler = Callable[[Emitter, Call], ir.Value]


def _sync(e: Emitter, call: Call) -> ir.Value:
    """A barrier of all threads that share memory: of a block, or of a warp."""
    (scope,) = call.args[:1]
    if not isinstance(scope, StringImm):
        raise UnsupportedError(f"a barrier names the memory that it orders: {call}")
    if scope.value not in BARRIER_SCOPES:
        raise UnsupportedError(f"no barrier orders {scope.value!r} memory within a kernel")
    if scope.value == "warp":
        nvvm(e, "bar.warp.sync", ir.VoidType(), [I32(-1)])
    else:
        nvvm(e, "barrier.cta.sync.aligned.all", ir.VoidType(), [I32(0)])
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

        def move(part: ir.Value) -> ir.Value:
            return nvvm(e, f"shfl.sync.{mode}.i32", I32, [mask, part, lane, control])

        if kind in (I64, F64):
            bits = b.bitcast(value, I64)
            low = b.zext(move(b.trunc(bits, I32)), I64)
            high = b.zext(move(b.trunc(b.lshr(bits, I64(32)), I32)), I64)
            return b.bitcast(b.or_(low, b.shl(high, I64(32))), kind)
        return from_bits(b, move(to_bits(b, value)), kind)

    return emit


def _access_ptr(e: Emitter, call: Call) -> ir.Value:
    return pointers.pointer(e, call)


def _descriptor(e: Emitter, call: Call) -> ir.Value:
    return wgmma.descriptor(e, call)


#: By op; every other call has the code that it has on a CPU.
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(ATOMIC_VALUES, atomics.GPU.emit),
    "tir.memory_fence": atomics.GPU.fence,
    **warps.HANDLERS,
    "tir.tvm_access_ptr": _access_ptr,
    wgmma.DESCRIPTOR: _descriptor,
    "tir.tvm_storage_sync": _sync,
    "tir.tvm_warp_activemask": _active_mask,
    "tir.tvm_warp_shuffle": _shuffle("idx"),
    "tir.tvm_warp_shuffle_up": _shuffle("up"),
    "tir.tvm_warp_shuffle_down": _shuffle("down"),
    "tir.tvm_warp_shuffle_xor": _shuffle("bfly"),
}
