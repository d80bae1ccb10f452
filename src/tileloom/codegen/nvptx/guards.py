"""Loads and stores under a condition, without a branch.

A branch cuts a kernel's code into pieces. LLVM moves arithmetic into the piece that stores its
result, and the assembler does not mix the instructions of different pieces; either keeps many more
values in registers than there need be. So a load that is not wanted is from the beginning of its
buffer, and a store carries its condition with it, as an instruction of a GPU can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import llvmlite.ir as ir

from ...expr import (
    Broadcast,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Ramp,
    const,
    has_load,
    is_int,
    is_pure_op,
    post_order,
    rewrite,
)
from ...expr.nodes import Div
from ...tir import Buffer, BufferLoad, BufferStore, IfThenElse, parts_of
from .. import memory
from ..emit_expr import reads_memory
from ..types import I16, I32, I64

if TYPE_CHECKING:
    from .kernels import KernelEmitter

_CHOICE = "tir.if_then_else"
_GLOBAL = 1  # the address space


def guarded_load(
    e: KernelEmitter, condition: Expr, load: BufferLoad, other: Expr
) -> ir.Value | None:
    """`load` where a condition holds, else `other`, which costs nothing; None if there is a need
    of a branch.
    """
    base, lanes = _start(load.indices), load.dtype.lanes
    if (
        base is None
        or e.mask is not None
        or condition.dtype.lanes > 1
        or load.predicate is not None
        or load.buffer.dtype.lanes > 1
        or not _has(load.buffer, lanes)
        or not _never_fails(base)
    ):
        return None
    b, test = e.builder, e.value(condition)
    place = b.select(test, e.index(base), I64(0))
    return b.select(test, memory.load_at(e, load.buffer, base, place, lanes), e.value(other))


def guarded_stores(e: KernelEmitter, stmt: IfThenElse) -> bool:
    """Emit stores to global memory under a condition; False if there is a need of a branch."""
    body = stmt.then_case
    stores = parts_of(body)
    if stmt.else_case is not None or e.mask is not None:
        return False
    if len(stores) > 1 and reads_memory(stmt.condition):
        return False  # which one of the stores may change
    found = [store for store in stores if isinstance(store, BufferStore) and _can_guard(e, store)]
    if len(found) < len(stores):
        return False
    test = e.value(stmt.condition)
    for store in found:
        value = e.value(_guarded(store.value, stmt.condition))
        pointer = memory.address(e, store.buffer, e.index(_first(store)))
        _predicated(e, test, pointer, value, _size(store))
        e.forget_loads()
    return True


def _can_guard(e: KernelEmitter, store: BufferStore) -> bool:
    """Whether there is a store with a condition for it, and its value can always be computed."""
    base, size = _start(store.indices), _size(store)
    return (
        base is not None
        and store.predicate is None
        and store.buffer.dtype.lanes == 1
        and not store.buffer.dtype.is_bool
        and size in _KINDS
        and e.is_parameter(store.buffer.data)
        and (store.value.dtype.lanes == 1 or e.alignment(store.buffer, base) >= size)
        and _never_fails(base)
        and _never_fails(store.value)
    )


def _size(store: BufferStore) -> int:
    """Bytes that are stored."""
    return store.value.dtype.bits * store.value.dtype.lanes // 8


def _first(store: BufferStore) -> Expr:
    """The first of the elements that are stored."""
    index = store.indices[0]
    return index.base if isinstance(index, Ramp) else index


#: PTX's name of so many bytes, the register that they are moved from, and how many of those.
_KINDS = {
    2: ("b16", I16, "h", 1), 4: ("b32", I32, "r", 1), 8: ("v2.b32", I32, "r", 2),
    16: ("v4.b32", I32, "r", 4),
}  # fmt: skip


def _predicated(
    e: KernelEmitter, test: ir.Value, pointer: ir.Value, value: ir.Value, size: int
) -> None:
    b = e.builder
    name, register, letter, count = _KINDS[size]
    whole = register if count == 1 else ir.VectorType(register, count)
    bits = b.bitcast(value, whole)
    parts = [bits] if count == 1 else [b.extract_element(bits, I32(k)) for k in range(count)]
    place = b.addrspacecast(pointer, ir.PointerType(addrspace=_GLOBAL))
    names = ", ".join(f"${k + 2}" for k in range(count))
    text = f"@$0 st.global.{name} [$1], {'{' + names + '}' if count > 1 else names};"
    constraint = ",".join(["b", "l", *[letter] * count, "~{memory}"])
    args = [test, b.ptrtoint(place, I64), *parts]
    kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
    b.asm(kind, text, constraint, args, True)


def _guarded(value: Expr, condition: Expr) -> Expr:
    """The value with loads that touch nothing where the condition does not hold."""

    def guard(node: Expr) -> Expr:
        if not isinstance(node, BufferLoad) or _is_constant(node):
            return node
        return Call(node.dtype, _CHOICE, (condition, node, const(0, node.dtype)))

    return rewrite(value, guard)


def _is_constant(load: BufferLoad) -> bool:
    """Whether it is one place of a thread's own array: the sum that it has made."""
    base = _start(load.indices)
    return load.buffer.scope == "local" and isinstance(base, IntImm)


def _start(indices: tuple[Expr, ...]) -> Expr | None:
    """The first of neighbours; None for elements that lie apart."""
    (index,) = indices if len(indices) == 1 else (None,)
    if isinstance(index, Ramp):
        return index.base if is_int(index.stride, 1) else None
    if index is None or isinstance(index, Broadcast) or index.dtype.lanes > 1:
        return None
    return index


def _has(buffer: Buffer, lanes: int) -> bool:
    """Whether a buffer is known to have so many elements."""
    size = buffer.shape[0] if len(buffer.shape) == 1 else None
    return isinstance(size, IntImm) and size.value >= lanes


def _never_fails(expr: Expr) -> bool:
    """Whether it can be computed whatever its variables are."""
    for node in post_order(expr):
        match node:
            case FloorDiv(_, by) | FloorMod(_, by) | Div(_, by) | Mod(_, by):
                if not node.dtype.is_float and not (isinstance(by, IntImm) and by.value):
                    return False
            case Call(_, op, _):
                if not is_pure_op(op):
                    return False
            case BufferLoad(_, indices):
                if any(map(has_load, indices)):
                    return False
    return True
