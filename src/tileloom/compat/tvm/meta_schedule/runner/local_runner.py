"""`LocalRunner`: candidates run on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from .....tuner.measure import Limits, LocalExecutor
from ..._names import missing
from ...runtime.module import Module, load_module
from ...runtime.ndarray import Device, NDArray, array, device
from .._children import ChildError, in_child
from ..arg_info import TensorInfo
from ..profiler import timed
from ..utils import get_global_func_with_default_on_worker
from .config import EvaluatorConfig
from .runner import Runner, RunnerFuture, RunnerInput, RunnerResult

T_ARG_INFO_JSON_OBJ = list[Any]
T_ARG_INFO_JSON_OBJ_LIST = list[T_ARG_INFO_JSON_OBJ]
T_ARGUMENT = Any
T_ARGUMENT_LIST = list[T_ARGUMENT]


def default_alloc_argument(
    dev: Device, args_info: Sequence[Any], alloc_repeat: int
) -> list[list[NDArray]]:
    """Arrays of random numbers."""
    random = np.random.default_rng()
    return [[_random(random, info, dev) for info in args_info] for _ in range(alloc_repeat)]


def _random(random: np.random.Generator, info: Any, dev: Device) -> NDArray:
    tensor = TensorInfo.from_json(info)
    numbers = random.random(tensor.shape)
    if not tensor.dtype.is_float:
        numbers = np.floor(numbers * 10)
    return array(numbers.astype(str(tensor.dtype)), dev)


def default_run_evaluator(
    rt_mod: Module,
    dev: Device,
    evaluator_config: EvaluatorConfig,
    repeated_args: Sequence[Sequence[Any]],
) -> list[float]:
    """Seconds of each repeat."""
    evaluate = rt_mod.time_evaluator(
        rt_mod.entry_name,
        dev,
        number=evaluator_config.number,
        repeat=evaluator_config.repeat,
        min_repeat_ms=evaluator_config.min_repeat_ms,
    )
    found = [evaluate(*args).results for args in repeated_args]
    return [float(seconds) for seconds in chain.from_iterable(found)]


def default_cleanup() -> None:
    """Nothing is left behind."""


class LocalRunner(Runner):
    """Runs candidates one after another, each in a process of its own.

    Args:
        timeout_sec: that each may take.
        evaluator_config: how often it is run.
        cooldown_sec: between two of them.
        alloc_repeat: sets of arguments.
        f_alloc_argument: `f(device, types, alloc_repeat)` gives sets of arguments.
        f_run_evaluator: `f(code, device, evaluator_config, sets)` gives seconds.
        f_cleanup: called at the end.
        initializer: called in each process before anything else.
    """

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_alloc_argument: Callable[..., Any] | str | None = None,
        f_run_evaluator: Callable[..., Any] | str | None = None,
        f_cleanup: Callable[..., Any] | str | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self.timeout_sec, self.cooldown_sec = timeout_sec, cooldown_sec
        self.evaluator_config = EvaluatorConfig._normalized(evaluator_config)
        self.alloc_repeat = alloc_repeat
        self.f_alloc_argument, self.f_run_evaluator = f_alloc_argument, f_run_evaluator
        self.f_cleanup, self.initializer = f_cleanup, initializer
        if initializer is None:
            self._functions()

    @property
    def is_plain(self) -> bool:
        """Whether it has no functions of the user's."""
        functions = (self.f_alloc_argument, self.f_run_evaluator, self.f_cleanup, self.initializer)
        return type(self) is LocalRunner and functions == (None,) * len(functions)

    @cached_property
    def executor(self) -> LocalExecutor:
        """Where candidates are measured if there are no such functions."""
        return LocalExecutor(1, Limits(self.timeout_sec))

    def _functions(self) -> tuple[Any, Any, Any]:
        find = get_global_func_with_default_on_worker
        return (
            find(self.f_alloc_argument, default_alloc_argument),
            find(self.f_run_evaluator, default_run_evaluator),
            find(self.f_cleanup, default_cleanup),
        )

    @timed("LocalRunner")
    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        """A result for each of the inputs."""
        results = []
        for given in runner_inputs:
            results.append(RunnerFuture.of(self._result(given)))
            time.sleep(self.cooldown_sec)
        return results

    def _result(self, given: RunnerInput) -> RunnerResult:
        try:
            seconds = in_child(lambda: self._timed(given), self.timeout_sec, "LocalRunner")
        except ChildError as error:
            return RunnerResult(None, str(error))
        return RunnerResult(seconds, None)

    def _timed(self, given: RunnerInput) -> list[float]:
        if self.initializer is not None:
            self.initializer()
        allocate, evaluate, clean_up = self._functions()
        dev = device(given.device_type)
        try:
            code = load_module(given.artifact_path)
            types = [info.as_json() for info in given.args_info]
            sets = allocate(dev, types, self.alloc_repeat)
            return [float(s) for s in evaluate(code, dev, self.evaluator_config, sets)]
        finally:
            clean_up()


__getattr__ = missing(__name__)
