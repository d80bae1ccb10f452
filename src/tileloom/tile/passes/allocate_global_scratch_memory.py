"""Places in the scratch memory that a kernel is given in global memory."""

from __future__ import annotations

from ...base.errors import UserError
from ..dialects.functions import callee_of, symbol_name
from ..ir.attributes import IntegerAttr
from ..ir.core import Operation
from ..ir.types import I32
from .registry import tile_pass

SIZE = "ttg.global_scratch_memory_size"
ALIGNMENT = "ttg.global_scratch_memory_alignment"
OFFSET = "ttg.global_scratch_memory_offset"


@tile_pass("tritongpu-global-scratch-memory-allocation")
def allocate_global_scratch_memory(module: Operation) -> None:
    """Gives each `ttg.global_scratch_alloc`, and each call of a function that has some, an
    offset; functions, and the module for its kernel, get their size and alignment."""
    functions = {symbol_name(op): op for op in module.body if op.name == "tt.func"}
    done: dict[str, tuple[int, int]] = {}
    for name in functions:
        _allocate(name, functions, done, ())
    for name, function in functions.items():
        visibility = function.enum("sym_visibility")
        if visibility == "public" and done[name][0]:
            _set(module, *done[name])


def _allocate(
    name: str,
    functions: dict[str, Operation],
    done: dict[str, tuple[int, int]],
    callers: tuple[str, ...],
) -> tuple[int, int]:
    """The size and the alignment of a function's scratch memory."""
    if name in done:
        return done[name]
    if name in callers:
        raise UserError(f"@{name} calls itself: the size of its scratch memory is not known")
    offset, alignment = 0, 1
    function = functions[name]
    for op in function.walk_inner_first():
        if op.name == "ttg.global_scratch_alloc":
            size, align = op.integer("nbytes"), op.integer("alignment")
        elif op.name == "tt.call" and callee_of(op) in functions:
            size, align = _allocate(callee_of(op), functions, done, (*callers, name))
            if not size:
                continue
        else:
            continue
        offset = -(-offset // align) * align
        op.attributes[OFFSET] = IntegerAttr(offset, I32)
        offset += size
        alignment = max(alignment, align)
    total = -(-offset // alignment) * alignment
    done[name] = total, alignment
    if total or not callers:
        _set(function, total, alignment)
    return done[name]


def _set(op: Operation, size: int, alignment: int) -> None:
    op.attributes[SIZE] = IntegerAttr(size, I32)
    op.attributes[ALIGNMENT] = IntegerAttr(alignment, I32)
