"""Tuning programs from beginning to end: `tune_programs`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

from ..base.errors import UserError
from ..base.settings import settings
from ..records import Record, RecordStore, open_records, target_key, usual_place, workload_key
from ..records.lookup import NONE
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..tir import IRModule
from .cost_model import CostModel, XGBModel
from .measure import executor_of
from .proposals import TraceJSON
from .search import EVOLUTIONARY, SearchConfig
from .tuner import MeasureOn, OnRound, OnTrial, TuneConfig, TuningTask, tune_tasks


@dataclass(frozen=True)
class TuneOptions:
    """How long, where and with what is tuned.

    Attributes:
        trials: candidates that are measured, over all programs.
        trials_per_task: of one program at most.
        records: where measurements are kept, and compilations look: a path of an SQLite file, or an
            address as `open_records` takes it; the setting `records` (TILELOOM_RECORDS) unless
            told, which is "records.db" next to compiled kernels. What is known there is not
            measured again.
        executor: where candidates are measured, as `executor_of` takes it.
        workers: processes that make candidates; one for each core of this machine unless told.
        seed: of everything that is drawn.
        batch: candidates of a round; the model learns after each.
        cost_model: learns from measurements; boosted trees unless given.
        search: parameters of the evolutionary search, MetaSchedule's unless given.
        strategy: "evolutionary", or without a model: "replay-trace", "replay-func".
        on_round: told after each round.
        on_trial: told of each candidate.
    """

    trials: int = 128
    trials_per_task: int | None = None
    records: str | Path | None = None
    executor: str = "local"
    workers: int | None = None
    seed: int = 1
    batch: int = 32
    cost_model: CostModel | None = None
    search: SearchConfig = field(default_factory=SearchConfig)
    strategy: str = EVOLUTIONARY
    on_round: OnRound | None = None
    on_trial: OnTrial | None = None


class TuneKeywords(TypedDict, total=False):
    """The attributes of `TuneOptions`, for type checkers and editors."""

    trials: int
    trials_per_task: int | None
    records: str | Path | None
    executor: str
    workers: int | None
    seed: int
    batch: int
    cost_model: CostModel | None
    search: SearchConfig
    strategy: str
    on_round: OnRound | None
    on_trial: OnTrial | None


@dataclass(frozen=True)
class Tuned:
    """What was found for a program.

    Attributes:
        mod: the program as it was.
        seconds: of one call of what was chosen; infinity where nothing ran.
        trace: the steps, as `Trace.as_json` gives them; None where nothing ran.
        trials: candidates that are on record for the program.
        default_seconds: of one call of what the planner makes of it; NaN where that was not
            measured.
        name: of the program.
        weight: how often it runs.
    """

    mod: IRModule
    seconds: float
    trace: TraceJSON | None
    trials: int
    default_seconds: float = float("nan")
    name: str = "main"
    weight: float = 1.0

    @property
    def speedup(self) -> float:
        """How many times as fast as what the planner makes of it; 1 where that is not known."""
        ratio = self.default_seconds / self.seconds
        return ratio if isfinite(ratio) else 1.0

    def schedule(self) -> Schedule:
        """The program with the steps taken.

        Raises:
            UserError: nothing ran.
        """
        if self.trace is None:
            raise UserError("no candidate of the program ran", hint="more trials may find one")
        sch = Schedule(self.mod)
        Trace.from_json(self.trace).apply_to_schedule(sch, remove_postproc=False)
        return sch


def tune_programs(tasks: Sequence[TuningTask], options: TuneOptions) -> list[Tuned]:
    """Look for the fastest schedules of programs, by MetaSchedule's design space and search.

    Raises:
        UserError: there is nothing to measure on, or no place for records.
    """
    config = TuneConfig(
        options.trials,
        options.trials_per_task,
        options.batch,
        options.seed,
        options.workers or len(os.sched_getaffinity(0)),
        options.search,
        options.strategy,
    )
    with ExitStack() as opened:
        store = opened.enter_context(open_records(place_of(options.records)))
        runner = MeasureOn(opened.enter_context(executor_of(options.executor)))
        model = options.cost_model or XGBModel()
        told: Any = {"on_round": options.on_round, "on_trial": options.on_trial}
        tune_tasks(tasks, runner, store, model, config, **told)
        return [tuned(task, store) for task in tasks]


def tuned(task: TuningTask, records: RecordStore) -> Tuned:
    """What records say about a program."""
    context = task.context
    keys = workload_key(context.mod), target_key(context.target)
    found = records.chosen(*keys) or next(iter(records.best(*keys, 1)), None)
    count = len(records.summaries(*keys))
    about: Any = {"name": context.name, "weight": task.weight}
    if found is None:
        return Tuned(context.mod, inf, None, count, **about)
    return Tuned(context.mod, found.latency, found.trace, count, _default(found), **about)


def _default(record: Record) -> float:
    times = record.extra.get("default_seconds")
    return median(times) if times else float("nan")


def place_of(given: str | Path | None) -> str | Path:
    """Where records are kept: what is given, what the setting names, or next to compiled kernels.

    Raises:
        UserError: there is no such place.
    """
    place = given or settings().records or usual_place()
    if place is None or place == NONE:
        raise UserError("there is no place for records", hint="name a file: records='tuned.db'")
    return place
