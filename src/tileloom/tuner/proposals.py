"""Making candidates: drawing decisions, replaying traces, taking the postprocessing steps.

Every candidate comes from a seed of its own, so that it does not matter which process makes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..schedule.random import Random
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..tir import IRModule, structural_hash
from .annotations import AUTO_TENSORIZE
from .context import Mutator, Postproc, TuneContext
from .design_space import design_spaces
from .postprocs.verify_gpu_code import reject_early

#: What mutations have led to, by the program and the key of their decisions: one in ten to one in
#: three leads to what another one has led to before. A candidate takes some 25 KB, so that all
#: programs of a process share the room.
_KNOWN: dict[tuple[int, int], tuple[Proposer, Candidate | None]] = {}
_MOST_KNOWN = 2048
#: The features of a program: rows of numbers.
Extract = Callable[[IRModule], NDArray[np.float64]]
TraceJSON = list[Any]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A scheduled program that may be measured.

    Attributes:
        text: JSON of its trace, which is a list of lists of lists: those of a population would be
            what the garbage collector looks through all the time.
        key: tells traces apart.
        features: of its stores.
        program: the structural hash of the program, where all steps were checked: other traces
            may make the same one.
        intrinsics: that rules have tiled for, see `intrinsics_of`.
    """

    text: str
    key: int
    features: NDArray[np.float64]
    program: int = 0
    intrinsics: frozenset[str] = frozenset()

    @property
    def trace(self) -> TraceJSON:
        """All its steps, postprocessing too, as `Trace.as_json` gives them."""
        found: TraceJSON = json.loads(self.text)
        return found


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

    def generated(self, seed: int) -> Candidate | None:
        """One of the design spaces that rules make with this seed, with what they have drawn."""
        random = Random(seed)
        spaces = design_spaces(self.context, seed=random.fork_seed())
        sch = spaces[random.integer(0, len(spaces))]
        try:
            return self._finished(sch)
        except UserError:  # a refusal: what was drawn is not possible here
            return None

    def mutated(self, text: str, mutator: int, seed: int) -> Candidate | None:
        """Another decision in a trace; None if there is none, or it is no legal candidate.

        Args:
            text: JSON of the trace.
        """
        random = Random(seed)
        changed = self.mutators[mutator].apply(_parsed(text), self.context, random)
        if changed is None:
            return None
        draws = (inst for inst in changed.insts if inst.kind.name.startswith("Sample"))
        if any(inst not in changed.decisions for inst in draws):
            return self._made(changed, random.fork_seed())  # the seed has a say in it
        place = id(self), text_key(json.dumps(changed.as_json(remove_postproc=True)))
        if place not in _KNOWN:
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[place] = self, self._made(changed, 1)
        return _KNOWN[place][1]

    def exact(self, trace: TraceJSON) -> Candidate | None:
        """What the steps of a trace make of the program, and nothing else; each is checked."""
        sch = self._schedule(1, check=True)
        try:
            Trace.from_json(trace).apply_to_schedule(sch, remove_postproc=False)
        except UserError:
            return None
        found = self._candidate(sch)
        return found and replace(found, program=structural_hash(sch.mod))

    def _made(self, trace: Trace, seed: int) -> Candidate | None:
        """A candidate, made without most checks: `exact` makes them where it is to be measured."""
        sch = self._schedule(seed, check=False)
        early = reject_early(sch, self.context.target) if self.context.target.max_threads else None
        try:
            trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=early)
            return self._finished(sch)
        except UserError:  # a refusal: what was drawn is not possible here
            return None

    def _finished(self, sch: Schedule) -> Candidate | None:
        """What the postprocessing steps make of a schedule; None if one of them rejects it."""
        sch.enter_postproc()
        if not all(step.apply(sch, self.context) for step in self.postprocs):
            return None
        return self._candidate(sch)

    def _schedule(self, seed: int, check: bool) -> Schedule:
        return Schedule(self.context.mod, seed=seed, error_render_level="none", enable_check=check)

    def _candidate(self, sch: Schedule) -> Candidate | None:
        if sch.trace is None:
            return None
        trace = sch.trace.as_json()
        text, features = json.dumps(trace), self.extract(sch.mod)
        return Candidate(text, text_key(text), features, intrinsics=intrinsics_of(trace))


def intrinsics_of(trace: TraceJSON) -> frozenset[str]:
    """The tensor intrinsics that rules have tiled for, as the trace has their names.

    >>> intrinsics_of([[["Annotate", ["b0", '"dot_16x4_vnni"'], [AUTO_TENSORIZE], []]], []])
    frozenset({'"dot_16x4_vnni"'})
    """
    steps = [step for step in trace[0] if step[0] == "Annotate" and step[2] == [AUTO_TENSORIZE]]
    return frozenset(str(step[1][1]) for step in steps)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Trace:
    """The trace of a text, not to be changed: most traces are changed in many ways."""
    return Trace.from_json(json.loads(text))


def text_key(text: str) -> int:
    """A number for the text of a trace, the same in every process.

    >>> text_key("[[], []]") == text_key("[[], []]") != text_key("[[], [[0, 1]]]")
    True
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
