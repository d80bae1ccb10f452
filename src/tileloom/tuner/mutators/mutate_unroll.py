"""MutateUnroll: another limit for the unrolling of loops."""

from __future__ import annotations

from dataclasses import dataclass

from ...schedule.random import Random
from ...schedule.trace import Trace
from ..annotations import UNROLL_EXPLICIT, UNROLL_IMPLICIT
from ..context import TuneContext
from .steps import annotated_draws, drawn_again, one_of

_KEYS = (UNROLL_EXPLICIT, UNROLL_IMPLICIT)


@dataclass(frozen=True, slots=True)
class MutateUnroll:
    """Another of the limits that `ParallelizeVectorizeUnroll` draws from."""

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with another limit; None if none was drawn."""
        draws = annotated_draws(trace, _KEYS)
        return drawn_again(trace, one_of(draws, random), random) if draws else None
