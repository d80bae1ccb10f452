"""Votes, matches, sums over a warp, lane masks and numbered barriers, as intrinsics of NVPTX.

LLVM knows of these that threads run them together, and neither moves them into branches nor out.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Call, IntImm
from ..arith import intrinsic
from ..emitter import Emitter
from ..types import F16, F32, F64, I1, I16, I32, I64

Handler = Callable[[Emitter, Call], ir.Value]
_REDUX_FROM, _ELECT_FROM = 80, 90  # compute capabilities
_NAMED = 16  # barriers of a block


def nvvm(e: Emitter, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """A call of an intrinsic of NVPTX.

    Those that threads run together are known to LLVM for that, which it does not know of inline
    assembly: it would copy a barrier into the branches around it.
    """
    full, module = f"llvm.nvvm.{name}", e.builder.module
    found = module.globals.get(full)
    if found is None:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        found = ir.Function(module, kind, full)
    return e.builder.call(found, args)


def to_bits(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A value of 32 bits or less as an integer of 32."""
    kind = value.type
    if kind == F32:
        return b.bitcast(value, I32)
    if kind == F16:
        return b.zext(b.bitcast(value, I16), I32)
    return value if kind == I32 else b.zext(value, I32)


def from_bits(b: ir.IRBuilder, bits: ir.Value, kind: ir.Type) -> ir.Value:
    """The value that `to_bits` was given."""
    if kind == F32:
        return b.bitcast(bits, F32)
    if kind == F16:
        return b.bitcast(b.trunc(bits, I16), F16)
    return bits if kind == I32 else b.trunc(bits, kind)


def _vote(mode: str, result: ir.Type) -> Handler:
    def emit(e: Emitter, call: Call) -> ir.Value:
        return nvvm(e, f"vote.{mode}.sync", result, [e.value(arg) for arg in call.args])

    return emit


def _match_any(e: Emitter, call: Call) -> ir.Value:
    """The lanes whose value has the same bits."""
    mask, value = (e.value(arg) for arg in call.args)
    if value.type in (I64, F64):
        return nvvm(e, "match.any.sync.i64", I32, [mask, e.builder.bitcast(value, I64)])
    return nvvm(e, "match.any.sync.i32", I32, [mask, to_bits(e.builder, value)])


def _match_all(e: Emitter, call: Call) -> ir.Value:
    """The mask if all values have the same bits, else 0."""
    mask, value = (e.value(arg) for arg in call.args)
    pair = ir.LiteralStructType([I32, I1])
    if value.type in (I64, F64):
        args, name = [mask, e.builder.bitcast(value, I64)], "match.all.sync.i64p"
    else:
        args, name = [mask, to_bits(e.builder, value)], "match.all.sync.i32p"
    return e.builder.extract_value(nvvm(e, name, pair, args), 0)


def _reduce(op: str) -> Handler:
    def emit(e: Emitter, call: Call) -> ir.Value:
        kind = call.dtype
        if not kind.is_int or kind.bits != 32:
            raise UnsupportedError(f"a warp sums 32-bit integers at once, not {kind}: {call}")
        if e.compute_capability() < _REDUX_FROM:
            raise UnsupportedError(
                f"{call.op.removeprefix('tir.')} needs sm_{_REDUX_FROM} or newer",
                hint="shuffle, or set -arch=sm_80",
            )
        word = f"u{op}" if op in ("min", "max") and kind.is_unsigned else op
        mask, value = (e.value(arg) for arg in call.args)
        return nvvm(e, f"redux.sync.{word}", I32, [value, mask])

    return emit


def _elect(e: Emitter, call: Call) -> ir.Value:
    """Whether this is the one lane of the mask that is chosen: the lowest."""
    b, mask = e.builder, e.value(call.args[0])
    if e.compute_capability() >= _ELECT_FROM:
        pair = nvvm(e, "elect.sync", ir.LiteralStructType([I32, I1]), [mask])
        return b.extract_value(pair, 1)
    count = intrinsic(b, "llvm.cttz", I32, [I32, I1], (I32,))
    lane = nvvm(e, "read.ptx.sreg.laneid", I32, [])
    return b.icmp_unsigned("==", lane, b.call(count, [mask, I1(0)]))


def _register(name: str) -> Handler:
    return lambda e, _: nvvm(e, name, I32, [])


def _syncwarp(e: Emitter, call: Call) -> ir.Value:
    nvvm(e, "bar.warp.sync", ir.VoidType(), [e.value(call.args[0])])
    return I32(0)


def _barrier(mode: str) -> Handler:
    """`bar.sync` or `bar.arrive`: whole warps, `count` threads in all, at one of 16 barriers."""

    def emit(e: Emitter, call: Call) -> ir.Value:
        which, count = call.args
        if isinstance(which, IntImm) and not 0 <= which.value < _NAMED:
            raise UnsupportedError(f"a block has barriers 0 to {_NAMED - 1}, not {which.value}")
        if isinstance(count, IntImm) and (count.value <= 0 or count.value % 32):
            raise UnsupportedError(f"whole warps meet at a barrier, not {count.value} threads")
        values = [e.builder.trunc(v, I32) if v.type == I64 else v for v in map(e.value, call.args)]
        nvvm(e, f"barrier.cta.{mode}.aligned.count", ir.VoidType(), values)
        return I32(0)

    return emit


HANDLERS: dict[str, Handler] = {
    "tir.ballot_sync": _vote("ballot", I32),
    "tir.any_sync": _vote("any", I1),
    "tir.all_sync": _vote("all", I1),
    "tir.match_any_sync": _match_any,
    "tir.match_all_sync": _match_all,
    "tir.elect_sync": _elect,
    "tir.activemask": _register("activemask"),
    "tir.lane_id": _register("read.ptx.sreg.laneid"),
    **{
        f"tir.lanemask_{word}": _register(f"read.ptx.sreg.lanemask.{word}")
        for word in ("lt", "le", "eq", "ge", "gt")
    },
    **{f"tir.reduce_{op}_sync": _reduce(op) for op in ("add", "min", "max", "and", "or", "xor")},
    "tir.syncwarp": _syncwarp,
    "tir.barrier_sync": _barrier("sync"),
    "tir.barrier_arrive": _barrier("arrive"),
}
