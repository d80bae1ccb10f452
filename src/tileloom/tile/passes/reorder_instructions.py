"""The order of instructions: fewer registers in use at a time."""

from __future__ import annotations

from ..ir.core import Operation
from ..ir.types import TensorType
from ..layouts.encodings import DotOperandEncoding
from .registry import tile_pass

TRANSPOSITIONS = ("tt.trans", "ttg.memdesc_trans")


@tile_pass("tritongpu-reorder-instructions")
def reorder_instructions(module: Operation) -> None:
    """Moves operations within what their operands and effects allow:

    - conversions of layout after the last buffer freed before their first use, so that they can
      have its memory;
    - loads of operands of products, used once in an inner loop, into that loop;
    - stores to new buffers next to what they store, transpositions next to what they transpose;
    - the load of a product's second operand behind that of the first.
    """
    operations = list(module.walk())
    for op in operations:
        if op.name == "ttg.convert_layout":
            _after_deallocations(op)
    for op in operations:
        if _holds_registers(op):
            _sink_into_loop(op)
    for op in operations:
        if op.name == "ttg.local_alloc" or op.name in TRANSPOSITIONS:
            _next_to_source(op)
    for op in operations:
        if op.name == "ttg.local_load":
            _after_first_operand(op)


def _operand_index(op: Operation) -> int | None:
    """Which operand of a product an operation gives, or None."""
    type = op.results[0].type
    encoding = type.encoding if isinstance(type, TensorType) else None
    return encoding.op_idx if isinstance(encoding, DotOperandEncoding) else None


def _after_deallocations(op: Operation) -> None:
    block = op.block_of()
    users = [block.find_ancestor(user) for user in op.results[0].users]
    here = [user for user in users if user is not None]
    place, following = op, op.next
    while following is not None and following not in here:
        if following.name == "ttg.local_dealloc":
            place = following
        following = following.next
    op.move_after(place)


def _holds_registers(op: Operation) -> bool:
    if op.name == "ttg.local_load":
        return True
    return op.name == "ttg.convert_layout" and _operand_index(op) is not None


def _sink_into_loop(op: Operation) -> None:
    if op.results[0].use_count != 1:
        return
    user = next(iter(op.results[0].users))
    if user.enclosing("scf.for") is op.enclosing("scf.for"):
        return
    if op.name == "ttg.local_load" and not _is_constant_memory(op):
        return
    op.move_before(user)


def _is_constant_memory(op: Operation) -> bool:
    """Whether what is loaded is never written after it was made: a load may then be moved."""
    source = op.operands[0].defining_op
    while source is not None and source.name in ("ttg.memdesc_subview", "ttg.memdesc_trans"):
        source = source.operands[0].defining_op
    if source is None or source.name != "ttg.local_alloc" or not source.operands:
        return False
    freed = any(user.name == "ttg.local_dealloc" for user in source.results[0].users)
    return not freed


def _next_to_source(op: Operation) -> None:
    source = op.operands[0].defining_op if op.operands else None
    if source is not None:
        op.move_after(source)


def _after_first_operand(op: Operation) -> None:
    if _operand_index(op) != 1 or op.results[0].use_count != 1:
        return
    product = next(iter(op.results[0].users))
    if product.name != "tt.dot":
        return
    first = product.operands[0].defining_op
    if first is None or first.name != "ttg.local_load" or first.block is not op.block:
        return
    if op.is_before(first) and not _writes_between(op, first):
        op.move_after(first)


def _writes_between(first: Operation, last: Operation) -> bool:
    """Whether something between two operations of a block may write to or free shared memory."""
    op = first.next
    while op is not None and op is not last:
        if op.regions or op.name in ("ttg.local_store", "ttg.local_dealloc", "gpu.barrier"):
            return True
        op = op.next
    return False
