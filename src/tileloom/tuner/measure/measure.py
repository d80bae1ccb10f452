"""Many candidates on an executor, and their measurements in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from functools import lru_cache
from typing import Any

from ...base.errors import UserError
from .local import Limits, LocalExecutor
from .task import Measurement, MeasureTask, Status, measure_task
from .worker import MeasureError


def measure(
    tasks: Iterable[MeasureTask], executor: Executor, limits: Limits | None = None
) -> Iterator[Measurement]:
    """What comes of candidates, in their order, each as soon as it and those before it are done.

    All of them are submitted at once; what is not yet begun when the iterator is closed is
    cancelled. There is a measurement of every candidate, whatever happens to its worker.

    Args:
        tasks: the candidates.
        executor: where they run: a `LocalExecutor`, or any other. On another, each worker runs
            candidates in a process of its own beside it, so that limits hold there and a crash is
            the candidate's alone.
        limits: for each candidate, unless the executor is a `LocalExecutor`, which has its own.
    """
    if isinstance(executor, LocalExecutor):
        if limits is not None:
            hint = "say them when you make it: LocalExecutor(2, limits)"
            raise UserError("a LocalExecutor has limits of its own", hint=hint)
        futures = [_submitted(executor, measure_task, task) for task in tasks]
    else:
        bounds = limits or Limits()
        futures = [_submitted(executor, isolated, task, bounds) for task in tasks]
    return _outcomes(futures)


def _submitted(
    executor: Executor, function: Callable[..., Measurement], *arguments: Any
) -> Future[Measurement]:
    try:
        return executor.submit(function, *arguments)
    except (UserError, RuntimeError, OSError) as error:  # it is broken, or was shut down
        failed: Future[Measurement] = Future()
        failed.set_exception(error)
        return failed


def _outcomes(futures: Sequence[Future[Measurement]]) -> Iterator[Measurement]:
    try:
        for future in futures:
            yield outcome(future)
    finally:
        for future in futures:
            future.cancel()


def isolated(task: MeasureTask, limits: Limits) -> Measurement:
    """A candidate measured in a process beside this one, which is kept for the next one."""
    return outcome(_process_for(limits, os.getpid()).submit(measure_task, task))


@lru_cache(maxsize=1)
def _process_for(limits: Limits, owner: int) -> LocalExecutor:
    """The process beside the process `owner`, which is this one: not what it may be a fork of."""
    return LocalExecutor(1, limits)


_STATUS: dict[str, Status] = {"timeout": "timeout", "error": "error"}


def outcome(future: Future[Measurement]) -> Measurement:
    """The measurement of a task, or one that says why there is none."""
    try:
        return future.result()
    except MeasureError as error:
        return Measurement(_STATUS.get(error.reason, "crash"), error=str(error))
    except CancelledError:
        return Measurement("lost", error="the task was cancelled")
    except Exception as error:  # of any kind: executors have their own for workers that are lost
        return Measurement("lost", error=f"{type(error).__name__}: {error}")
