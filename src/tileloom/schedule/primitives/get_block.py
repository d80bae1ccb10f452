"""get_block: find a block by its name."""

from __future__ import annotations

from typing import Any

from ...tir import Block
from ..errors import refuse
from ..instruction import BlockRef, primitive
from ..state import ScheduleState


def chosen_function(state: ScheduleState, what: str, func_name: str | None) -> str:
    """The function to look something up in: the one given, or the one that is worked on."""
    chosen = func_name or state.func_working_on
    if chosen is None:
        raise refuse(
            f"the module has several functions, so it is not clear where {what} is",
            hint="give func_name, or say sch.work_on(func_name) before",
        )
    if chosen not in state.mod.functions:
        known = ", ".join(state.mod.functions)
        raise refuse(f"no function is called {chosen!r}", hint=f"the module has {known}")
    return chosen


def _front(state: ScheduleState, name: str, func_name: str | None = None) -> dict[str, Any]:
    return {"func_name": chosen_function(state, f"block {name!r}", func_name)}


@primitive("GetBlock", pure=True, coordinates=True, front=_front)
def get_block(state: ScheduleState, name: str, func_name: str) -> BlockRef:
    """The block with a name, in a function of the module.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> sch.get(sch.get_block("B")).name_hint
    'B'
    """
    found = [
        sref
        for stmt, sref in state.sref_of.items()
        if isinstance(stmt, Block) and stmt.name_hint == name
    ]
    if found and len(state.mod.functions) > 1:
        found = [sref for sref in found if state.function_of(sref) == func_name]
    if len(found) == 1:
        return found[0]
    if found:
        raise refuse(
            f"{len(found)} blocks have the name {name!r}",
            at=found,
            hint="give the blocks different names, or reach them by get_child_blocks",
            fast=f"Found {len(found)} blocks with the specified name",
        )
    known = [s.name_hint for s in state.sref_of if isinstance(s, Block)]
    raise refuse(
        f"Cannot find a block with the name: {name}",
        hint=f"the blocks are {', '.join(known)}",
        fast="Cannot find a block with the specified name",
    )
