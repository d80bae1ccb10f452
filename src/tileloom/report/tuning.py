"""What records say about the tuning of a program, kernel by kernel.

history ::= TuningHistory(name, target, place, tasks)
task    ::= TaskHistory(task, records, chosen)      one kernel, and all that was measured of it
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from statistics import median

import numpy as np

from ..base.cached import cached_property
from ..base.errors import UserError
from ..records import Record, RecordStore, target_key, workload_key
from ..schedule import Schedule, Trace
from ..tir import PrimFunc
from ..tuner.cost_model import rank_correlation
from ..tuner.operations import count_bytes, count_operations
from ..tuner.proposals import TraceJSON
from ..tuner.tuner import TuningTask

#: Kinds of failures, in the order that they are shown in.
KINDS = ("wrong", "error", "timeout", "crash", "failed")
_MOST_TEXT = 160  # characters of an error
_FEWEST = 5  # candidates from which on a rank correlation says something


@dataclass(frozen=True)
class TaskHistory:
    """A kernel, and what was measured of it.

    Attributes:
        task: the kernel.
        records: what was measured, the oldest first.
        chosen: what the kernel is made by now; None if nothing was chosen.
    """

    task: TuningTask
    records: tuple[Record, ...]
    chosen: Record | None = None

    @property
    def name(self) -> str:
        """Of the kernel."""
        return self.task.context.name

    @property
    def weight(self) -> float:
        """How often it runs."""
        return self.task.weight

    @cached_property
    def function(self) -> PrimFunc:
        """Its blocks, without a schedule."""
        return self.task.context.mod["main"]

    @cached_property
    def operations(self) -> int:
        """Arithmetic of one call."""
        return count_operations(self.function)

    @cached_property
    def argument_bytes(self) -> int:
        """Of all that a call reads and writes."""
        return count_bytes(self.function)

    @property
    def default(self) -> TraceJSON | None:
        """The steps that the planner takes, if it makes such kernels."""
        return next(iter(self.task.firsts), None)

    @cached_property
    def default_seconds(self) -> float:
        """Of one call of what the planner makes; NaN where that was not measured.

        The time next to the one of what was chosen, where there is one: both are of one moment.
        """
        known = self.chosen.extra.get("default_seconds") if self.chosen is not None else None
        return float(median(known)) if known else self.first_default_seconds

    @cached_property
    def first_default_seconds(self) -> float:
        """Of one call of what the planner makes, as the search has measured it among the others."""
        own = [record.latency for record in self.records if record.trace == self.default]
        return min((seconds for seconds in own if isfinite(seconds)), default=nan)

    @cached_property
    def best(self) -> Record | None:
        """What was chosen, else the fastest; None if nothing ran."""
        if self.chosen is not None:
            return self.chosen
        ran = [record for record in self.records if not record.failed]
        return min(ran, key=lambda record: record.latency, default=None)

    @property
    def seconds(self) -> float:
        """Of one call of the best; infinity if nothing ran."""
        return inf if self.best is None else self.best.latency

    @property
    def speedup(self) -> float:
        """How many times as fast as what the planner makes; 1 where that is not known."""
        ratio = self.default_seconds / self.seconds
        return ratio if isfinite(ratio) and ratio > 0 else 1.0

    @property
    def share(self) -> float:
        """Seconds of all its calls as the planner makes it; 0 if nothing ran."""
        return self.weight * self.seconds * self.speedup if isfinite(self.seconds) else 0.0

    @property
    def keeps_default(self) -> bool:
        """Whether the planner's own schedule is the best that is known."""
        return self.best is not None and self.best.trace == self.default

    @property
    def failures(self) -> Counter[str]:
        """Candidates that failed, by kind."""
        return Counter(failure_kind(record) for record in self.records if record.failed)

    def complaints(self, most: int = 5) -> list[tuple[str, str, int]]:
        """The most frequent failures: the kind, what one of them says, how many say the like."""
        counts: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], str] = {}
        for record in self.records:
            if record.failed:
                text = (record.error.strip().splitlines() or ["nothing is known"])[0]
                text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
                key = failure_kind(record), _NUMBER.sub("0", text)
                counts[key] += 1
                examples.setdefault(key, text)
        return [(key[0], examples[key], count) for key, count in counts.most_common(most)]

    def improvements(self) -> list[tuple[int, float]]:
        """After how many trials which time was the least, each time that it fell."""
        found: list[tuple[int, float]] = []
        for number, record in enumerate(self.records, 1):
            if record.latency < (found[-1][1] if found else inf):
                found.append((number, record.latency))
        return found

    def predictions(self) -> list[tuple[float, float]]:
        """For candidates of which a score was predicted: it, and the speed as a part of the best.

        A score is what part of the speed of the best, as known then, the cost model expects.
        """
        pairs = [(r.extra.get("score"), r.latency) for r in self.records if not r.failed]
        least = min((seconds for _, seconds in pairs), default=nan)
        return [(float(score), least / seconds) for score, seconds in pairs if score is not None]

    @property
    def correlation(self) -> float:
        """Spearman's rank correlation of predictions and measurements; NaN for too few."""
        pairs = np.array(self.predictions())
        return rank_correlation(pairs[:, 0], pairs[:, 1]) if len(pairs) >= _FEWEST else nan

    def steps(self, trace: TraceJSON) -> str:
        """A trace as Python, a line a step."""
        try:
            return "\n".join(Trace.from_json(trace).simplified(False).as_python())
        except UserError as error:
            return f"# {error}"

    def script(self, trace: TraceJSON) -> str:
        """The kernel after the steps of a trace."""
        sch = Schedule(self.task.context.mod, trace=False)
        try:
            Trace.apply_json_to_schedule(json.loads(json.dumps(trace)), sch)
        except UserError as error:
            return f"# {error}"
        return sch.mod["main"].script()


_NUMBER = re.compile(r"\d[\d.]*(e[+-]?\d+)?")


def failure_kind(record: Record) -> str:
    """What kind of failure it was; "failed" for records that do not say."""
    kind = record.status
    return kind if kind in KINDS else KINDS[-1]


@dataclass(frozen=True)
class TuningHistory:
    """A program and its kernels.

    Attributes:
        name: of the program.
        target: what it is for.
        place: where the records are.
        tasks: its kernels.
    """

    name: str
    target: str
    place: str
    tasks: Sequence[TaskHistory]

    @property
    def trials(self) -> int:
        """Candidates that were measured."""
        return sum(len(task.records) for task in self.tasks)

    @property
    def failed(self) -> int:
        """Those of them that failed."""
        return sum(task.failures.total() for task in self.tasks)

    @property
    def ran(self) -> bool:
        """Whether any candidate did."""
        return any(task.best is not None for task in self.tasks)

    @property
    def changes(self) -> bool:
        """Whether any kernel is made otherwise than the planner would make it."""
        return any(task.chosen is not None and not task.keeps_default for task in self.tasks)

    @property
    def seconds(self) -> float:
        """Of all kernels that ran, each as often as the program calls it; NaN if none did."""
        known = [task.weight * task.seconds for task in self.tasks if task.best is not None]
        return sum(known) if known else nan

    @property
    def default_seconds(self) -> float:
        """Of the same kernels as the planner makes them."""
        return sum(task.share for task in self.tasks) if self.ran else nan

    @property
    def speedup(self) -> float:
        """How many times as fast all kernels have become; 1 where nothing ran."""
        return self.default_seconds / self.seconds if self.ran else 1.0

    @property
    def period(self) -> tuple[float, float]:
        """When the first and the last candidate was recorded, in seconds since 1970."""
        times = [record.created for task in self.tasks for record in task.records]
        return (min(times), max(times)) if times else (nan, nan)

    def by_share(self) -> list[TaskHistory]:
        """The kernels, those whose calls take most of the time first."""
        return sorted(self.tasks, key=lambda task: task.share, reverse=True)

    def sums(self) -> list[tuple[int, float]]:
        """After how many trials of all kernels which time was the least of all calls together.

        A kernel counts as the planner makes it until something faster was measured; those of which
        that time is not known count from their first measurement that ran on, as if it were so.
        """
        best = {k: task.first_default_seconds for k, task in enumerate(self.tasks)}
        for k, task in enumerate(self.tasks):
            ran = [record.latency for record in task.records if not record.failed]
            best[k] = best[k] if isfinite(best[k]) else next(iter(ran), 0.0)
        total = sum(self.tasks[k].weight * seconds for k, seconds in best.items())
        found = [(0, total)]
        for number, (_, k, seconds) in enumerate(self._in_order(), 1):
            if seconds < best[k]:
                total -= self.tasks[k].weight * (best[k] - seconds)
                best[k] = seconds
                found.append((number, total))
        return found

    def _in_order(self) -> list[tuple[float, int, float]]:
        """When what was measured: the moment, the number of the kernel, the seconds."""
        return sorted(
            (record.created, k, record.latency)
            for k, task in enumerate(self.tasks)
            for record in task.records
        )


def read_history(
    name: str, tasks: Sequence[TuningTask], records: RecordStore, place: str = ""
) -> TuningHistory:
    """What is on record about kernels.

    Args:
        name: of the program that they are of.
        tasks: the kernels, all for one machine.
        place: where the records are, for people.
    """
    found = []
    for task in tasks:
        keys = workload_key(task.context.mod), target_key(task.context.target)
        known = sorted(records.all(*keys), key=lambda record: record.created)
        found.append(TaskHistory(task, tuple(known), records.chosen(*keys)))
    target = str(tasks[0].context.target) if tasks else ""
    return TuningHistory(name, target, without_password(place), found)


def without_password(place: str) -> str:
    """The address of a place, for people.

    >>> without_password("postgresql://me:secret@host/tuning"), without_password("tuned.db")
    ('postgresql://me@host/tuning', 'tuned.db')
    """
    return _PASSWORD.sub(r"\1@", place)


_PASSWORD = re.compile(r"(://[^:@/]*):[^@/]*@")
