"""Candidates built, checked and timed, on any `concurrent.futures.Executor`.

The submodules are loaded when something of them is first used: a worker process starts with the
smallest of them and loads the compiler when its first task asks for it.
"""

from __future__ import annotations

from ...base.late import TYPE_CHECKING, room

if TYPE_CHECKING:
    from .calls import measure_call
    from .executors import executor_of
    from .local import Limits, LocalExecutor, MeasureError
    from .measure import measure
    from .task import Measurement, MeasureTask, measure_task
    from .timing import Timing

room(
    __name__,
    calls="measure_call",
    executors="executor_of",
    local="Limits LocalExecutor MeasureError",
    measure="measure",
    task="MeasureTask Measurement measure_task",
    timing="Timing",
)

__all__ = [
    "Limits", "LocalExecutor", "MeasureError", "MeasureTask", "Measurement", "Timing",
    "executor_of", "measure", "measure_call", "measure_task",
]  # fmt: skip
