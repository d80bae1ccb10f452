"""Pointers as the instructions of a GPU take them."""

from __future__ import annotations

import llvmlite.ir as ir

from ..base import DType, dtype
from ..base.errors import UnsupportedError
from ..expr import Call, Expr, Var
from .emitter import Emitter
from .types import I32, I64, memory_type

GLOBAL, SHARED = 1, 3  # address spaces


def pointer(e: Emitter, base: Expr, index: Expr | None = None) -> ir.Value:
    """The address of an element, counted from a pointer or an access pointer."""
    if isinstance(base, Call) and base.op == "tir.tvm_access_ptr":
        kind, data, first = base.args[:3]
        element, start = kind.dtype, _at(e, e.value(data), kind.dtype, first)
    elif isinstance(base, Call) and base.op == "tir.address_of":
        element, start = base.args[0].dtype, e.value(base)
    elif isinstance(base, Var) and base.pointee is not None:
        element, start = dtype(base.pointee[0]), e.value(base)
    else:
        raise UnsupportedError(f"it is not known what {base} points to")
    return start if index is None else _at(e, start, element, index)


def _at(e: Emitter, start: ir.Value, element: DType, index: Expr) -> ir.Value:
    return e.builder.gep(start, [e.index(index)], True, source_etype=memory_type(element))


def shared_address(e: Emitter, place: ir.Value) -> ir.Value:
    """A pointer into shared memory as the 32 bits that instructions take."""
    inside = e.builder.addrspacecast(place, ir.PointerType(addrspace=SHARED))
    return e.builder.ptrtoint(inside, I32)


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
