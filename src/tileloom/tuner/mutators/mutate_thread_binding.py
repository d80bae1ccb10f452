"""MutateThreadBinding: another number of threads in a block."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.random import Random
from ...schedule.trace import Trace
from ..context import TuneContext
from .steps import drawn_again, one_of, thread_extent_draws


@dataclass(frozen=True, slots=True)
class MutateThreadBinding:
    """Another of the extents of threadIdx.x that `AutoBind` and its like draw from."""

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with another extent; None if none was drawn."""
        draws = thread_extent_draws(trace, "threadIdx.x")
        return drawn_again(trace, one_of(draws, random), random) if draws else None
