"""`tvm.meta_schedule.runner`: how long candidates take."""

from __future__ import annotations

from ..._names import missing
from .config import EvaluatorConfig, RPCConfig
from .local_runner import LocalRunner
from .rpc_runner import RPCRunner
from .runner import (
    PyRunner,
    PyRunnerFuture,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

__all__ = [
    "EvaluatorConfig", "LocalRunner", "PyRunner", "PyRunnerFuture", "RPCConfig", "RPCRunner",
    "Runner", "RunnerFuture", "RunnerInput", "RunnerResult",
]  # fmt: skip
__getattr__ = missing(__name__)
