"""`tvm.meta_schedule.measure_callback`: what is done with measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._names import missing
from .database import TuningRecord
from .utils import NotOverriddenError, Overridable, remove_build_dir

_FAILED = 1e10  # seconds of a candidate that failed


class MeasureCallback(Overridable):
    """Told of each batch."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """What came of the candidates of a task."""
        raise NotOverriddenError.of("PyMeasureCallback", "Apply", "apply")

    @staticmethod
    def create(kind: str) -> Any:
        """A callback by its name; a list of three for "default"."""
        kinds = {
            "add_to_database": AddToDatabase,
            "remove_build_artifact": RemoveBuildArtifact,
            "update_cost_model": UpdateCostModel,
        }
        if kind == "default":
            return [make() for make in kinds.values()]
        if kind not in kinds:
            raise ValueError(f"unknown callback {kind!r}, known are {list(kinds)} and 'default'")
        return kinds[kind]()


class PyMeasureCallback(MeasureCallback):
    """A callback of the user's: `apply(...)`."""


class AddToDatabase(MeasureCallback):
    """Keeps all measurements in the database of the scheduler."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Keep them."""
        database, task = task_scheduler.database_, task_scheduler.tasks_[task_id]
        if database is None:
            return
        workload = database.commit_workload(task.ctx.mod)
        for candidate, result in zip(measure_candidates, runner_results, strict=True):
            database.commit_tuning_record(
                TuningRecord(
                    candidate.sch.trace,
                    workload,
                    result.run_secs or [_FAILED],
                    task.ctx.target,
                    candidate.args_info,
                )
            )


class RemoveBuildArtifact(MeasureCallback):
    """Removes what was built."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Remove it."""
        for result in builder_results:
            if result.artifact_path:
                remove_build_dir(result.artifact_path)


class UpdateCostModel(MeasureCallback):
    """Tells the cost model of all that could be built."""

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Tell it."""
        model, task = task_scheduler.cost_model_, task_scheduler.tasks_[task_id]
        if model is None:
            return
        built = [
            (candidate, result)
            for candidate, code, result in zip(
                measure_candidates, builder_results, runner_results, strict=True
            )
            if code.error_msg is None
        ]
        model.update(task.ctx, [c for c, _ in built], [r for _, r in built])


__getattr__ = missing(__name__)
