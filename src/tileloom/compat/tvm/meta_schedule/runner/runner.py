"""What is run, what comes of it, and who runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from ..._names import missing
from ..arg_info import ArgInfo
from ..utils import NotOverriddenError, Overridable, plain


class RunnerInput:
    """Machine code, the kind of machine, and what the code takes."""

    def __init__(self, artifact_path: str, device_type: str, args_info: Sequence[ArgInfo]) -> None:
        self.artifact_path, self.device_type = artifact_path, device_type
        self.args_info = list(args_info)


class RunnerResult:
    """Seconds of each run, or why there are none."""

    def __init__(self, run_secs: Sequence[Any] | None, error_msg: str | None) -> None:
        self.run_secs = None if run_secs is None else [float(plain(s)) for s in run_secs]
        self.error_msg = error_msg


class RunnerFuture(Overridable):
    """A result that is there, or will be."""

    _done: Callable[[], bool] | None = None
    _result: Callable[[], RunnerResult] | None = None

    def __init__(
        self,
        f_done: Callable[[], bool] | None = None,
        f_result: Callable[[], RunnerResult] | None = None,
    ) -> None:
        self._done, self._result = f_done, f_result

    def done(self) -> bool:
        """Whether it is there."""
        if self._done is None:
            raise NotOverriddenError.of("PyRunnerFuture", "Done", "done")
        return self._done()

    def result(self) -> RunnerResult:
        """The result, which is waited for."""
        if self._result is None:
            raise NotOverriddenError.of("PyRunnerFuture", "Result", "result")
        return self._result()

    @staticmethod
    def of(result: RunnerResult) -> RunnerFuture:
        """A result that is there."""
        return RunnerFuture(lambda: True, lambda: result)


class PyRunnerFuture(RunnerFuture):
    """A future of the user's: `done()` and `result()`."""


class Runner(Overridable):
    """Runs candidates."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[Any]:
        """A future for each of the inputs."""
        raise NotOverriddenError.of("PyRunner", "Run", "run")

    @staticmethod
    def create(kind: str = "local", *args: Any, **options: Any) -> Runner:
        """A runner by its name."""
        homes = {"local": ("local_runner", "LocalRunner"), "rpc": ("rpc_runner", "RPCRunner")}
        if kind not in homes:
            raise ValueError(f"unknown runner {kind!r}, known are {list(homes)}")
        options.pop("max_workers", None)
        file, name = homes[kind]
        runner: Runner = getattr(import_module(f"{__package__}.{file}"), name)(*args, **options)
        return runner


class PyRunner(Runner):
    """A runner of the user's: `run(runner_inputs)` gives futures."""


__getattr__ = missing(__name__)
