"""add_unit_loop: a loop of one iteration around a block or loop."""

from __future__ import annotations

from ...expr import Var, const
from ...tir import SERIAL, For
from ..analysis.tree import scope_root
from ..instruction import LoopRef, PlaceRef, primitive
from ..state import ScheduleState


@primitive("AddUnitLoop")
def add_unit_loop(state: ScheduleState, block_or_loop: PlaceRef) -> LoopRef:
    """Put a loop `u` of one iteration around a block or loop.

    >>> import tileloom
    >>> from tileloom import te
    >>> A = te.placeholder((4,), name="A"); B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    >>> sch = tileloom.Schedule(te.create_prim_func([A, B]))
    >>> unit = sch.add_unit_loop(sch.get_block("B"))
    >>> [sch.get(loop).extent for loop in sch.get_loops("B")]
    [4, 1]
    """
    if block_or_loop.is_loop:
        new = For(Var("u"), const(0), const(1), SERIAL, block_or_loop.loop)
        state.replace(block_or_loop, new)
    else:
        scope_root(block_or_loop)  # refuses a root block
        new = For(Var("u"), const(0), const(1), SERIAL, state.realize(block_or_loop))
        state.replace_realize(block_or_loop, new)
    return state.sref(new)
