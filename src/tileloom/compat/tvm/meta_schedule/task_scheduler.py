"""`tvm.meta_schedule.task_scheduler`: programs tuned in turns.

The loop is written here once more, since every part of it may be a user's: builders, runners,
strategies, callbacks, and what comes next. What the parts do is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from ....tuner import task_scheduler as ours
from .._names import missing
from ._checked import measure_checked
from .builder import BuilderInput, BuilderResult, LocalBuilder
from .measure_callback import MeasureCallback
from .profiler import Profiler
from .runner import LocalRunner, RunnerFuture, RunnerInput, RunnerResult
from .search_strategy import MeasureCandidate
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable

_FAILED = 1e9  # seconds and more are those of a candidate that failed


@dataclass
class TaskRecord:
    """A program that is tuned.

    Attributes:
        ctx: the program.
        progress: its weight, and the fastest after each round.
        measure_candidates: those that are being measured; None for none.
        runner_futures: what will come of them.
    """

    ctx: TuneContext
    progress: ours.Progress
    measure_candidates: list[MeasureCandidate] | None = None
    builder_results: list[BuilderResult] | None = None
    runner_futures: list[RunnerFuture] | None = None
    build_error_count: int = 0
    run_error_count: int = 0
    latency_ms: list[float] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        """Whether nothing is left to try."""
        return self.progress.is_over

    @property
    def task_weight(self) -> float:
        """How often the program runs, next to the others."""
        return self.progress.weight

    def note(self, results: Sequence[RunnerResult]) -> None:
        """The seconds of candidates."""
        times = [median(result.run_secs) if result.run_secs else inf for result in results]
        self.latency_ms += [1e3 * seconds for seconds in times]
        fastest = min((t for t in times if t < _FAILED), default=inf)
        self.progress.best.append(min(fastest, self.progress.seconds))


def _are_plain(builder: Any, runner: Any) -> bool:
    """Whether candidates are measured without functions of the user's."""
    if not isinstance(builder, LocalBuilder) or not isinstance(runner, LocalRunner):
        return False
    return builder.is_plain and runner.is_plain


class TaskScheduler(Overridable):
    """Tunes programs, one batch of candidates at a time."""

    tasks_: Sequence[TaskRecord] = ()
    measure_callbacks_: Sequence[MeasureCallback] = ()
    database_: Any = None
    cost_model_: Any = None
    remaining_tasks_ = 0
    choice: ours.TaskScheduler | None = None

    def next_task_id(self) -> int:
        """The task whose turn it is; -1 if all are over."""
        if self.choice is None:
            raise NotOverriddenError.of("PyTaskScheduler", "NextTaskId", "next_task_id")
        for task_id in range(len(self.tasks_)):
            self.touch_task(task_id)
        found = self.choice.choose([task.progress for task in self.tasks_])
        if found is None:
            return -1
        if self.tasks_[found].runner_futures is not None:
            self.join_running_task(found)
        return found

    def tune(
        self,
        tasks: Sequence[TuneContext],
        task_weights: Sequence[float],
        max_trials_global: int,
        max_trials_per_task: int,
        num_trials_per_iter: int,
        builder: Any,
        runner: Any,
        measure_callbacks: Sequence[MeasureCallback],
        database: Any,
        cost_model: Any,
    ) -> None:
        """Tune programs until so many candidates were measured."""
        self.tasks_ = [
            TaskRecord(context, ours.Progress(float(weight)))
            for context, weight in zip(tasks, task_weights, strict=True)
        ]
        self.remaining_tasks_ = len(self.tasks_)
        self.measure_callbacks_ = list(measure_callbacks or ())
        self.database_, self.cost_model_ = database, cost_model
        for task in self.tasks_:
            with Profiler.timeit("InitializeTask"):
                spaces = task.ctx.generate_design_space()
                task.ctx.logger.info("%s: %d design spaces", task.ctx.task_name, len(spaces))
                task.ctx.pre_tuning(
                    max_trials_per_task, num_trials_per_iter, spaces, database, cost_model
                )
        self._rounds(max_trials_global, builder, runner)
        for task_id, task in enumerate(self.tasks_):
            if task.runner_futures is not None:
                self.join_running_task(task_id)
            if not task.is_terminated:
                self.terminate_task(task_id)
            task.ctx.post_tuning()

    def _rounds(self, max_trials: int, builder: Any, runner: Any) -> None:
        trials = 0
        while trials < max_trials:
            with Profiler.timeit("NextTaskId"):
                task_id = self.next_task_id()
            if task_id == -1:
                return
            task = self.tasks_[task_id]
            candidates = task.ctx.generate_measure_candidates()
            if candidates is None:
                self.terminate_task(task_id)
                continue
            trials += len(candidates)
            task.measure_candidates = list(candidates)
            self._measure(task, builder, runner)

    def _measure(self, task: TaskRecord, builder: Any, runner: Any) -> None:
        candidates = task.measure_candidates or []
        if _are_plain(builder, runner) and all(c.sch.trace is not None for c in candidates):
            task.builder_results, task.runner_futures = measure_checked(
                task.ctx, candidates, runner
            )
            return
        target: Any = task.ctx.target
        inputs = [BuilderInput(candidate.sch.mod, target) for candidate in candidates]
        task.builder_results = list(builder.build(inputs)) if inputs else []
        built = [
            RunnerInput(result.artifact_path or "", target.kind.name, candidate.args_info)
            for candidate, result in zip(candidates, task.builder_results, strict=True)
            if result.error_msg is None
        ]
        futures = iter(runner.run(built) if built else [])
        task.runner_futures = [
            next(futures)
            if result.error_msg is None
            else RunnerFuture.of(RunnerResult(None, result.error_msg))
            for result in task.builder_results
        ]

    def touch_task(self, task_id: int) -> None:
        """Take over what was measured, if it is all there."""
        task = self.tasks_[task_id]
        futures = task.runner_futures
        if not task.is_terminated and futures is not None and all(f.done() for f in futures):
            self.join_running_task(task_id)

    def join_running_task(self, task_id: int) -> list[RunnerResult]:
        """Wait for what is measured, and tell all who want to know."""
        task = self.tasks_[task_id]
        candidates, code = task.measure_candidates or [], task.builder_results or []
        with Profiler.timeit("JoinRunnerFutures"):
            results = [future.result() for future in task.runner_futures or ()]
        errors = [result.error_msg for result in results if result.error_msg is not None]
        if errors:
            message = "%s: %d of %d candidates failed, the first with: %s"
            task.ctx.logger.warning(
                message, task.ctx.task_name, len(errors), len(results), errors[0].strip()
            )
        task.build_error_count += sum(result.error_msg is not None for result in code)
        task.run_error_count += len(errors)
        task.note(results)
        task.ctx.notify_runner_results(candidates, results)
        for callback in self.measure_callbacks_:
            callback.apply(self, task_id, candidates, code, results)
        task.measure_candidates = task.builder_results = task.runner_futures = None
        task.ctx.logger.info(
            "%s: %d trials, best %g ms",
            task.ctx.task_name,
            len(task.latency_ms),
            min(task.latency_ms, default=inf),
        )
        return results

    def terminate_task(self, task_id: int) -> None:
        """No more candidates of a task."""
        if self.tasks_[task_id].runner_futures is not None:
            self.join_running_task(task_id)
        self.tasks_[task_id].progress.is_over = True
        self.remaining_tasks_ -= 1

    def print_tuning_statistics(self) -> None:
        """Print trials and times of all tasks."""
        print(f"{'ID':>4} {'Name':<32} {'Weight':>8} {'Latency (us)':>14} {'Trials':>8}")
        for number, task in enumerate(self.tasks_):
            best = 1e3 * min(task.latency_ms, default=inf)
            about = f"{task.task_weight:>8g} {best:>14.4f} {len(task.latency_ms):>8}"
            print(f"{number:>4} {task.ctx.task_name:<32} {about}")

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **options: Any) -> TaskScheduler:
        """A scheduler by its name."""
        kinds: dict[str, Callable[..., TaskScheduler]] = {
            "gradient": GradientBased,
            "round-robin": RoundRobin,
        }
        if kind not in kinds:
            raise ValueError(f"unknown task scheduler {kind!r}, known are {list(kinds)}")
        return kinds[kind](*args, **options)


class PyTaskScheduler(TaskScheduler):
    """A scheduler of the user's: `next_task_id()`; other methods may be defined, too."""

    def __init__(self) -> None:
        """Nothing is needed."""


class RoundRobin(TaskScheduler):
    """One task after another."""

    def __init__(self) -> None:
        self.choice = ours.RoundRobin()


class GradientBased(TaskScheduler):
    """Where most is to be gained."""

    def __init__(self, *, alpha: float = 0.2, window_size: int = 3, seed: int = -1) -> None:
        self.choice = ours.GradientBased(alpha, window_size, seed)


__getattr__ = missing(__name__)
