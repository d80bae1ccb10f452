"""`wgmma`: products that four warps start together and wait for later.

While a product is under way its sums stand in registers that nobody may touch. LLVM does not know
that: so before a fence and after a wait an empty instruction takes all such registers and gives
them back, and LLVM keeps what writes them before the one and what reads them after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Call, Expr, IntImm, Var
from ...target.matrix_units import GroupProduct, find_wgmma
from ...tir import Allocate, Evaluate, Stmt, collect
from ..emitter import Emitter
from ..types import I1, I32, I64
from .mma import LETTERS, constant, read_registers, register_type, write_registers
from .pointers import instruction, pointer, registers, shared_address

if TYPE_CHECKING:
    from .kernels import KernelEmitter

WGMMA, DESCRIPTOR = "tir.ptx_wgmma", "tir.ptx_wgmma_descriptor"
#: The two uppermost bits of a descriptor, by the bytes that a row of its pattern has.
SWIZZLES = {0: 0, 32: 3, 64: 2, 128: 1}
_ADDRESS = 0x3FFF  # 14 bits, of 16 bytes each


def accumulators(body: Stmt) -> dict[Var, tuple[str, int]]:
    """The arrays that products of a kernel add to: PTX's type of elements, and how many."""
    found: dict[Var, tuple[str, int]] = {}
    calls = (node.value for node in collect(body, Evaluate))
    kinds = {
        call.args[7]: product_of(call.args).c_type
        for call in calls
        if isinstance(call, Call) and call.op == WGMMA
    }
    for node in collect(body, Allocate):
        kind, extent = kinds.get(node.buffer_var), node.extents[0]
        if kind is not None and isinstance(extent, IntImm):
            found[node.buffer_var] = kind, extent.value
    return found


def product_of(args: tuple[Expr, ...]) -> GroupProduct:
    """The product that the arguments of `ptx_wgmma` name.

    Raises:
        UnsupportedError: there is no such instruction.
    """
    shape, *kinds = (constant(arg, "what wgmma does") for arg in args[:4])
    return find_wgmma(shape, *kinds)


# ---------------------------------------------------------------------------- descriptors


def descriptor(e: Emitter, call: Call) -> ir.Value:
    """`ptx_wgmma_descriptor(pointer, leading bytes, stride bytes, swizzle)`."""
    place, *strides, swizzle = call.args
    pattern = SWIZZLES.get(constant(swizzle, "the swizzle"))
    if pattern is None:
        raise UnsupportedError(f"a swizzle has 0, 32, 64 or 128 bytes, not {swizzle}")
    b = e.builder
    address = shared_address(cast("KernelEmitter", e), place)  # only kernels have shared memory
    value = b.zext(_sixteenth(b, address), I64)
    for stride, shift in zip(strides, (16, 32), strict=True):
        part = b.zext(_sixteenth(b, e.value(stride)), I64)
        value = b.or_(value, b.shl(part, I64(shift)))
    high = pattern << 62
    return b.or_(value, I64(high - (1 << 64) if high >> 63 else high))


def _sixteenth(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return b.and_(b.lshr(value, value.type(4)), value.type(_ADDRESS))


# ---------------------------------------------------------------------------- products


def _multiply(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_wgmma(shape, types of A, B, C, A, index, B, C, index, accumulate[, turns of A, B])`."""
    product = product_of(args)
    kind = register_type(product.c_type)
    place = pointer(e, args[7], args[8])
    sums = read_registers(e, place, product.c, kind)
    count = len(sums)
    in_memory = not args[4].dtype.is_handle
    if in_memory:
        left = [e.value(args[4])]
    else:
        left = read_registers(e, pointer(e, args[4], args[5]), product.a, I32)
    operands = [*left, e.value(args[6]), _flag(e, args[9])]
    names = [f"${count + k}" for k in range(len(operands))]
    a = names[0] if in_memory else registers(count, len(left))
    transposes = _transposes(product, args[10:], in_memory)
    scales = "" if product.c_type == "s32" else ", 1, 1"
    text = (
        f"{{ .reg .pred more; setp.ne.b32 more, {names[-1]}, 0; {product.instruction} "
        f"{registers(0, count)}, {a}, {names[-2]}, more{scales}{transposes}; }}"
    )
    letters = ["l" if value.type == I64 else "r" for value in operands]
    tied = [str(k) for k in range(count)]
    constraint = ",".join([*[f"={LETTERS[kind]}"] * count, *letters, *tied, "~{memory}"])
    result = ir.LiteralStructType([kind] * count)
    found = instruction(e, text, constraint, result, [*operands, *sums])
    write_registers(e, place, [e.builder.extract_value(found, k) for k in range(count)])


def _flag(e: Emitter, arg: Expr) -> ir.Value:
    value = e.value(arg)
    return e.builder.zext(value, I32) if value.type == I1 else value


def _transposes(product: GroupProduct, args: tuple[Expr, ...], in_memory: bool) -> str:
    """The constants that say which factors lie the other way round."""
    transposes = [int(constant(arg, "a factor's order")) for arg in args] or [0, 0]
    if not product.may_transpose:
        if any(transposes):
            raise UnsupportedError(f"factors of {product.a_type} lie along k in shared memory")
        return ""
    if not in_memory and transposes[0]:
        raise UnsupportedError("A in registers lies along k")
    return "".join(f", {turn}" for turn in (transposes if in_memory else transposes[1:]))


# ---------------------------------------------------------------------------- order


def _fence(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """What was written into sums comes before, as far as LLVM can tell."""
    _pass_all_through(e)
    instruction(e, "wgmma.fence.sync.aligned;", "~{memory}", ir.VoidType(), [])


def _wait(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """What takes sums comes after."""
    left = constant(args[0], "the number of groups")
    text = f"wgmma.wait_group.sync.aligned {left};"
    instruction(e, text, "~{memory}", ir.VoidType(), [])
    _pass_all_through(e)


def _pass_all_through(e: KernelEmitter) -> None:
    for data, (kind, count) in e.accumulators.items():
        if data in e.env:
            _pass_through(e, e.env[data], register_type(kind), count, kind)


def _pass_through(
    e: KernelEmitter, place: ir.Value, register: ir.Type, count: int, kind: str
) -> None:
    count = count // 2 if kind == "f16" else count
    slots = [e.builder.gep(place, [I32(k)], True, source_etype=register) for k in range(count)]
    values = [e.builder.load(slot, typ=register) for slot in slots]
    outputs = [f"={LETTERS[register]}"] * count
    constraint = ",".join([*outputs, *map(str, range(count))])
    result = register if count == 1 else ir.LiteralStructType([register] * count)
    found = instruction(e, "", constraint, result, values)
    for k, slot in enumerate(slots):
        e.builder.store(found if count == 1 else e.builder.extract_value(found, k), slot)


HANDLERS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    WGMMA: _multiply,
    "tir.ptx_wgmma_fence": _fence,
    "tir.ptx_wgmma_commit_group": lambda e, _: _commit(e),
    "tir.ptx_wgmma_wait_group": _wait,
}


def _commit(e: KernelEmitter) -> None:
    instruction(e, "wgmma.commit_group.sync.aligned;", "~{memory}", ir.VoidType(), [])
