"""Pointers as the instructions of a GPU take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llvmlite.ir as ir

from ...base import DType, dtype
from ...base.errors import UnsupportedError
from ...expr import Call, Expr, IntImm, Var
from ...tir import BufferLoad
from ..emitter import Emitter
from ..types import I32, I64, element_bytes, memory_type

if TYPE_CHECKING:
    from .kernels import KernelEmitter

GLOBAL, SHARED = 1, 3  # address spaces


def pointer(e: Emitter, base: Expr, index: Expr | None = None) -> ir.Value:
    """The address of an element, counted from a pointer, an access pointer or an address."""
    data, element, starts = _place(base, index)
    result = e.value(data)
    for start in starts:
        result = e.builder.gep(result, [e.index(start)], True, source_etype=memory_type(element))
    return result


def shared_address(e: KernelEmitter, base: Expr, index: Expr | None = None) -> ir.Value:
    """An element of shared memory as the 32 bits that instructions take."""
    data, element, starts = _place(base, index)
    variable = e.shared.get(data)
    if variable is None:
        place = pointer(e, base, index)
        inside = e.builder.addrspacecast(place, ir.PointerType(addrspace=SHARED))
        return e.builder.ptrtoint(inside, I32)
    b, result = e.builder, e.builder.ptrtoint(variable, I32)
    for start in starts:
        at = I32(start.value) if isinstance(start, IntImm) else b.trunc(e.index(start), I32)
        result = b.add(result, b.mul(at, I32(element_bytes(element))))
    return result


def _place(base: Expr, index: Expr | None) -> tuple[Var, DType, list[Expr]]:
    """A pointer, the type of its elements, and the indices that add up."""
    starts = [] if index is None else [index]
    if isinstance(base, Call) and base.op == "tir.tvm_access_ptr":
        kind, data, first = base.args[:3]
        if isinstance(data, Var):
            return data, dtype(kind.dtype), [first, *starts]
    elif isinstance(base, Call) and base.op == "tir.address_of":
        load = base.args[0]
        if isinstance(load, BufferLoad) and len(load.indices) == 1:
            return load.buffer.data, load.buffer.dtype, [load.indices[0], *starts]
    elif isinstance(base, Var) and base.pointee is not None:
        return base, dtype(base.pointee[0]), starts
    raise UnsupportedError(f"it is not known what {base} points to")


def global_address(e: Emitter, place: ir.Value) -> ir.Value:
    """A pointer into global memory as the 64 bits that instructions take."""
    inside = e.builder.addrspacecast(place, ir.PointerType(addrspace=GLOBAL))
    return e.builder.ptrtoint(inside, I64)


def instruction(
    e: Emitter,
    text: str,
    constraint: str,
    result: ir.Type,
    args: list[ir.Value],
    *,
    effect: bool = True,
) -> ir.Value:
    """Inline assembly that a whole warp runs together.

    Args:
        effect: whether it does more than compute its result from its arguments.
    """
    kind = ir.FunctionType(result, [arg.type for arg in args])
    code = ir.InlineAsm(kind, text, constraint, effect)
    attributes = ("convergent", "nounwind") if effect else ("convergent", "nounwind", "readnone")
    return e.builder.call(code, args, attrs=attributes)


def registers(first: int, count: int) -> str:
    """A vector of registers in the text of an instruction.

    >>> registers(2, 3)
    '{$2, $3, $4}'
    """
    return "{" + ", ".join(f"${first + k}" for k in range(count)) + "}"
