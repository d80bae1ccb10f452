"""Making candidates: drawing decisions, replaying traces, taking the postprocessing steps.

Every candidate comes from a seed of its own, so that it does not matter which process makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..schedule.random import Random
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..tir import IRModule, structural_hash
from .context import Mutator, Postproc, TuneContext

#: The features of a program: rows of numbers.
Extract = Callable[[IRModule], NDArray[np.float64]]
TraceJSON = list[Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A scheduled program that may be measured.

    Attributes:
        trace: all its steps, postprocessing too, as `Trace.as_json` gives them.
        key: the structural hash of the program.
        features: of its stores.
    """

    trace: TraceJSON
    key: int
    features: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proposer:
    """Makes candidates of one program.

    Attributes:
        spaces: the traces of design spaces, whose decisions are drawn anew.
    """

    context: TuneContext
    spaces: Sequence[TraceJSON]
    postprocs: Sequence[Postproc]
    mutators: Sequence[Mutator]
    extract: Extract

    def sampled(self, seed: int) -> Candidate | None:
        """A design space with decisions drawn at random; None if that is no legal candidate."""
        random = Random(seed)
        steps, _ = self.spaces[random.integer(0, len(self.spaces))]
        return self._made(Trace.from_json([steps, []]), random.fork_seed())

    def mutated(self, trace: TraceJSON, mutator: int, seed: int) -> Candidate | None:
        """Another decision in a trace; None if there is none, or it is no legal candidate."""
        random = Random(seed)
        parent = Trace.from_json(trace)
        changed = self.mutators[mutator].apply(parent, self.context, random)
        return None if changed is None else self._made(changed, random.fork_seed())

    def replayed(self, trace: TraceJSON) -> Candidate | None:
        """What a trace makes of the program; its postprocessing steps are taken anew."""
        return self._made(Trace.from_json(trace), 1)

    def _made(self, trace: Trace, seed: int) -> Candidate | None:
        sch = Schedule(self.context.mod, seed=seed, error_render_level="none")
        try:
            trace.apply_to_schedule(sch, remove_postproc=True)
            sch.enter_postproc()
            if not all(step.apply(sch, self.context) for step in self.postprocs):
                return None
        except UserError:  # a refusal: what was drawn is not possible here
            return None
        if sch.trace is None:
            return None
        return Candidate(sch.trace.as_json(), structural_hash(sch.mod), self.extract(sch.mod))
