"""unroll: write the iterations of a loop out."""

from __future__ import annotations

from ...tir import UNROLLED
from ..instruction import LoopRef, primitive
from ..state import ScheduleState


@primitive("Unroll")
def unroll(state: ScheduleState, loop: LoopRef) -> None:
    """Write the iterations of a loop out one after another when it is lowered."""
    state.replace(loop, loop.loop.replace(kind=UNROLLED, thread_binding=None))
