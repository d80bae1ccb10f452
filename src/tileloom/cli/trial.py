"""A program tried: compiled, checked against NumPy in float64, timed against its peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

import tileloom

from ..driver import plan_graph
from ..graph.program import Program as Plan
from ..runtime import get_num_threads
from ..target import Target
from .programs import TrialProgram, convert
from .timing import interleaved_times


@dataclass
class Trial:
    """What came of a program.

    Attributes:
        nodes: operations that were traced.
        plan: the kernels that they were fused into.
        error: the largest, in parts of the result's largest number.
        compile_seconds: for tracing, planning, lowering and machine code.
        seconds: medians by peer.
    """

    program: TrialProgram
    nodes: int
    plan: Plan
    error: float
    compile_seconds: float
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def is_right(self) -> bool:
        """Whether the result is within the tolerance."""
        return self.error <= self.program.rtol

    def speed(self, peer: str) -> float:
        """How many times as fast as a peer; NaN if that did not run."""
        return self.seconds.get(peer, float("nan")) / self.seconds["tileloom"]


def attempt(program: TrialProgram, seconds: float, seed: int = 0) -> Trial:
    """Compile, check and time a program."""
    arguments = program.arguments(np.random.default_rng(seed))
    compiled = tileloom.jit(program.function)
    start = time.perf_counter()
    result = compiled(*arguments)
    compile_seconds = time.perf_counter() - start
    expected = program.function(*convert(arguments, lambda a: a.astype(np.float64)))
    graph = compiled.graph(*arguments)
    plan = plan_graph(graph, Target.host())
    operations = sum(node.op.name != "constant" for node in graph.nodes)
    error = float(np.max(np.abs(result - expected)) / np.max(np.abs(expected)))
    trial = Trial(program, operations, plan, error, compile_seconds)
    if trial.is_right:
        calls = {
            "tileloom": lambda: compiled(*arguments),
            "numpy": lambda: program.function(*arguments),
            **torch_calls(program, arguments),
        }
        trial.seconds = interleaved_times(calls, seconds=seconds)
    return trial


def torch_calls(program: TrialProgram, arguments: Any) -> dict[str, Callable[[], Any]]:
    """The program in PyTorch, if that is installed."""
    if find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(get_num_threads())
    tensors = convert(arguments, torch.from_numpy)
    function = program.torch(torch)

    def call() -> Any:
        with torch.inference_mode():
            return function(*tensors)

    return {"torch": call}
