"""The tuning loop: a round for the program that promises most, until the trials are spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from math import inf
from statistics import median
from typing import Any, Protocol

import numpy as np

from ..base.cached import cached_property
from ..base.errors import UserError
from ..records import Record, RecordStore, RecordSummary, target_key, workload_key
from ..runtime.parallel import asked_num_threads
from ..tir import IRModule
from .context import TuneContext
from .cost_model import FAILED, CostModel, Floats
from .design_space import design_spaces
from .features import per_store_features
from .features.packing import pack
from .kinds import rule_kind
from .measure import Limits, Measurement, MeasureTask, Timing, measure
from .mutators.defaults import default_mutators
from .postprocs.defaults import default_postprocs
from .program_records import ProgramRecords, programs_of, record_extra
from .proposals import Candidate, Proposer, TraceJSON
from .replay import REPLAY
from .search import EVOLUTIONARY, EvolutionarySearch, SearchConfig
from .strategy import SearchStrategy
from .task_scheduler import GradientBased, Phase, Progress, TaskScheduler
from .warm_start import warm_start
from .workers import WorkerPool, Workers

#: A program is done with where so many proposals in a row hold nothing new that is legal.
EMPTY = 5
#: So many of the fastest are measured once more, in turns with the first trace, at the end.
FINALISTS = 3
#: A candidate is chosen in place of the first trace if it takes at most this part of the time.
CLEARLY = 0.99
#: And if it is the faster one in this part of the samples.
MOSTLY = 0.75


@dataclass(frozen=True)
class TuningTask:
    """A program to tune.

    Attributes:
        weight: how often it runs.
        firsts: traces that are measured before any others. The first of them, such as that of the
            default plan, is what the program is made by unless another one is faster.
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
        script, threads = context.mod.script(), asked_num_threads()
        baseline = None if best is None else json.dumps(best)
        about: dict[str, Any] = {"seed": self.seed, "threads": threads, "timing": self.timing}
        tasks = [MeasureTask(script, c.text, context.target, baseline, **about) for c in candidates]
        return measure(tasks, self.executor, self.limits)


class OnRound(Protocol):
    """Told after each round."""

    def __call__(self, tasks: Sequence[Progress], chosen: int, trials: int) -> None:
        """All programs, the one of this round, and the candidates measured so far."""


class OnTrial(Protocol):
    """Told what goes on within rounds."""

    def __call__(self, tasks: Sequence[Progress], chosen: int, record: Record | None) -> None:
        """All programs, the one that is worked at, and what was measured.

        Args:
            record: of a candidate of it; None where a phase of it begins.
        """


@dataclass(frozen=True)
class TuneConfig:
    """How long, and with what, is tuned.

    Attributes:
        trials: candidates that are measured, over all programs.
        trials_per_task: of one program at most.
        batch: of a round.
        seed: of everything that is drawn.
        workers: processes that make candidates; 1 makes them in this one.
        search: parameters of the evolutionary strategy.
        strategy: "evolutionary", or one that draws at random: "replay-trace", "replay-func".
    """

    trials: int
    trials_per_task: int | None = None
    batch: int = 32
    seed: int = 1
    workers: int = 1
    search: SearchConfig = field(default_factory=SearchConfig)
    strategy: str = EVOLUTIONARY

    def __post_init__(self) -> None:
        for name in ("trials", "batch", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is at least 1, got {getattr(self, name)}")
        known = (EVOLUTIONARY, *REPLAY)
        if self.strategy not in known:
            raise UserError(f"strategy is one of {', '.join(known)}, not {self.strategy!r}")


def tune_tasks(
    tasks: Sequence[TuningTask],
    measure: Measure,
    records: RecordStore,
    cost_model: CostModel,
    config: TuneConfig,
    scheduler: TaskScheduler | None = None,
    on_round: OnRound | None = None,
    on_trial: OnTrial | None = None,
) -> list[Progress]:
    """Look for fast schedules of programs.

    What the records know already counts as measured, so that a run that was interrupted goes on
    where it was. Each candidate is recorded as soon as it was measured. At the end the fastest of
    each program are measured once more, next to its first trace, and one of them is chosen: the
    compiler makes the program by it from then on. That is done after a `KeyboardInterrupt`, too,
    before it is raised again; another one ends it at once.

    Args:
        tasks: the programs.
        measure: builds and runs candidates.
        records: where measurements are kept.
        cost_model: learns from them.
        config: how long, and with what.
        scheduler: whose turn it is; by gradients unless told.
        on_round: told after each round.
        on_trial: told of each candidate, too, and when a program is worked at.

    Returns:
        For each program the least seconds after each of its rounds.
    """
    choose = (scheduler or GradientBased(seed=config.seed)).choose
    with WorkerPool(config.workers) as pool:
        running = [_Running(task, pool, cost_model, records, measure, config) for task in tasks]
        progress = [task.progress for task in running]
        for k, task in enumerate(running):
            task.tell = partial(on_trial, progress, k) if on_trial is not None else _nobody
        for target in {task.target: None for task in running}:
            warm_start(cost_model, records, target, {task.workload for task in running})
        spent = 0
        try:
            while spent < config.trials and (turn := choose(progress)) is not None:
                spent += running[turn].round(config.trials - spent)
                if on_round is not None:
                    on_round(progress, turn, spent)
        except KeyboardInterrupt:
            _choose(running)
            raise
        _choose(running)
    return progress


def _choose(running: Sequence[_Running]) -> None:
    for task in running:
        task.choose()


def _nobody(_record: Record | None) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class _Features:
    """The features of programs for a machine."""

    context: TuneContext

    def __call__(self, mod: IRModule) -> Floats:
        return per_store_features(mod, self.context.target)


class _Running:
    """A program that is being tuned; its design space is made when its turn comes."""

    def __init__(
        self,
        task: TuningTask,
        pool: WorkerPool,
        cost_model: CostModel,
        records: RecordStore,
        measure: Measure,
        config: TuneConfig,
    ) -> None:
        self.task, self.config = task, config
        self.pool, self.cost_model, self.records, self.measure = pool, cost_model, records, measure
        self.progress = Progress(task.weight, name=task.context.name)
        self.tell: Callable[[Record | None], None] = _nobody
        self.workload = workload_key(task.context.mod)
        self.target = target_key(task.context.target)
        self.known = ProgramRecords(records, self.workload, self.target)
        self.fastest: TraceJSON | None = None
        self.has_new = False
        self.lost = ""  # why the last candidate was that could not be measured
        self.earlier = self.known.news()
        self.unlearnt = self._counted(self.earlier)
        if self.earlier:
            self._note((record.latency, record.trace) for record in self.unlearnt)

    @cached_property
    def search(self) -> SearchStrategy:
        """The search, which has learnt from what was measured before."""
        context, kind = self.task.context, rule_kind(self.task.context.target)
        mutators = default_mutators(kind)
        spaces = [sch.trace.as_json() for sch in design_spaces(context) if sch.trace is not None]
        changes = [mutator for mutator, _ in mutators]
        postprocs = default_postprocs(kind)
        proposer = Proposer(context, spaces, postprocs, changes, _Features(context))
        workers = self.pool.workers(proposer)
        search = self._strategy(workers, [probability for _, probability in mutators])
        self.records.add_workload(self.workload, context.mod.script())
        self._learn_from(search, self.earlier, self.unlearnt)
        return search

    def _strategy(self, workers: Workers, weights: Sequence[float]) -> SearchStrategy:
        config, about = self.config, (self.workload, workers, self.cost_model)
        if config.strategy == EVOLUTIONARY:
            return EvolutionarySearch(*about, weights, config.seed, config.search)
        return REPLAY[config.strategy](*about, config.seed)

    def _counted(self, new: Sequence[RecordSummary]) -> list[Record]:
        """Count records of other runs; those that are worth learning from."""
        records, others = self.known.divided(new)
        for record in records:
            self._count(record)
        for summary in others:
            self.progress.note(summary.latency, summary.status)
        return records

    def _learn_from(
        self, search: SearchStrategy, new: Sequence[RecordSummary], records: Sequence[Record]
    ) -> None:
        """Propose no more what other runs have measured, and learn from some of it."""
        search.programs |= programs_of(new)
        found = search.workers.map("exact", [(record.trace,) for record in records])
        pairs = [(c, r) for c, r in zip(found, records, strict=True) if c is not None]
        self._learn(search, [c for c, _ in pairs], [r.seconds for _, r in pairs])

    def _catch_up(self) -> None:
        """Take over what others have measured at the same time."""
        search, new = self.search, self.known.news()
        records = self._counted(new)
        self._learn_from(search, new, records)
        rounds = self.progress.best[:-1]
        if new:
            self._note((record.latency, record.trace) for record in records)
            self.progress.best[:] = [*rounds, self.progress.seconds]  # no round of this run

    def round(self, left: int) -> int:
        """Measure a batch; how many that were."""
        of_task = self.config.trials_per_task
        count = min(self.config.batch, left)
        count = count if of_task is None else min(count, of_task - self.progress.trials)
        measured: list[tuple[Candidate, tuple[float, ...]]] = []
        self.lost = ""
        for _ in range(EMPTY if count > 0 else 0):
            self._begin("proposing")
            batch = self._batch(count)
            self._begin("measuring")
            measured = self._measured(batch or ())
            if measured or batch is None:
                break
        self._begin("")
        if self.lost and not measured:
            raise UserError(
                f"no candidate could be measured: {self.lost}",
                hint="a run that is started again goes on where this one was",
            )
        self.progress.is_over = not measured
        if measured:
            self._learn(self.search, [c for c, _ in measured], [times for _, times in measured])
            self._note((median(times), candidate.trace) for candidate, times in measured if times)
        return len(measured)

    def _measured(self, batch: Sequence[Candidate]) -> list[tuple[Candidate, tuple[float, ...]]]:
        """Candidates with their seconds, each recorded at once; without those that were lost."""
        if not batch:
            return []
        found: list[tuple[Candidate, tuple[float, ...]]] = []
        scores = self.cost_model.predict(self.workload, [c.features for c in batch]).tolist()
        outcomes = self.measure(self.task.context, batch, self.fastest)
        for candidate, outcome, score in zip(batch, outcomes, scores, strict=True):
            if outcome.status == "lost":  # which says nothing about it
                self.lost = outcome.error
                continue
            about = (candidate.trace, outcome.seconds, outcome.error)
            extra = {**record_extra(candidate, outcome.status), "score": score}
            extra |= _features_text(candidate)
            record = Record(self.workload, self.target, *about, extra=extra)
            self.known.add(candidate, record)
            self.has_new = True
            self._count(record)
            self.tell(record)
            found.append((candidate, outcome.seconds))
        return found

    def _begin(self, phase: Phase) -> None:
        self.progress.phase = phase
        self.tell(None)

    def _count(self, record: Record) -> None:
        is_default = record.trace == next(iter(self.task.firsts), None)
        self.progress.note(record.latency, record.status, is_default)

    def choose(self) -> None:
        """Decide what the program is made by, among the fastest and the first trace."""
        if not self.has_new and self.records.chosen(self.workload, self.target) is not None:
            return
        self._begin("comparing")
        fastest = self.records.best(self.workload, self.target, FINALISTS)
        default = next(iter(self.task.firsts), None)
        if fastest and default is not None:
            fastest = [self._final(fastest, default)]
        if fastest:
            self.records.choose(fastest[0])
        self._begin("")

    def _final(self, fastest: Sequence[Record], default: TraceJSON) -> Record:
        """One of the fastest, each measured once more next to the first of them, or the default.

        A default that is far slower would leave neither caches nor threads to others as they are.
        """
        first, *others = [record.trace for record in fastest]
        others = [*(trace for trace in others if trace != default), default]
        others = [trace for trace in others if trace != first]
        candidates = [Candidate(json.dumps(trace), 0, _NO_FEATURES) for trace in others]
        found = list(self.measure(self.task.context, candidates, first))
        known = {k: outcome.ratio for k, outcome in enumerate(found) if outcome.baseline_seconds}
        if not known:
            return fastest[0]
        its_own = found[min(known)].baseline_seconds
        compared = [(1.0, first, its_own)]
        compared += [(ratio, others[k], found[k].seconds) for k, ratio in known.items()]
        ratio, trace, seconds = min(compared, key=lambda entry: entry[0])
        about = next((entry for entry in compared if entry[1] == default), None)
        if about is None:
            return Record(self.workload, self.target, trace, seconds)
        # How often the default was the slower one of two that were measured at the same moment.
        if default == first:
            losses = found[others.index(trace)].wins if trace != default else 0.0
        else:
            losses = 1 - found[others.index(default)].wins
        if ratio > CLEARLY * about[0] or losses < MOSTLY:
            trace, seconds = about[1:]
        extra = {"default_seconds": list(about[2])}
        return Record(self.workload, self.target, trace, seconds, extra=extra)

    def _note(self, measured: Iterable[tuple[float, TraceJSON]]) -> None:
        """Note the fastest so far, after a round."""
        before = self.progress.seconds
        seconds, trace = min(measured, key=lambda pair: pair[0], default=(inf, None))
        if seconds < before:
            self.fastest = trace
        self.progress.best.append(min(seconds, before))

    def _batch(self, count: int) -> list[Candidate] | None:
        """What this run measures next; None if there is nothing any more."""
        self._catch_up()
        proposed = self._proposed(count)
        return proposed and self.known.claimed(proposed)

    def _proposed(self, count: int) -> list[Candidate] | None:
        """What is measured first; then what the search proposes.

        That is a round of its own, so that what all programs take is known before a search begins.
        """
        search = self.search
        if not self.progress.best and self.task.firsts:
            made = search.workers.map("exact", [(trace,) for trace in self.task.firsts])
            firsts = [c for c in made if c is not None][:count]
            search.note(firsts)
            if firsts:
                return firsts
        return search.propose(count)

    def _learn(
        self,
        search: SearchStrategy,
        candidates: Sequence[Candidate],
        seconds: Sequence[tuple[float, ...]],
    ) -> None:
        times = [median(each) if each else FAILED for each in seconds]
        search.note(candidates)
        # Without decisions, as the planner's trace is, there is nothing to mutate.
        open_ones = [(c, time) for c, time in zip(candidates, times, strict=True) if c.trace[1]]
        search.record([c for c, _ in open_ones], [time for _, time in open_ones])
        features = [candidate.features for candidate in candidates]
        if candidates:
            self.cost_model.update(self.workload, features, times)


def _features_text(candidate: Candidate) -> dict[str, str]:
    """What searches for other programs will learn from."""
    return {"features": pack(candidate.features)} if len(candidate.features) else {}


_NO_FEATURES: Floats = np.empty((0, 0))
