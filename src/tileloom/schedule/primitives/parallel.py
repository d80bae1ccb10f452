"""parallel: run a loop on several cores."""

from __future__ import annotations

from ...tir import PARALLEL
from ..instruction import LoopRef, primitive
from ..state import ScheduleState
from ._threads import run_together


@primitive("Parallel")
def parallel(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop on several cores.

    The loop may run data-parallel iteration variables only, and the blocks in it are complete or
    reductions within it.
    """
    run_together(state, loop, PARALLEL)
