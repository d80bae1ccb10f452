"""Matrix fragments on NVIDIA GPUs: `wmma` instructions on tiles of 16 by 16 by 16.

A fragment is a few registers of every thread of a warp. How it was loaded, by rows or by columns,
is part of its type, so all loads of one array of fragments must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import llvmlite.ir as ir

from ...base import DType
from ...base.errors import UnsupportedError
from ...expr import Call, Expr, IntImm, StringImm, Var
from ...tir import Allocate, Stmt, collect_exprs
from ..types import F32, I32, I64, memory_type, opaque

if TYPE_CHECKING:
    from .kernels import KernelEmitter

_SHAPE = "m16n16k16"
_OPERANDS = {"wmma.matrix_a": "a", "wmma.matrix_b": "b", "wmma.accumulator": "c"}
#: Registers of 32 bits that a thread holds, and PTX's name of the type.
_REGISTERS = {
    ("a", "float16"): (8, "f16"), ("b", "float16"): (8, "f16"),
    ("a", "bfloat16"): (4, "bf16"), ("b", "bfloat16"): (4, "bf16"),
    ("a", "int8"): (2, "s8"), ("b", "int8"): (2, "s8"),
    ("a", "uint8"): (2, "u8"), ("b", "uint8"): (2, "u8"),
    ("c", "float32"): (8, "f32"), ("c", "float16"): (4, "f16"), ("c", "int32"): (8, "s32"),
}  # fmt: skip


@dataclass(frozen=True)
class Fragments:
    """An array of fragments: `registers` for each, in memory that becomes registers."""

    pointer: ir.Value
    operand: str
    registers: int
    kind: str
    layout: str

    @property
    def letter(self) -> str:
        """The constraint of its registers in inline assembly."""
        return "f" if self.kind == "f32" else "r"

    @property
    def element(self) -> ir.Type:
        """The type of a register."""
        return F32 if self.kind == "f32" else I32

    @property
    def row(self) -> str:
        """`row` or `col`."""
        return self.layout.removesuffix("_major")


def layouts(body: Stmt) -> dict[Var, str]:
    """How the fragments that a kernel loads are laid out, by pointer.

    Raises:
        UnsupportedError: an array of fragments is loaded in both ways.
    """
    found: dict[Var, str] = {}
    for call in collect_exprs(body, Call):
        if call.op == "tir.tvm_load_matrix_sync":
            data, layout = call.args[0], call.args[-1]
            if not isinstance(data, Var) or not isinstance(layout, StringImm):
                raise UnsupportedError(f"a fragment is loaded as {call}")
            if found.setdefault(data, layout.value) != layout.value:
                raise UnsupportedError(f"fragments {data.name!r} are loaded in two layouts")
    return found


def allocate(e: KernelEmitter, stmt: Allocate, scope: str) -> Fragments:
    """Room for an array of fragments."""
    operand = _OPERANDS.get(scope, "")
    known = _REGISTERS.get((operand, str(stmt.dtype)))
    if known is None:
        raise UnsupportedError(f"no GPU code for fragments of {stmt.dtype} in {scope!r}")
    registers, kind = known
    count = 1
    for extent in stmt.extents:
        if not isinstance(extent, IntImm):
            raise UnsupportedError(f"fragments {stmt.buffer_var.name!r} have no constant number")
        count *= extent.value
    element = F32 if kind == "f32" else I32
    with e.builder.goto_entry_block():
        pointer = e.builder.alloca(ir.ArrayType(element, max(1, count // 256) * registers))
    layout = e.layouts.get(stmt.buffer_var, "row_major")
    return Fragments(opaque(pointer), operand, registers, kind, layout)


# ---------------------------------------------------------------------------- registers


def _of(e: KernelEmitter, data: Expr) -> Fragments:
    found = e.fragments.get(data) if isinstance(data, Var) else None
    if found is None:
        raise UnsupportedError(f"{data} is no array of fragments")
    return found


def _slots(e: KernelEmitter, fragments: Fragments, index: Expr) -> list[ir.Value]:
    first = e.builder.mul(e.index(index), I64(fragments.registers))
    return [
        e.builder.gep(
            fragments.pointer, [e.builder.add(first, I64(k))], True, source_etype=fragments.element
        )
        for k in range(fragments.registers)
    ]


def _read(e: KernelEmitter, fragments: Fragments, index: Expr) -> list[ir.Value]:
    slots = _slots(e, fragments, index)
    return [e.builder.load(slot, typ=fragments.element) for slot in slots]


def _write(e: KernelEmitter, fragments: Fragments, index: Expr, values: Iterable[ir.Value]) -> None:
    for slot, value in zip(_slots(e, fragments, index), values, strict=True):
        e.builder.store(value, slot)


def _outputs(e: KernelEmitter, result: ir.Value, count: int) -> list[ir.Value]:
    return [e.builder.extract_value(result, k) for k in range(count)]


def _names(first: int, count: int) -> str:
    return "{" + ", ".join(f"${first + k}" for k in range(count)) + "}"


def _asm(
    e: KernelEmitter, text: str, constraint: str, result: ir.Type, args: list[ir.Value]
) -> ir.Value:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    code = ir.InlineAsm(kind, text, constraint, True)
    return e.builder.call(code, args, attrs=("convergent", "nounwind"))


def _address(e: KernelEmitter, pointer: Expr) -> ir.Value:
    if not isinstance(pointer, Call) or pointer.op != "tir.tvm_access_ptr":
        raise UnsupportedError(f"a fragment is moved through an access pointer, not {pointer}")
    kind, data, offset = pointer.args[:3]
    element: DType = kind.dtype
    base = e.value(data)
    return e.builder.gep(base, [e.index(offset)], True, source_etype=memory_type(element))


# ---------------------------------------------------------------------------- calls


def _fill(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    data, *_, index, value = args
    fragments = _of(e, data)
    number = e.value(value)
    if fragments.kind == "f16":
        half = e.builder.bitcast(
            number if number.type == ir.HalfType() else e.builder.fptrunc(number, ir.HalfType()),
            ir.IntType(16),
        )
        low = e.builder.zext(half, I32)
        number = e.builder.or_(low, e.builder.shl(low, I32(16)))
    elif fragments.kind == "s32" and number.type != I32:
        number = e.builder.fptosi(number, I32)
    _write(e, fragments, index, [number] * fragments.registers)


def _load(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    data, *_, index, pointer, stride, _layout = args
    f = _of(e, data)
    n = f.registers
    if f.operand == "c":
        raise UnsupportedError("accumulators are filled, not loaded")
    text = (
        f"wmma.load.{f.operand}.sync.aligned.{f.row}.{_SHAPE}.{f.kind} {_names(0, n)}, "
        f"[${n}], ${n + 1};"
    )
    constraint = ",".join([*["=r"] * n, "l", "r", "~{memory}"])
    args_ = [e.builder.ptrtoint(_address(e, pointer), I64), e.value(stride)]
    result = _asm(e, text, constraint, ir.LiteralStructType([I32] * n), args_)
    _write(e, f, index, _outputs(e, result, n))


def _multiply(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    to, a, b, c = (_of(e, args[n]) for n in (0, 2, 4, 6))
    n, kind = to.registers, to.kind
    if kind == "s32":
        types = f"s32.{a.kind}.{b.kind}.s32"
    elif a.kind == "bf16":
        types = "f32.bf16.bf16.f32"
    else:
        types = f"{kind}.{c.kind}"
    starts = (0, n, n + a.registers, n + a.registers + b.registers)
    names = [_names(s, f.registers) for s, f in zip(starts, (to, a, b, c), strict=True)]
    text = f"wmma.mma.sync.aligned.{a.row}.{b.row}.{_SHAPE}.{types} {', '.join(names)};"
    values = [v for f, k in ((a, 3), (b, 5), (c, 7)) for v in _read(e, f, args[k])]
    letters = [*["r"] * (a.registers + b.registers), *[c.letter] * c.registers]
    constraint = ",".join([*[f"={to.letter}"] * n, *letters])
    result = _asm(e, text, constraint, ir.LiteralStructType([to.element] * n), values)
    _write(e, to, args[1], _outputs(e, result, n))


def _store(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    data, *_, index, pointer, stride, layout = args
    f = _of(e, data)
    n = f.registers
    row = layout.value.removesuffix("_major") if isinstance(layout, StringImm) else "row"
    text = f"wmma.store.d.sync.aligned.{row}.{_SHAPE}.{f.kind} [$0], {_names(1, n)}, ${n + 1};"
    constraint = ",".join(["l", *[f.letter] * n, "r", "~{memory}"])
    address = e.builder.ptrtoint(_address(e, pointer), I64)
    values = [address, *_read(e, f, index), e.value(stride)]
    _asm(e, text, constraint, ir.VoidType(), values)


HANDLERS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    "tir.tvm_fill_fragment": _fill,
    "tir.tvm_load_matrix_sync": _load,
    "tir.tvm_store_matrix_sync": _store,
    "tir.tvm_mma_sync": _multiply,
}
