"""Candidates measured as `tileloom.tune` does: their results are compared, too."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....tuner.measure import MeasureTask, Timing, measure
from .builder import BuilderResult
from .runner import LocalRunner, RunnerFuture, RunnerResult
from .search_strategy import MeasureCandidate
from .tune_context import TuneContext


def measure_checked(
    context: TuneContext, candidates: Sequence[MeasureCandidate], runner: LocalRunner
) -> tuple[list[BuilderResult], list[RunnerFuture]]:
    """What came of candidates.

    A candidate that computes something else than the program without a schedule counts as one that
    failed.
    """
    if context.mod is None:
        raise ValueError("the context has no program")
    script, target = context.mod.script(), str(context.machine)
    config = runner.evaluator_config
    timing = Timing(samples=max(3, config.number * config.repeat))
    tasks = [
        MeasureTask(script, json.dumps(candidate.sch.trace.as_json()), target, timing=timing)
        for candidate in candidates
        if candidate.sch.trace is not None
    ]
    found = list(measure(tasks, runner.executor))
    results = [
        RunnerResult(m.seconds, None) if m.is_ok else RunnerResult(None, f"LocalRunner: {m.error}")
        for m in found
    ]
    return [BuilderResult(None, None) for _ in found], [RunnerFuture.of(r) for r in results]
