"""Tuning one program from beginning to end: `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.settings import settings
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..target import Target
from ..target import target as parse_target
from ..tir import IRModule, PrimFunc
from .context import TuneContext
from .cost_model import CostModel, XGBModel
from .measure import executor_of
from .proposals import TraceJSON
from .records import open_records, target_key, workload_key
from .search import SearchConfig
from .tuner import MeasureOn, OnRound, TuneConfig, TuningTask, tune_tasks


@dataclass(frozen=True)
class Tuned:
    """The fastest schedule that was found.

    Attributes:
        mod: the program as it was.
        seconds: of one call; infinity where nothing ran.
        trace: the steps, as `Trace.as_json` gives them; None where nothing ran.
        trials: candidates that are on record for the program.
    """

    mod: IRModule
    seconds: float
    trace: TraceJSON | None
    trials: int

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


def tune(
    program: IRModule | PrimFunc,
    target: Target | str = "cpu",
    *,
    trials: int = 128,
    records: str | Path | None = None,
    executor: str = "local",
    workers: int = 1,
    seed: int = 1,
    batch: int = 64,
    firsts: Sequence[TraceJSON] = (),
    cost_model: CostModel | None = None,
    search: SearchConfig | None = None,
    on_round: OnRound | None = None,
) -> Tuned:
    """Look for the fastest schedule of a program, by MetaSchedule's design space and search.

    Args:
        program: one function of blocks, of static shapes, not scheduled yet.
        target: the machine.
        trials: candidates that are measured.
        records: where measurements are kept: a path of an SQLite file, or an address as
            `open_records` takes it; "records.db" next to compiled kernels unless told. What is
            known there of the program is not measured again.
        executor: where candidates are measured, as `executor_of` takes it.
        workers: processes that make candidates.
        seed: of everything that is drawn.
        batch: candidates of a round.
        firsts: traces that are measured before any others.
        cost_model: learns from measurements; boosted trees unless given.
        search: parameters of the search, MetaSchedule's unless given.
        on_round: told after each round.

    Raises:
        UserError: the program has no function "main", or there is nothing to measure on.
    """
    mod = program if isinstance(program, IRModule) else IRModule({"main": program})
    if list(mod.functions) != ["main"]:
        names = ", ".join(mod.functions)
        raise UserError(f'a program to tune has one function, called "main", not {names}')
    machine = target if isinstance(target, Target) else parse_target(target)
    task = TuningTask(TuneContext(mod, machine), firsts=firsts)
    config = TuneConfig(
        trials, batch=batch, seed=seed, workers=workers, search=search or SearchConfig()
    )
    with ExitStack() as opened:
        store = opened.enter_context(open_records(records or _usual_place()))
        runner = opened.enter_context(executor_of(executor))
        tune_tasks(
            [task], MeasureOn(runner), store, cost_model or XGBModel(), config, on_round=on_round
        )
        key, place = workload_key(mod), target_key(machine)
        best: list[Any] = list(store.best(key, place, 1))
        count = sum(1 for _ in store.all(key, place))
    if not best:
        return Tuned(mod, inf, None, count)
    return Tuned(mod, best[0].latency, best[0].trace, count)


def _usual_place() -> Path:
    folder = settings().cache_dir
    if folder is None:
        raise UserError("there is no folder for records", hint="name a file: records='tuned.db'")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "records.db"
