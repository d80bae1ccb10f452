"""Which of several programs is tuned next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import Literal, Protocol

from ..schedule.random import Random

Phase = Literal["", "proposing", "measuring", "comparing"]
_UNKNOWN = -1e9  # the gain of a program of which nothing ran yet


@dataclass
class Progress:
    """How far the tuning of a program has come.

    Attributes:
        weight: how often it runs, next to the others.
        best: the least seconds after each round; infinity where nothing ran.
        is_over: there is nothing left to try.
        name: of the program, for people.
        phase: what is being done for it; empty while it waits for its turn.
        trials: candidates that were measured, in earlier runs too.
        failures: those of them that failed, by kind.
        fastest: the least seconds so far, in this round too.
        default_seconds: of one call of what the planner makes of it; NaN where that is not known.
    """

    weight: float = 1.0
    best: list[float] = field(default_factory=list)
    is_over: bool = False
    name: str = "main"
    phase: Phase = ""
    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    fastest: float = inf
    default_seconds: float = nan

    @property
    def seconds(self) -> float:
        """The least so far."""
        return self.best[-1] if self.best else inf

    def note(self, seconds: float, status: str, is_default: bool = False) -> None:
        """Count a candidate that was measured.

        Args:
            seconds: of one call; infinity if it failed.
            status: what came of it.
            is_default: whether it is what the planner makes of the program.
        """
        self.trials += 1
        if seconds == inf:
            self.failures[status or "failed"] += 1
        elif is_default:
            self.default_seconds = seconds
        self.fastest = min(self.fastest, seconds)


class TaskScheduler(Protocol):
    """Says which program gets the next round."""

    def choose(self, tasks: Sequence[Progress]) -> int | None:
        """The number of one that is not over; None if all are."""


@dataclass
class RoundRobin:
    """One after another."""

    last: int = field(default=-1, init=False)

    def choose(self, tasks: Sequence[Progress]) -> int | None:
        """The next one after the last that is not over.

        >>> turns = RoundRobin()
        >>> tasks = [Progress(), Progress(is_over=True), Progress()]
        >>> [turns.choose(tasks) for _ in range(3)]
        [0, 2, 0]
        """
        for step in range(1, len(tasks) + 1):
            k = (self.last + step) % len(tasks)
            if not tasks[k].is_over:
                self.last = k
                return k
        return None


class GradientBased:
    """Where most is to be gained, as far as that can be told (Ansor, OSDI 2020, section 6).

    Args:
        alpha: how much the gain of the last rounds counts, against what the program takes at all.
        window_size: rounds that the gain is taken over.
        seed: of the choice between programs that promise the same.
    """

    def __init__(self, alpha: float = 0.2, window_size: int = 3, seed: int = 1) -> None:
        self.alpha, self.window_size = alpha, window_size
        self._random = Random(seed)

    def choose(self, tasks: Sequence[Progress]) -> int | None:
        """Each program once, then the one with the greatest gain.

        >>> slow, fast = Progress(best=[8.0, 8.0]), Progress(best=[1.0, 1.0])
        >>> GradientBased().choose([fast, slow]), GradientBased().choose([fast, Progress()])
        (1, 1)
        """
        alive = [k for k, task in enumerate(tasks) if not task.is_over]
        if not alive:
            return None
        fresh = [k for k in alive if not tasks[k].best]
        if fresh:
            return fresh[0]
        gains = [self._gain(tasks[k]) for k in alive]
        if max(gains) == min(gains):
            return alive[self._random.integer(0, len(alive))]
        return alive[gains.index(max(gains))]

    def _gain(self, task: Progress) -> float:
        """Seconds that another round may save, over all runs of the program."""
        rounds, seconds, window = len(task.best), task.seconds, self.window_size
        if not isfinite(seconds):
            return _UNKNOWN
        before = task.best[-1 - window] if rounds > window else seconds
        lately = (before - seconds) / window if isfinite(before) else 0.0
        return task.weight * (self.alpha * lately + (1 - self.alpha) * seconds / rounds)
