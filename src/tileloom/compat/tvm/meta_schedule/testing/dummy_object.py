"""Parts of the tuner that do nothing: builders, runners, mutators."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .....schedule import Trace
from ..._names import missing
from ..builder import BuilderInput, BuilderResult, PyBuilder
from ..mutator import PyMutator
from ..runner import PyRunner, PyRunnerFuture, RunnerFuture, RunnerInput, RunnerResult
from ..tune_context import TuneContext


class DummyRunnerFuture(PyRunnerFuture):
    """Some seconds, drawn at random."""

    def done(self) -> bool:
        """At once."""
        return True

    def result(self) -> RunnerResult:
        """One to ten numbers."""
        return RunnerResult([random.uniform(5, 30) for _ in range(random.randint(1, 10))], None)


class DummyBuilder(PyBuilder):
    """Says that all could be built."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        """A path that is none."""
        return [BuilderResult("test_path", None) for _ in build_inputs]


class DummyRunner(PyRunner):
    """Says that all ran."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """Seconds drawn at random."""
        return [DummyRunnerFuture() for _ in runner_inputs]


class DummyMutator(PyMutator):
    """Draws all decisions again."""

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        pass

    def apply(self, trace: Trace, *_seed: object) -> Trace | None:
        """The trace without decisions."""
        return Trace(trace.insts, {})


__getattr__ = missing(__name__)
