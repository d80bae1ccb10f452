"""DisallowAsyncStridedMemCopy: asynchronous copies are of adjoining elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...base.errors import UserError
from ...expr import Range, Var, detect_iter_map
from ...lower import lower
from ...lower.blocks import ASYNC_SCOPE
from ...schedule.schedule import Schedule
from ...tir import AttrStmt, BufferLoad, BufferStore, For, PrimFunc, Stmt, stmt_children
from ..annotations import ASYNC_STAGES
from ..context import TuneContext

_FLAT = "narrow_index_dtype"  # the pass after which buffers have one index, and loops are loops


@dataclass(frozen=True, slots=True)
class DisallowAsyncStridedMemCopy:
    """Reject programs with an asynchronous copy of elements that do not lie side by side.

    This is for machines that run the loops of such a copy as one operation. No default list has it:
    threads of a GPU copy element by element, or a few elements at a time.
    """

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Whether all asynchronous copies are plain; takes no steps."""
        loops = [node for node in sch.state.sref_of if isinstance(node, For)]
        if not any(ASYNC_STAGES in loop.annotations for loop in loops):
            return True
        try:
            flat = lower(sch.mod, context.target, until=_FLAT)
        except UserError:
            return False
        return not any(map(has_strided_copy, flat.functions.values()))


def has_strided_copy(func: PrimFunc) -> bool:
    """Whether an asynchronous copy in flat code reads or writes elements with gaps between."""
    return any(
        not detect_iter_map(indices, loops)
        for store, loops in _async_stores(func.body, None)
        if isinstance(store.value, BufferLoad)
        for indices in (store.indices, store.value.indices)
    )


def _async_stores(
    stmt: Stmt, loops: Mapping[Var, Range] | None
) -> Iterator[tuple[BufferStore, Mapping[Var, Range]]]:
    """The stores of asynchronous code, with the loops around them that are part of it."""
    if isinstance(stmt, AttrStmt) and stmt.attr_key == ASYNC_SCOPE:
        loops = {}
    elif isinstance(stmt, For) and loops is not None:
        loops = {**loops, stmt.loop_var: stmt.domain}
    elif isinstance(stmt, BufferStore) and loops is not None:
        yield stmt, loops
    for child in stmt_children(stmt):
        yield from _async_stores(child, loops)
