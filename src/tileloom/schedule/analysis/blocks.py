"""Kinds of blocks: complete, reduction, output; and what makes a loop safe to run in any order.

The functions `..._fault` answer with the condition that does not hold, in words, or None.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import OPAQUE, REDUCE, SPATIAL, Analyzer, Expr, IntImm, free_vars
from ...tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    Stmt,
    collect,
    collect_exprs,
)
from ...tir.atomics import atomic_buffers
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from .additions import added_to, addition_fault, addition_of
from .affine import affine_binding, masked_binding
from .in_place import updated_in_place
from .reductions import statement_fault
from .scope import accessed_buffers, block_scope
from .tree import child_blocks, child_realizes, is_zero, scope_root


def _dominance_fault(state: ScheduleState, within: StmtSRef, block: Block) -> str | None:
    """Whether a block is the only one to write what it writes, declared or not."""
    scope = block_scope(state, _stmt(within))
    for buffer in accessed_buffers(state, block)[1]:
        writers = scope.writers.get(buffer, ())
        other = next((writer for writer in writers if writer is not block), None)
        if other is not None:
            return (
                f"it is not the only block to write {buffer.name!r}: {other.name_hint!r} does too"
            )
    return None


def complete_fault(
    state: ScheduleState, block: StmtSRef, within: StmtSRef, atomic: bool = False
) -> str | None:
    """Why a block is not complete in a scope (or, locally, under a loop); None if it is.

    A complete block has data-parallel iterations only, is the only one to write what it writes,
    and reads nothing of that.

    Args:
        atomic: whether it may read what it writes by atomic calls, or where each instance has an
            element of its own, which is as good where only the order of instances is to change,
            and not how often they run.
    """
    stmt = block.block
    for axis in stmt.iter_vars:
        if axis.iter_type != SPATIAL:
            return f"its iteration variable {axis.var.name!r} is not data-parallel"
    reads, writes = accessed_buffers(state, stmt)
    both = [buffer for buffer in reads if buffer in writes]
    added = added_to(state, stmt)
    if added is not None and added not in both:
        both.append(added)
    if both and atomic:
        in_any_order = atomic_buffers(stmt)
        if affine_binding(state, block):  # each instance runs once
            in_any_order |= updated_in_place(stmt)
        both = [buffer for buffer in both if buffer not in in_any_order]
    if both:
        return f"it both reads and writes {both[0].name!r}"
    return _dominance_fault(state, within, stmt)


def reduction_fault(
    state: ScheduleState, block: StmtSRef, within: StmtSRef, masked: bool = False
) -> str | None:
    """Why a block is not a reduction in a scope (or, locally, under a loop); None if it is.

    A reduction block has an `init`, affine bindings, data-parallel and reduction iterations only,
    is the only one to write what it writes, and has statements that reduce: see `statement_fault`.

    Args:
        masked: whether the predicate may leave out instances by a condition on several variables,
            which is as good where nothing but the order of instances is to change.
    """
    stmt = block.block
    if stmt.init is None:
        return "it has no T.init()"
    if not affine_binding(state, block) and not (masked and masked_binding(state, block)):
        return "the values of its iteration variables are not affine in the loops around it"
    for axis in stmt.iter_vars:
        if axis.iter_type not in (SPATIAL, REDUCE):
            return f"its iteration variable {axis.var.name!r} is neither data-parallel nor reduced"
    fault = _dominance_fault(state, within, stmt)
    return fault or statement_fault(state, stmt)


def _stmt(sref: StmtSRef) -> For | Block:
    return sref.loop if sref.is_loop else sref.block


def check_complete(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that is not complete in its scope."""
    fault = complete_fault(state, block, scope_root(block))
    if fault is not None:
        raise refuse(f"{name_of(block)} is not a complete block: {fault}", at=[block])


def check_reduction(
    state: ScheduleState, block: StmtSRef, within: StmtSRef | None = None, masked: bool = False
) -> None:
    """Refuse a block that is not a reduction in its scope, or within a loop around it.

    `masked` is as for `reduction_fault`.
    """
    fault = reduction_fault(state, block, within or scope_root(block), masked)
    if fault is not None:
        raise refuse(f"{name_of(block)} is not a reduction block: {fault}", at=[block])


def check_complete_or_reduction(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that is neither complete nor a reduction in its scope."""
    within = scope_root(block)
    complete = complete_fault(state, block, within)
    if complete is None:
        return
    reduction = reduction_fault(state, block, within)
    if reduction is not None:
        raise refuse(
            f"{name_of(block)} is neither a complete block ({complete}) "
            f"nor a reduction block ({reduction})",
            at=[block],
        )


def check_compact_dataflow(state: ScheduleState, loop: StmtSRef) -> None:
    """Refuse a loop that holds a block which is neither complete nor a reduction within it.

    A block that only adds to elements is as good, where iterations of the loop do not conflict.
    """
    for block in child_blocks(state, loop):
        complete = complete_fault(state, block, loop, atomic=True)
        if complete is None:
            continue
        reduction = reduction_fault(state, block, loop, masked=True)
        if reduction is not None and addition_of(state, block.block) is not None:
            reduction = _dominance_fault(state, loop, block.block)
            reduction = reduction or addition_fault(state, block, loop)
        if reduction is not None:
            raise refuse(
                f"{name_of(loop)} holds {name_of(block)}, which is neither complete ({complete}) "
                f"nor a reduction ({reduction}) within it",
                at=[loop, block],
                notes=["", "here"],
                fast="the subtree has no compact dataflow",
            )


def is_output(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    return bool(_outputs(state, block))


def _outputs(state: ScheduleState, block: StmtSRef) -> list[Buffer]:
    local = set(scope_root(block).block.alloc_buffers)
    return [buffer for buffer in accessed_buffers(state, block.block)[1] if buffer not in local]


def check_not_output(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block that writes what is seen outside of its scope."""
    outputs = _outputs(state, block)
    if outputs:
        name = outputs[0].name
        raise refuse(
            f"{name_of(block)} writes {name!r}, a result of its scope",
            at=[block],
            fast="The block is an output block",
        )


def has_trivial_binding(state: ScheduleState, block: StmtSRef) -> bool:
    """Whether each iteration variable stands for exactly one loop, in the order of the loops."""
    values = state.realize(block).iter_values
    loops = []
    for outer in block.ancestors():
        if not outer.is_loop:
            break
        loops.append(outer.loop.loop_var)
    loops.reverse()
    return len(values) == len(loops) and all(a is b for a, b in zip(values, loops))


def check_trivial_binding(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse a block whose iteration variables are not plainly the loops around it."""
    if not has_trivial_binding(state, block):
        raise refuse(
            f"the iteration variables of {name_of(block)} are not plainly the loops around it",
            at=[block],
        )


def loop_iter_type(state: ScheduleState, loop: StmtSRef) -> int:
    """What a loop is for the blocks in it: SPATIAL, REDUCE, or OPAQUE for anything else or both."""
    var = loop.loop.loop_var
    types: set[int] = set()
    for realize in child_realizes(state, loop.loop):
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if var in free_vars(value):
                types.add(axis.iter_type)
    if not types:
        return SPATIAL
    return types.pop() if len(types) == 1 and types <= {SPATIAL, REDUCE} else OPAQUE


def leaf_store(block: Block) -> BufferStore | None:
    """The store that is all of a block's body, if it is, and not one to a view."""
    if block.match_buffers or block.alloc_buffers:
        return None
    return block.body if isinstance(block.body, BufferStore) else None


def loaded_points(stmt: Stmt) -> tuple[BufferRegion, ...]:
    """The elements that a statement loads, each once."""
    loads = collect_exprs(stmt, BufferLoad)
    return tuple(dict.fromkeys(BufferRegion.point(load.buffer, load.indices) for load in loads))


def simplified_indices(block: Block, indices: Sequence[Expr]) -> list[Expr]:
    """Indices in a block's variables, simplified; an index that has one value only stays.

    So a variable of one value is no part of `x + y`, but is one where it stands alone.
    """
    analyzer = Analyzer({axis.var: axis.domain for axis in block.iter_vars})
    simple = [analyzer.simplify(index) for index in indices]
    return [i if isinstance(s, IntImm) else s for i, s in zip(indices, simple, strict=True)]


def holds_blocks(block: Block) -> bool:
    """Whether there are blocks inside a block."""
    return bool(collect(block.body, BlockRealize))


__all__ = [
    "check_compact_dataflow", "check_complete", "check_complete_or_reduction", "check_not_output",
    "check_reduction", "check_trivial_binding", "complete_fault",
    "has_trivial_binding", "holds_blocks", "is_output", "is_zero",
    "leaf_store", "loaded_points", "loop_iter_type",
    "reduction_fault", "simplified_indices",
]  # fmt: skip
