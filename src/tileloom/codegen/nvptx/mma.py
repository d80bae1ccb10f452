"""`ldmatrix` and `mma.sync`: tiles between shared memory, registers and matrix units."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import llvmlite.ir as ir

from ...base.errors import UnsupportedError
from ...expr import Expr, IntImm, StringImm, Var
from ...target.instructions import check_arch
from ...target.matrix_units import Fragment, Product, find_mma
from ..types import F32, F64, I32
from .pointers import instruction, pointer, registers, shared_address

if TYPE_CHECKING:
    from .kernels import KernelEmitter

#: Register types, and the letters of inline assembly.
LETTERS: dict[ir.Type, str] = {I32: "r", F32: "f", F64: "d"}


def constant(arg: Expr, what: str) -> Any:
    """The value of an argument that the instruction's text needs.

    Raises:
        UnsupportedError: it is not constant.
    """
    if not isinstance(arg, IntImm | StringImm):
        raise UnsupportedError(f"{what} is a constant, not {arg}")
    return arg.value


def _load_matrix(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_ldmatrix(transposed, count, ".b16", to, index, from, index)`."""
    transposed, count = constant(args[0], "trans"), constant(args[1], "the number of matrices")
    if count not in (1, 2, 4):
        raise UnsupportedError(f"ldmatrix loads 1, 2 or 4 matrices, not {count}")
    if str(constant(args[2], "the type of elements")) not in (".b16", "b16"):
        raise UnsupportedError(f"ldmatrix moves elements of .b16, not {args[2]}")
    if transposed and _of_bytes(args[3]):
        raise UnsupportedError(
            "ldmatrix turns tiles of 16-bit elements, not of bytes",
            hint="load the elements one by one",
        )
    tail = ".trans" if transposed else ""
    text = (
        f"ldmatrix.sync.aligned.m8n8.x{count}{tail}.shared.b16 {registers(0, count)}, [${count}];"
    )
    constraint = ",".join([*["=r"] * count, "r", "~{memory}"])
    address = shared_address(e, args[5], args[6])
    kind = I32 if count == 1 else ir.LiteralStructType([I32] * count)
    found = instruction(e, text, constraint, kind, [address])
    parts = [found] if count == 1 else [e.builder.extract_value(found, k) for k in range(count)]
    write_registers(e, pointer(e, args[3], args[4]), parts)


def _of_bytes(data: Expr) -> bool:
    return isinstance(data, Var) and data.pointee is not None and data.pointee[0].bits == 8


def _multiply(e: KernelEmitter, args: tuple[Expr, ...]) -> None:
    """`ptx_mma(shape, "row", "col", types of A, B, C, A, index, B, index, C, index, saturate)`."""
    product = product_of(args)
    check_arch(product.instruction(), f"sm_{product.sm}", e.target)
    saturate = bool(constant(args[12], "saturate"))
    c_type = register_type(product.c_type)
    values = []
    for fragment, kind, at in (
        (product.a, register_type(product.a_type), 6),
        (product.b, register_type(product.b_type), 8),
        (product.c, c_type, 10),
    ):
        values.append(read_registers(e, pointer(e, args[at], args[at + 1]), fragment, kind))
    count = product.c.registers
    starts = (0, count, count + product.a.registers, count + product.a.registers + len(values[1]))
    sizes = (count, *(len(part) for part in values))
    names = [registers(start, size) for start, size in zip(starts, sizes, strict=True)]
    text = f"{product.instruction(saturate)} {', '.join(names)};"
    flat = [value for part in values for value in part]
    outputs = [f"={LETTERS[c_type]}"] * count
    constraint = ",".join([*outputs, *(LETTERS[value.type] for value in flat)])
    kind = c_type if count == 1 else ir.LiteralStructType([c_type] * count)
    found = instruction(e, text, constraint, kind, flat, effect=False)
    results = [found] if count == 1 else [e.builder.extract_value(found, k) for k in range(count)]
    write_registers(e, pointer(e, args[10], args[11]), results)


def product_of(args: tuple[Expr, ...]) -> Product:
    """The product that the arguments of `ptx_mma` name.

    Raises:
        UnsupportedError: there is no such instruction.
    """
    shape, rows, columns, *kinds = (constant(arg, "what mma does") for arg in args[:6])
    if (rows, columns) != ("row", "col"):
        raise UnsupportedError(f"mma takes A by rows and B by columns, not {rows} and {columns}")
    return find_mma(shape, *kinds)


def register_type(name: str) -> ir.Type:
    """The type of a register that holds elements which PTX calls so."""
    return {"f32": F32, "f64": F64}.get(name, I32)


def read_registers(
    e: KernelEmitter, place: ir.Value, fragment: Fragment, kind: ir.Type
) -> list[ir.Value]:
    """The registers that hold a thread's part of a fragment."""
    return [e.builder.load(_slot(e, place, kind, k), typ=kind) for k in range(fragment.registers)]


def write_registers(e: KernelEmitter, place: ir.Value, values: Iterable[ir.Value]) -> None:
    """Put registers into a thread's array."""
    for k, value in enumerate(values):
        e.builder.store(value, _slot(e, place, value.type, k))


def _slot(e: KernelEmitter, place: ir.Value, kind: ir.Type, number: int) -> ir.Value:
    return e.builder.gep(place, [I32(number)], True, source_etype=kind)


HANDLERS: dict[str, Callable[[KernelEmitter, tuple[Expr, ...]], None]] = {
    "tir.ptx_ldmatrix": _load_matrix,
    "tir.ptx_mma": _multiply,
}
