"""Memory between the kernels of a segment, and the native function that calls them in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base import dtype
from ..base.memory import plan_arena
from ..expr import Call, Expr, StringImm, Var, const
from ..tir import Buffer, BufferLoad, Evaluate, PrimFunc, make_buffer, seq
from .nodes import Tensor
from .symbols import polynomial_of

if TYPE_CHECKING:
    from .program import Program, Segment


def connect_calls(program: Program, segment: Segment) -> None:
    """Lay out what lives between the kernels of a segment; write its function if it has one.

    Needs: what the segment reads and writes, and the calls of its kernels.
    """
    outside = {*segment.reads, *segment.writes}
    sizes: dict[Tensor, int] = {}
    lifetimes: dict[Tensor, tuple[int, int]] = {}
    for step, call in enumerate(segment.calls):
        for tensor in map(program.home, call.tensors):
            if tensor.value is not None:
                program.name_constant(tensor)
            elif tensor not in outside:
                sizes[tensor] = tensor.type.nbytes
                lifetimes[tensor] = (lifetimes.get(tensor, (step, step))[0], step)
    offsets: dict[Tensor, int] = {}
    if program.space is None:
        offsets, segment.arena_bytes = plan_arena(sizes, lifetimes)
    segment.between = tuple(sizes)
    if program.space is not None or not program.device.has_entries:
        segment.arena = tuple((polynomial_of(n), *lifetimes[t]) for t, n in sizes.items())
    if program.device.has_entries:
        program.put(segment.name, _entry(program, segment, offsets))


def _entry(program: Program, segment: Segment, known: Mapping[Tensor, int]) -> PrimFunc:
    """The native function that runs the kernels of a segment.

    Args:
        known: where tensors lie in the arena, if that does not depend on sizes.
    """
    outside = (*segment.reads, *segment.writes)
    buffers = [make_buffer((t.type.size,), t.dtype, f"arg{k}") for k, t in enumerate(outside)]
    offsets: dict[Tensor, Any] = dict(known)
    scalars: list[Var] = []
    whole: Any = segment.arena_bytes
    if program.space is not None:
        segment.symbols = tuple(program.space.symbols)
        offsets = {t: Var(f"place{k}", "int64") for k, t in enumerate(segment.between)}
        whole = Var("arena_bytes", "int64")
        scalars = [*(s.var for s in program.space.symbols.values()), *offsets.values(), whole]
    arena = make_buffer((whole,), "uint8", "arena")
    params = [Var(b.name, "handle") for b in (*buffers, arena)]
    places: dict[Tensor, Expr] = {t: b.data for t, b in zip(outside, buffers, strict=True)}
    places |= {t: _address(arena, offset) for t, offset in offsets.items()}

    def pointer(tensor: Tensor) -> Expr:
        tensor = program.home(tensor)
        if tensor in places:
            return places[tensor]
        return Call("handle", "tir.lookup_param", [StringImm(program.name_constant(tensor))])

    sizes = scalars[: len(segment.symbols)]
    calls = [
        [StringImm(call.kernel), *map(pointer, call.tensors), *sizes] for call in segment.calls
    ]
    return PrimFunc(
        (*params, *scalars),
        seq(*(Evaluate(Call("int32", "tir.call_extern", arguments)) for arguments in calls)),
        dict(zip(params, (*buffers, arena), strict=True)),
        {"global_symbol": segment.name},
    )


def _address(buffer: Buffer, offset: int | Expr) -> Expr:
    if isinstance(offset, int):
        offset = const(offset, "int64" if offset >= 1 << 31 else "int32")
    load = BufferLoad(buffer, [offset])
    return Call(dtype("handle"), "tir.address_of", [load])
