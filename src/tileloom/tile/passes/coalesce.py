"""Layouts in which neighbouring threads access neighbouring addresses, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..analysis.axis_info import ModuleAxisInfo, arg_sort
from ..analysis.slices import related_operations
from ..ir.core import Operation, Value
from ..ir.rewriter import OpBuilder, module_integer
from ..ir.types import TensorType, as_tensor, element_bits, is_pointer, pointee
from ..layouts.blocked import blocked_encoding
from ..layouts.encodings import Encoding
from ..layouts.properties import cta_layout, encoding_of_type, shape_per_cta
from .registry import tile_pass

ACCESSES = (
    *("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"),
    "ttg.async_copy_global_to_local",
)
WIDEST_ACCESS = 128  # bits of a thread's load or store


@tile_pass("tritongpu-coalesce")
def coalesce(module: Operation) -> None:
    """Gives each access of global memory by a tensor of pointers the layout that fits it.

    The dimension along which addresses are contiguous is the fastest. A thread has as many
    elements next to each other as alignment and contiguity allow, at most 128 bits, and no more
    than leave all threads with work. Accesses that are computed from each other agree. Operands
    are converted to the layout and results back.
    """
    infos = ModuleAxisInfo(module)
    warps = module_integer(module, "ttg.num-warps", 4)
    lanes = module_integer(module, "ttg.threads-per-warp", 32)
    chosen: dict[Operation, Encoding] = {}
    for op in module.walk():
        pointer = access_pointer(op)
        if pointer is None or not isinstance(pointer.type, TensorType):
            continue
        if is_pointer(pointer.type) and pointer.type.encoding is not None:
            chosen[op] = choose_layout(op, pointer, infos, warps, lanes)
    for op, encoding in chosen.items():
        _rebuild(op, encoding)


def access_pointer(op: Operation) -> Value | None:
    """The pointer by which an operation accesses global memory, or None."""
    return op.operands[0] if op.name in ACCESSES else None


def choose_layout(
    op: Operation, pointer: Value, infos: ModuleAxisInfo, warps: int, lanes: int
) -> Encoding:
    """The layout for an access."""
    type = as_tensor(pointer.type)
    encoding = encoding_of_type(type)
    order = arg_sort(infos.contiguity(pointer))
    shape = shape_per_cta(type.shape, cta_layout(encoding))
    width = max(
        elements_of_thread(other, order, infos)
        for other in related_operations(op)
        if other is op or _is_alike(other, type, order, infos)
    )
    width = min(width, max(prod(shape) // (warps * lanes), 1))
    if op.name != "tt.load":
        # A wider store would leave gaps between what neighbouring threads write.
        width = min(width, elements_of_thread(op, order, infos))
    sizes = [1] * type.rank
    sizes[order[0]] = width
    return blocked_encoding(type.shape, sizes, order, warps, lanes, cta_layout(encoding))


def _is_alike(op: Operation, type: TensorType, order: Sequence[int], infos: ModuleAxisInfo) -> bool:
    """Whether an operation is an access of the same shape and order."""
    pointer = access_pointer(op)
    if pointer is None or not isinstance(pointer.type, TensorType):
        return False
    return pointer.type.shape == type.shape and arg_sort(infos.contiguity(pointer)) == order


def elements_of_thread(op: Operation, order: Sequence[int], infos: ModuleAxisInfo) -> int:
    """The most elements next to each other that a thread can access at once."""
    pointer = access_pointer(op)
    if pointer is None:
        return 1
    type = as_tensor(pointer.type)
    bits = element_bits(pointee(type))
    shape = shape_per_cta(type.shape, cta_layout(encoding_of_type(type)))
    info = infos.of(pointer)
    fastest = order[0]
    aligned = max(info.divisibility[fastest] // max(bits // 8, 1), 1)
    run = min(info.contiguity[fastest], shape[fastest])
    return min(aligned, run, WIDEST_ACCESS // bits)


def _rebuild(op: Operation, encoding: Encoding) -> None:
    """Does an access in a layout: its operands converted to it, its results back."""
    build = OpBuilder(before=op)
    operands = []
    for operand in op.operands:
        type = operand.type
        if isinstance(type, TensorType):
            operands.append(build.convert(operand, type.with_encoding(encoding)))
        else:
            operands.append(operand)
    op.set_operands(operands)
    build.after_op(op)
    for result in op.results:
        old = result.type
        if isinstance(old, TensorType) and old.encoding is not encoding:
            result.type = old.with_encoding(encoding)
            converted = build.convert(result, old)
            result.replace_uses(converted, lambda user, own=converted: user is not own.defining_op)
