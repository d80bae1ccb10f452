"""Write-back blocks: they put a cache where it belongs, or add it to what is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...expr import REDUCE, Add, Call, Expr, Range, binary, const, post_order
from ...tir import (
    POSITIONS,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    sparse_level,
)
from ...tir.atomics import ADDRESS_OF
from ..analysis.additions import ATOMIC, ATOMIC_ADD, Addition, addition_of
from ..analysis.blocks import leaf_store
from ..analysis.order import repetition_fault
from ..analysis.scope import accessed_buffers
from ..analysis.tree import child_blocks, loops_above, loops_in_sight
from ..errors import name_of, refuse
from ..sref import StmtSRef
from ..state import ScheduleState
from ._cache import Location, UseInstead
from ._rebuild import index_in


@dataclass(frozen=True)
class WriteBack:
    """How what a block makes in a cache gets to where it belongs.

    Attributes:
        added: what the block adds to what is there; None where it stores or starts its results.
        atomic: whether the cache is added atomically.
        annotations: of the block that does it.
    """

    added: Addition | None = None
    atomic: bool = False
    annotations: Mapping[str, Any] | None = None

    def finished(self, copy: Block) -> Block:
        """The block that copies an element of the cache, or adds it."""
        copy = copy.replace(annotations=dict(self.annotations or {}))
        if self.added is None and not self.atomic:
            return copy
        return adding(copy, self.atomic)


def write_back_of(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> WriteBack:
    """The way back that fits what a block does."""
    stmt = block.block
    found = addition_of(state, stmt)
    added = found if found is not None and found.place.buffer is buffer else None
    atomic = bool(stmt.annotations.get(ATOMIC)) or (added is not None and added.atomic)
    return WriteBack(added, atomic, stmt.annotations)


def adding(block: Block, atomic: bool) -> Block:
    """A block that adds what another one stores."""
    store = block.body
    if not isinstance(store, BufferStore):
        raise refuse(f"{name_of(block)} does more than store a value", at=[block])
    place = BufferLoad(store.buffer, store.indices)
    if not atomic:
        body = store.replace(value=binary(Add, place, store.value))
        reads = (BufferRegion.point(store.buffer, store.indices), *block.reads)
        return block.replace(body=body, reads=reads)
    return block.replace(body=Evaluate(atomic_addition(place, store.value)))


def add_atomically(state: ScheduleState, block: StmtSRef) -> None:
    """Let a block add atomically what it adds or stores; one that does something else stays."""
    stmt = block.block
    found = addition_of(state, stmt)
    if found is not None and not found.atomic:
        body = Evaluate(atomic_addition(found.place, found.value))
        state.replace(block, stmt.replace(body=body))
    elif found is None and stmt.init is None and leaf_store(stmt) is not None:
        _check_runs_once(state, block)
        state.replace(block, adding(stmt, atomic=True))


def _check_runs_once(state: ScheduleState, block: StmtSRef) -> None:
    """Refuse to add what loops store again and again."""
    fault = repetition_fault(state.realize(block), [], [s.loop for s in loops_in_sight(block)])
    if fault is not None:
        raise refuse(
            f"{fault}, so what it stores would be added more than once",
            at=[block],
            hint="annotate it before loops that place are fused with loops that reduce",
        )


def atomic_addition(place: BufferLoad, value: Expr) -> Call:
    """The call that adds to an element with no other thread's access between."""
    return Call(value.dtype, ATOMIC_ADD, (Call("handle", ADDRESS_OF, (place,)), value))


class IntoCache(UseInstead):
    """Lets a block make in a cache what it makes elsewhere; what it adds, from 0 on."""

    def __init__(
        self, block: Block, old: Buffer, new: Buffer, place: Sequence[Expr], back: WriteBack
    ) -> None:
        region = tuple(Range(index, const(1, index.dtype)) for index in place)
        super().__init__(old, new, lambda _: tuple(place), lambda _: region, writes=True)
        self.block, self.back, self.place = block, back, tuple(place)

    def visit_Block(self, stmt: Block) -> Block:
        if stmt is not self.block:
            return super().visit_Block(stmt)
        new = stmt if self.back.added is None else self._started(stmt, self.back.added.value)
        new = super().visit_Block(new) if new is stmt else new
        kept = {key: value for key, value in stmt.annotations.items() if key != ATOMIC}
        self.block_map[stmt] = new = new.replace(annotations=kept)
        return new

    def _started(self, stmt: Block, value: Expr) -> Block:
        load, zero = BufferLoad(self.new, self.place), const(0, self.new.dtype)
        return stmt.replace(
            init=BufferStore(self.new, zero, self.place),
            body=BufferStore(self.new, binary(Add, load, value), self.place),
            reads=tuple(region for region in stmt.reads if region.buffer is not self.old),
            writes=(BufferRegion.point(self.new, self.place),),
        )


def location_after(
    state: ScheduleState, block: StmtSRef, scope: StmtSRef, buffer: Buffer
) -> Location:
    """Right after the statement of a scope that holds a block, alone of those that use a buffer."""
    here = index_in(scope, block)
    for other in child_blocks(state, scope):
        used = any(buffer in side for side in accessed_buffers(state, other.block))
        if other is not block and used and index_in(scope, other) == here:
            raise refuse(
                f"{name_of(other)} uses {buffer.name!r} in the loops of {name_of(block)}, after "
                "which that would be written",
                at=[block, other],
                hint="take this step before blocks are moved under one loop",
            )
    return Location(scope, here + 1)


def check_runs(state: ScheduleState, block: StmtSRef, back: WriteBack) -> None:
    """Refuse to add a sum that is not begun where data gives its loops no iteration.

    In functions over sparse buffers such sums are begun as the buffers are lowered.
    """
    if back.added is None or sparse_level(state.mod[state.function_of(block)]) == POSITIONS:
        return
    loops = state.realize(block).loops_of(REDUCE)
    for sref in loops_above(block):
        extent = sref.loop.extent
        if sref.loop.loop_var in loops and any(
            isinstance(n, BufferLoad) for n in post_order(extent)
        ):
            raise refuse(
                f"{name_of(sref)} may have no iteration, and what {name_of(block)} adds would not "
                "be begun then",
                at=[block, sref],
            )
