"""MutateComputeLocation: another loop under which a block is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...schedule.instruction import Instruction
from ...schedule.primitives.sample_compute_location import candidates
from ...schedule.random import Random
from ...schedule.schedule import Schedule
from ...schedule.trace import Trace
from ..context import TuneContext
from .steps import decided, one_of


@dataclass(frozen=True, slots=True)
class MutateComputeLocation:
    """Another decision of one `sample_compute_location` step.

    Which there are depends on the program at that step, so the trace is replayed up to its end.
    """

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with another place; None if no block has two."""
        if not decided(trace, "SampleComputeLocation"):
            return None
        sch = Schedule(context.mod, seed=random.fork_seed())
        found: list[tuple[Instruction, list[int]]] = []

        def look(inst: Instruction, inputs: list[Any], _attrs: list[Any], decision: Any) -> Any:
            if inst.kind.name == "SampleComputeLocation" and decision is not None:
                places = candidates(sch.state, sch.get_sref(inputs[0]))
                others = [place for place in places if place != decision]
                if others:
                    found.append((inst, others))
            return decision

        trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=look)
        if not found:
            return None
        inst, places = one_of(found, random)
        return trace.with_decision(inst, one_of(places, random), remove_postproc=True)
