"""Searches without a model: candidates drawn at random, as MetaSchedule's replay strategies do.

They tell what a cost model and mutations are worth, and are the thing for spaces so small that all
of it can be measured. Candidates are told apart by seeds that are drawn before they are made, so
that the same seed gives the same candidates in the same order however many processes make them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..schedule.random import Random
from .proposals import Candidate
from .strategy import SearchStrategy


@dataclass
class ReplayTrace(SearchStrategy):
    """Proposes design spaces with decisions drawn anew.

    Attributes:
        max_fail_count: draws in a row without anything new before the search ends.
    """

    seed: int = 1
    max_fail_count: int = 100
    _method: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def propose(self, count: int) -> list[Candidate] | None:
        """The next candidates to measure, each legal; None if drawing finds none any more."""
        found: list[Candidate] = []
        failures = 0
        while len(found) < count and failures < self.max_fail_count:
            seeds = [(self._random.fork_seed(),) for _ in range(count - len(found))]
            drawn = [c for c in self.workers.map(self._method, seeds) if c is not None]
            new = self.legal([*{c.key: c for c in drawn if c.key not in self.measured}.values()])
            found += new
            failures = 0 if new else failures + len(seeds)
        return found or None


@dataclass
class ReplayFunc(ReplayTrace):
    """Proposes what comes of making design spaces over and over, each time with other decisions.

    Rules draw anew where they look at what they have drawn, which a trace holds fast.
    """

    _method: ClassVar[str] = "generated"


#: By MetaSchedule's names.
REPLAY: dict[str, type[ReplayTrace]] = {"replay-trace": ReplayTrace, "replay-func": ReplayFunc}
