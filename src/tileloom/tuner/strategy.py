"""What all search strategies have: which candidates were proposed, and how long they took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cost_model import FAILED, CostModel
from .proposals import Candidate
from .workers import Workers


@dataclass
class SearchStrategy(ABC):
    """Proposes batches of candidates of one program, each program once.

    Attributes:
        workload: the key of the program, for the cost model.
        workers: what makes candidates.
        cost_model: says which ones are promising, to strategies that ask.
        measured: keys of traces that were measured or proposed.
        programs: structural hashes of what they make.
        best: those of this search's candidates that ran, and how long, the fastest first.
    """

    workload: str
    workers: Workers
    cost_model: CostModel
    measured: set[int] = field(default_factory=set, init=False)
    programs: set[int] = field(default_factory=set, init=False)
    best: list[tuple[float, Candidate]] = field(default_factory=list, init=False)

    @abstractmethod
    def propose(self, count: int) -> list[Candidate] | None:
        """The next candidates to measure, each legal; None if there are none any more."""

    def record(self, candidates: Sequence[Candidate], seconds: Sequence[float]) -> None:
        """Learn how long candidates took; infinity or `FAILED` for those that failed."""
        pairs = zip(seconds, candidates, strict=True)
        self.best += [(time, candidate) for time, candidate in pairs if time < FAILED]
        self.best.sort(key=lambda known: known[0])
        self.note(candidates)

    def note(self, candidates: Sequence[Candidate]) -> None:
        """Propose these no more."""
        self.measured |= {candidate.key for candidate in candidates}
        self.programs |= {candidate.program for candidate in candidates}

    def legal(self, chosen: Sequence[Candidate]) -> list[Candidate]:
        """Those that all checks pass and whose program is new, which are proposed thereby."""
        self.measured |= {candidate.key for candidate in chosen}
        checked = self.workers.map("exact", [(candidate.trace,) for candidate in chosen])
        found = {c.program: c for c in reversed(checked) if c and c.program not in self.programs}
        self.programs |= found.keys()
        return [*reversed(found.values())]
