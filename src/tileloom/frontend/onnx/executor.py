"""How an imported graph is run: compiled, or by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ...driver import compile_graph
from ...graph.checks import Check, checked, with_failures
from ...graph.nodes import Graph
from ...graph.run import run
from ...target import target as parse_target
from .values import Array

#: Takes the arrays of the graph's inputs, gives those of its outputs.
Executable: TypeAlias = "Callable[..., list[Array]]"

#: The target that means: interpret the graph in NumPy.
REFERENCE = "reference"
#: A stage with less data than this is interpreted: compiling it would cost more.
_SMALL_STAGE = 1 << 20


def make_executable(
    graph: Graph, target: str, device: str | None = None, checks: Sequence[Check] = ()
) -> Executable:
    """Compile a graph for a target and a device; `REFERENCE` interprets it in NumPy.

    Args:
        checks: what the program has to look at, unless it runs on a GPU.
    """
    if checks and looks(target):
        program = make_executable(with_failures(graph, checks), target, device)
        return checked(program, checks)
    if target == REFERENCE or not graph.outputs:
        return lambda *arrays: [np.array(result) for result in run(graph, arrays)]  # fresh ones
    compiled: Executable = compile_graph(graph, target, device=device)
    return compiled


def looks(target: str) -> bool:
    """Whether programs for a target look at values; a GPU would have to be waited for."""
    return target == REFERENCE or not parse_target(target).is_asynchronous


def make_stage(graph: Graph, target: str, device: str | None = None) -> Executable:
    """The same for a graph that computes a value on which the structure of another depends."""
    work = sum(output.type.nbytes for node in graph.nodes for output in node.outputs)
    return make_executable(graph, REFERENCE if work < _SMALL_STAGE else target, device)
