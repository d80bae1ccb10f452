"""Blocks that add to what is there: their instances may run in any order, each of them once.

A block does that by `C[i] = C[i] + x`, or atomically by `T.atomic_add(T.address_of(C[i]), x)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...expr import REDUCE, SPATIAL, Add, Call, Expr, Var, free_vars_of, post_order
from ...expr.combiners import match_combination
from ...tir import Block, BlockRealize, Buffer, BufferLoad, BufferStore, Evaluate
from ...tir.atomics import atomic_place, atomic_values
from ..errors import name_of
from ..sref import StmtSRef
from ..state import ScheduleState
from .memo import memoised
from .order import repetition_fault
from .scope import accessed_buffers
from .tree import loops_in_sight

ATOMIC_ADD = "tir.atomic_add"
#: On a block: what it stores is added to what is there, atomically (SparseTIR).
ATOMIC = "atomic"


@dataclass(frozen=True, slots=True)
class Addition:
    """What a block adds, and where.

    Attributes:
        place: the element, as it would be loaded.
        value: what is added to it.
        atomic: whether no other thread's access comes between.
    """

    place: BufferLoad
    value: Expr
    atomic: bool


@memoised
def addition_of(state: ScheduleState, block: Block) -> Addition | None:
    """What a block adds to an element, if that is all it does."""
    if block.init is not None or block.match_buffers or block.alloc_buffers:
        return None
    found: Addition | None = None
    match block.body:
        case BufferStore(predicate=None) as store:
            place = BufferLoad(store.buffer, store.indices)
            new = match_combination(lambda a, b: [Add(a[0], b[0])], [place], [store.value])
            found = None if new is None else Addition(place, new[0], atomic=False)
        case Evaluate(value=Call(op=op) as call) if op == ATOMIC_ADD:
            load = atomic_place(call).load
            found = None if load is None else Addition(load, atomic_values(call)[0], atomic=True)
        case _:
            pass
    if found is None or any(_reads(e, found) for e in (found.value, *found.place.indices)):
        return None
    return found


def _reads(expr: Expr, found: Addition) -> bool:
    buffer = found.place.buffer
    return any(
        node is buffer.data or (isinstance(node, BufferLoad) and node.buffer is buffer)
        for node in post_order(expr)
    )


def added_to(state: ScheduleState, block: Block) -> Buffer | None:
    """The buffer that all a block does to is adding, if there is one."""
    found = addition_of(state, block)
    return None if found is None else found.place.buffer


def reads_own_sums(state: ScheduleState, first: Block, second: Block) -> bool:
    """Whether a block reads only to add to it what another one writes.

    One that starts its sums itself does not declare that it reads them.
    """
    added = added_to(state, first)
    made = accessed_buffers(state, second)[1]
    reads = accessed_buffers(state, first)[0]
    return added is not None and all(buffer is added for buffer in reads if buffer in made)


def commutes(state: ScheduleState, first: Block, second: Block) -> bool:
    """Whether two blocks depend on each other by adding to one buffer only, in either order."""
    if addition_of(state, first) is None or addition_of(state, second) is None:
        return False
    (reads, writes), (later, made) = (accessed_buffers(state, b) for b in (first, second))
    shared = {b for b in (*reads, *writes) if b in made} | {b for b in writes if b in later}
    return all(shared <= {added_to(state, block)} for block in (first, second))


def addition_fault(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> str | None:
    """Why iterations of a loop that add may not run in any order, or together; None if they may.

    Those that do not add atomically must have elements of their own, whatever the data says that
    is in indices.
    """
    found = addition_of(state, block.block)
    if found is None:
        return "it does not only add to an element"
    realize, var = state.realize(block), loop.loop.loop_var
    if var in free_vars_of(_values(realize, REDUCE)):
        return f"{name_of(loop)} adds several times to one element"
    if found.atomic:
        return None
    plain = [index for index in found.place.indices if isinstance(index, Var)]
    kept = [
        (axis, value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == SPATIAL and axis.var in plain
    ]
    told = [value for _, value in kept]
    several = f"several iterations of {name_of(loop)} may add to one element of "
    several += repr(found.place.buffer.name)
    if var not in free_vars_of(told):
        return several
    part = realize.block.replace(iter_vars=tuple(axis for axis, _ in kept))
    above = [sref.loop for sref in loops_in_sight(block)]
    cut = above.index(loop.loop)
    used = free_vars_of(told)
    inside = [node for node in above[cut:] if node.loop_var in used]
    apart = realize.replace(iter_values=tuple(told), block=part)
    return None if repetition_fault(apart, above[:cut], inside) is None else several


def _values(realize: BlockRealize, kind: int) -> Iterator[Expr]:
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type == kind:
            yield value
