"""vectorize: run a loop in vector registers."""

from __future__ import annotations

from ...tir import VECTORIZED
from ..instruction import LoopRef, primitive
from ..state import ScheduleState
from ._threads import run_together


@primitive("Vectorize")
def vectorize(state: ScheduleState, loop: LoopRef) -> None:
    """Run the iterations of a loop as the lanes of vectors.

    The conditions are those of `parallel`.
    """
    run_together(state, loop, VECTORIZED)
