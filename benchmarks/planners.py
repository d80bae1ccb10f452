"""The planner of groups for CPUs against the loop templates: `python -m benchmarks.planners`.

The kernels of the workloads of `benchmarks.groups` are made in both ways and timed by turns,
correctness first. Also shown: how long planning takes, and compiling in all. With `--akg FILE` (see
`benchmarks.akg`) only how long it takes to plan and to lower the kernels of AKG's graphs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tileloom import jit
from tileloom.base import Target
from tileloom.base.settings import override
from tileloom.driver import build, plan_graph
from tileloom.frontend.akg import load
from tileloom.graph.nodes import Graph, Tensor
from tileloom.graph.partition.group import Group
from tileloom.graph.to_tir.blocks import block_function
from tileloom.graph.to_tir.group import group_kernel
from tileloom.graph.to_tir.kernel import Machine
from tileloom.lower import lower
from tileloom.plan import schedule_cpu
from tileloom.tir import PrimFunc

from . import akg, groups
from .harness import Call, Effort, Workload, run_one


@dataclass
class Made:
    """What it took to make the kernels of one way.

    Attributes:
        planning, compiling: seconds for the groups of a workload, the latter in all.
    """

    planning: float = 0.0
    compiling: float = 0.0


def planned(group: Group, host: Target) -> tuple[PrimFunc, list[Tensor]]:
    """A group's kernel as the planner makes it."""
    func, operands = block_function(group)
    return schedule_cpu(func, host).mod["main"], operands


def templates(group: Group, host: Target) -> tuple[PrimFunc, list[Tensor]]:
    """A group's kernel as the templates make it."""
    return group_kernel(group, "main", Machine(host.vector_bits, host.cores))


WAYS: Mapping[str, Callable[[Group, Target], tuple[PrimFunc, list[Tensor]]]] = {
    "templates": templates,
    "planner": planned,
}


def builder(function: Callable[..., Any], way: str, made: Made, host: Target) -> Any:
    """A peer of the harness: the kernels of a function's groups, called one after another."""

    def prepare(*inputs: Any) -> Call:
        program = plan_graph(jit(function).graph(*inputs), host)
        graph = program.graph
        memory = {tensor: np.ascontiguousarray(x) for tensor, x in zip(graph.inputs, inputs)}
        calls = [_call(group, way, memory, made, host) for group in program.groups]

        def call() -> Any:
            for kernel, arrays in calls:
                kernel(*arrays)
            return _result(graph, memory)

        return call

    return prepare


def _call(
    group: Group, way: str, memory: dict[Tensor, Any], made: Made, host: Target
) -> tuple[Callable[..., Any], list[Any]]:
    if group.is_view:
        source, result = group.inputs[0], group.outputs[0]
        memory[result] = _array(memory, source).reshape(result.shape)
        return (lambda *_: None), []
    start = time.process_time()
    func, operands = WAYS[way](group, host)
    made.planning += time.process_time() - start
    with override(cache=False):
        kernel = build(func, host)
    made.compiling += time.process_time() - start
    arrays = [_array(memory, tensor) for tensor in operands]
    shapes = [tuple(int(str(n)) for n in buffer.shape) for buffer in func.buffers]
    return kernel, [a.reshape(shape) for a, shape in zip(arrays, shapes, strict=True)]


def _array(memory: dict[Tensor, Any], tensor: Tensor) -> Any:
    if tensor not in memory:
        value = tensor.value
        memory[tensor] = np.empty(tensor.shape, tensor.dtype.numpy) if value is None else value
    return memory[tensor]


def _result(graph: Graph, memory: Mapping[Tensor, Any]) -> Any:
    return memory[graph.outputs[0]]


def compare(workload: Workload, effort: Effort, host: Target) -> str:
    """A line of the table."""
    function = workload.peers["tileloom"].function  # type: ignore[attr-defined]
    made = {way: Made() for way in WAYS}
    peers = {way: builder(function, way, made[way], host) for way in WAYS}
    ours = Workload(
        workload.name, workload.make_inputs, workload.reference, peers,
        workload.rtol, workload.atol,
    )  # fmt: skip
    row = run_one(ours, None, effort)
    cells = [row.cells[way] for way in WAYS]
    bad = [f"{cell.peer}: {cell.status} {cell.note}" for cell in cells if cell.status != "ok"]
    if bad:
        return f"{workload.name:34s} {'; '.join(bad)}"
    old, new = cells
    RATIOS.append(old.median / new.median)
    PLANNING.append(made["planner"].planning)
    return (
        f"{workload.name:34s} {old.median * 1e3:8.3f} {new.median * 1e3:8.3f} "
        f"{old.median / new.median:6.2f} {old.minimum / new.minimum:6.2f}   "
        f"{made['templates'].planning * 1e3:6.1f} {made['planner'].planning * 1e3:6.1f}   "
        f"{made['templates'].compiling * 1e3:6.0f} {made['planner'].compiling * 1e3:6.0f}"
    )


def akg_costs(path: Path, host: Target) -> str:
    """CPU milliseconds for each kernel of AKG's graphs, as text."""
    costs: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for record in akg.read(path):
        program = plan_graph(load(record).graph, host)
        for group in program.groups:
            if group.is_view or group.kind not in ("formulas", "reductions", "several"):
                continue
            for way, make in WAYS.items():
                start = time.process_time()
                func, _ = make(group, host)
                planned_at = time.process_time()
                lower(func, host)
                costs[way].append((planned_at - start, time.process_time() - planned_at))
    lines = []
    for way, found in costs.items():
        for name, times in zip(("plan", "lower"), zip(*found, strict=True), strict=True):
            middle, mean = statistics.median(times) * 1e3, statistics.fmean(times) * 1e3
            lines.append(f"{way:10s} {name:6s} median {middle:5.1f} ms, mean {mean:5.1f} ms")
    return "\n".join([f"{len(costs['planner'])} kernels", *lines])


RATIOS: list[float] = []
PLANNING: list[float] = []


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads whose names begin so; all by default")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each workload")
    parser.add_argument("--akg", type=Path, help="graphs whose kernels are planned and lowered")
    given = parser.parse_args(arguments)
    host = Target.host().with_cores(given.threads)
    if given.akg is not None:
        print(akg_costs(given.akg, host))
        return 0
    effort = Effort(rounds=given.rounds, seconds=given.seconds)
    print(f"{'':34s}   milliseconds      old/new (median, least)   planning  compiling (ms)")
    print(f"{'':34s} {'old':>8s} {'new':>8s}")
    for workload in groups.workloads():
        if not given.names or workload.name.startswith(tuple(given.names)):
            print(compare(workload, effort, host), flush=True)
    if RATIOS:
        mean = math.exp(statistics.fmean(map(math.log, RATIOS)))
        print(f"geometric mean {mean:.2f}, planning {statistics.median(PLANNING) * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
