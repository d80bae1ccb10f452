"""The tuning loop: a round for the program that promises most, until the trials are spent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Protocol

from ..base.errors import UserError
from ..tir import IRModule
from .context import TuneContext
from .cost_model import FAILED, CostModel, Floats
from .design_space import design_spaces
from .features import per_store_features
from .kinds import rule_kind
from .measure import Limits, Measurement, MeasureTask, Timing, measure
from .mutators.defaults import default_mutators
from .postprocs.defaults import default_postprocs
from .proposals import Candidate, Proposer, TraceJSON
from .records import Record, RecordStore, target_key, workload_key
from .search import EvolutionarySearch, SearchConfig
from .task_scheduler import GradientBased, Progress, TaskScheduler
from .workers import InProcesses, InThisProcess, Workers

#: A program is done with where so many proposals in a row hold nothing new that is legal.
EMPTY = 5


@dataclass(frozen=True)
class TuningTask:
    """A program to tune.

    Attributes:
        weight: how often it runs.
        firsts: traces that are measured before any others, such as that of the default plan.
    """

    context: TuneContext
    weight: float = 1.0
    firsts: Sequence[TraceJSON] = ()


class Measure(Protocol):
    """Builds and runs candidates."""

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: TraceJSON | None
    ) -> Iterable[Measurement]:
        """What came of each candidate of a program, in their order.

        Args:
            context: the program.
            candidates: what to measure.
            best: the trace of the fastest so far.
        """


@dataclass(frozen=True)
class MeasureOn:
    """Measures on an executor.

    Attributes:
        executor: where candidates are built and run.
        timing: how they are timed.
        limits: for each candidate, where the executor has none of its own.
        seed: of the inputs.
    """

    executor: Executor
    timing: Timing = field(default_factory=Timing)
    limits: Limits | None = None
    seed: int = 0

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: TraceJSON | None
    ) -> Iterable[Measurement]:
        """See `Measure`."""
        script, target = context.mod.script(), str(context.target)
        baseline = None if best is None else json.dumps(best)
        tasks = [
            MeasureTask(
                script, json.dumps(c.trace), target, baseline, seed=self.seed, timing=self.timing
            )
            for c in candidates
        ]
        return measure(tasks, self.executor, self.limits)


class OnRound(Protocol):
    """Told after each round."""

    def __call__(self, tasks: Sequence[Progress], chosen: int, trials: int) -> None:
        """All programs, the one of this round, and the candidates measured so far."""


@dataclass(frozen=True)
class TuneConfig:
    """How long, and with what, is tuned.

    Attributes:
        trials: candidates that are measured, over all programs.
        trials_per_task: of one program at most.
        batch: of a round.
        seed: of everything that is drawn.
        workers: processes that make candidates; 1 makes them in this one.
    """

    trials: int
    trials_per_task: int | None = None
    batch: int = 64
    seed: int = 1
    workers: int = 1
    search: SearchConfig = field(default_factory=SearchConfig)

    def __post_init__(self) -> None:
        for name in ("trials", "batch", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is at least 1, got {getattr(self, name)}")


def tune_tasks(
    tasks: Sequence[TuningTask],
    measure: Measure,
    records: RecordStore,
    cost_model: CostModel,
    config: TuneConfig,
    scheduler: TaskScheduler | None = None,
    on_round: OnRound | None = None,
) -> list[Progress]:
    """Look for fast schedules of programs.

    What the records know already counts as measured, so that a run that was interrupted goes on
    where it was. Each candidate is recorded as soon as it was measured.

    Args:
        tasks: the programs.
        measure: builds and runs candidates.
        records: where measurements are kept.
        cost_model: learns from them.
        config: how long, and with what.
        scheduler: whose turn it is; by gradients unless told.
        on_round: told after each round.

    Returns:
        For each program the least seconds after each of its rounds.
    """
    choose = (scheduler or GradientBased(seed=config.seed)).choose
    with ExitStack() as opened:
        running = [
            opened.enter_context(_begun(task, records, cost_model, config)) for task in tasks
        ]
        progress = [task.progress for task in running]
        spent = 0
        while spent < config.trials:
            k = choose(progress)
            if k is None:
                break
            spent += running[k].round(measure, config.trials - spent)
            if on_round is not None:
                on_round(progress, k, spent)
    return progress


@contextmanager
def _begun(
    task: TuningTask, records: RecordStore, cost_model: CostModel, config: TuneConfig
) -> Iterator[_Running]:
    """A program with its design spaces, and what is known of it."""
    context, kind = task.context, rule_kind(task.context.target)
    mutators = default_mutators(kind)
    spaces = [sch.trace.as_json() for sch in design_spaces(context) if sch.trace is not None]
    proposer = Proposer(
        context,
        spaces,
        default_postprocs(kind),
        [mutator for mutator, _ in mutators],
        _Features(context),
    )
    with ExitStack() as opened:
        workers: Workers = InThisProcess(proposer)
        if config.workers > 1:
            workers = opened.enter_context(InProcesses(proposer, config.workers))
        key = workload_key(context.mod)
        weights = [probability for _, probability in mutators]
        search = EvolutionarySearch(key, workers, cost_model, weights, config.seed, config.search)
        running = _Running(task, search, records, config, Progress(task.weight))
        running.resume()
        yield running


@dataclass(frozen=True)
class _Features:
    """The features of programs for a machine."""

    context: TuneContext

    def __call__(self, mod: IRModule) -> Floats:
        return per_store_features(mod, self.context.target)


@dataclass
class _Running:
    """A program that is being tuned."""

    task: TuningTask
    search: EvolutionarySearch
    records: RecordStore
    config: TuneConfig
    progress: Progress
    trials: int = 0

    @property
    def target(self) -> str:
        return target_key(self.task.context.target)

    def resume(self) -> None:
        """Take over what was measured before."""
        self.records.add_workload(self.search.workload, self.task.context.mod.script())
        known = list(self.records.all(self.search.workload, self.target))
        found = self.search.workers.map("exact", [(record.trace,) for record in known])
        pairs = [(c, r) for c, r in zip(found, known, strict=True) if c is not None]
        self._learn([c for c, _ in pairs], [r.seconds for _, r in pairs])
        self.trials = len(known)
        if known:
            self.progress.best.append(min(record.latency for record in known))

    def round(self, measure: Measure, left: int) -> int:
        """Measure a batch; how many that were."""
        of_task = self.config.trials_per_task
        count = min(self.config.batch, left)
        count = count if of_task is None else min(count, of_task - self.trials)
        batch: list[Candidate] | None = None
        for _ in range(EMPTY if count > 0 else 0):
            batch = self._batch(count)
            if batch or batch is None:
                break
        if not batch:
            self.progress.is_over = True
            return 0
        best = self.search.best[0][1] if self.search.best else None
        seconds: list[tuple[float, ...]] = []
        for candidate, outcome in zip(batch, measure(self.task.context, batch, best), strict=True):
            self.records.add(
                Record(
                    self.search.workload,
                    self.target,
                    candidate.trace,
                    outcome.seconds,
                    outcome.error,
                )
            )
            seconds.append(outcome.seconds)
        self._learn(batch, seconds)
        self.trials += len(batch)
        fastest = min((median(times) for times in seconds if times), default=inf)
        self.progress.best.append(min(fastest, self.progress.seconds))
        return len(batch)

    def _batch(self, count: int) -> list[Candidate] | None:
        """What is measured first, before anything else; then what the search proposes."""
        if not self.progress.best and self.task.firsts:
            made = self.search.workers.map("exact", [(trace,) for trace in self.task.firsts])
            firsts = [c for c in made if c is not None][:count]
            self.search.measured |= {candidate.key for candidate in firsts}
            rest = self.search.propose(count - len(firsts)) if count > len(firsts) else []
            return [*firsts, *(rest or ())]
        return self.search.propose(count)

    def _learn(self, candidates: Sequence[Candidate], seconds: Sequence[tuple[float, ...]]) -> None:
        times = [median(each) if each else FAILED for each in seconds]
        self.search.record(candidates, times)
        features = [candidate.features for candidate in candidates]
        if candidates:
            self.search.cost_model.update(self.search.workload, features, times)
