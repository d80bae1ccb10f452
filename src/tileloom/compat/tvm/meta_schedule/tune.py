"""`tvm.meta_schedule.tune_tasks`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import UnsupportedError
from .._names import missing
from .builder import Builder
from .cost_model import CostModel
from .database import Database
from .measure_callback import MeasureCallback
from .runner import Runner
from .task_scheduler import TaskScheduler
from .tune_context import TuneContext


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    module_equality: str = "structural",
    post_optimization: bool = False,
) -> Any:
    """Tune programs; each part is an object or the name of one.

    Returns:
        The database with all that was measured.
    """
    if post_optimization:
        raise UnsupportedError("post_optimization is not provided")
    if not tasks:
        raise ValueError("there is nothing to tune")
    if not isinstance(database, Database):
        where = {"work_dir": work_dir} if database == "json" else {}
        database = Database.create(database, **where, module_equality=module_equality)
    if not isinstance(cost_model, CostModel):
        cost_model = CostModel.create(cost_model, num_tuning_cores=tasks[0].num_threads)
    scheduler = _made(TaskScheduler, task_scheduler)
    scheduler.tune(
        tasks=tasks,
        task_weights=task_weights,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task or max_trials_global,
        num_trials_per_iter=num_trials_per_iter,
        builder=_made(Builder, builder),
        runner=_made(Runner, runner),
        measure_callbacks=_callbacks(measure_callbacks),
        database=database,
        cost_model=cost_model,
    )
    return database


def _made(cls: Any, given: Any) -> Any:
    return given if isinstance(given, cls) else cls.create(given)


def _callbacks(given: Any) -> list[MeasureCallback]:
    made = given if isinstance(given, (list, tuple)) else _made(MeasureCallback, given)
    return [*made] if isinstance(made, (list, tuple)) else [made]


__getattr__ = missing(__name__)
