"""`tvm.meta_schedule.tune_tir` and `compile_tir`: functions of tensor IR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....schedule import Schedule
from ....tir import IRModule, PrimFunc
from .._names import missing
from ..target import Target
from .database import Database
from .tune import tune_tasks
from .tune_context import TuneContext, normalize_mod
from .utils import fork_seed


def tune_tir(
    mod: IRModule | PrimFunc,
    target: str | Target,
    work_dir: str,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    num_tuning_cores: Any = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: Mapping[str, Any] | None = None,
    post_optimization: bool = False,
) -> Any:
    """Tune each function of a module; `special_space` has spaces for functions by name.

    Returns:
        The database with all that was measured.
    """
    program = normalize_mod(mod) if isinstance(mod, PrimFunc) else mod
    functions = sorted(program.functions.items())
    seeds = fork_seed(seed, len(functions))
    spaces = {str(name): (special_space or {}).get(name, space) for name, _ in functions}
    tasks = [
        TuneContext(
            func,
            target=target,
            space_generator=spaces[name],
            search_strategy=strategy,
            task_name=name,
            rand_state=own_seed,
            num_threads=num_tuning_cores,
        ).clone()
        for (name, func), own_seed in zip(functions, seeds, strict=True)
        if spaces[name] is not None
    ]
    return tune_tasks(
        tasks=tasks,
        task_weights=[1.0] * len(tasks),
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
        post_optimization=post_optimization,
    )


def compile_tir(
    database: Database, mod: IRModule | PrimFunc, target: Target | str
) -> Schedule | None:
    """The fastest schedule that a database has for a function; None where it has none."""
    machine = target if isinstance(target, Target) else Target(target)
    return database.query_schedule(normalize_mod(mod), machine, workload_name="main")


__getattr__ = missing(__name__)
