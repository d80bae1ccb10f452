"""How an imported graph is run: compiled, or by the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ...graph.nodes import Graph, Tensor
from .fold import Folder
from .values import Array, constant_of

#: Takes the arrays of the graph's inputs, gives those of its outputs.
Executable: TypeAlias = Callable[..., "list[Array]"]


def make_executable(graph: Graph, target: str) -> Executable:
    """Compile a graph for a target; "reference" interprets it in NumPy."""
    return lambda *arrays: _interpret(graph, arrays)


def _interpret(graph: Graph, arrays: tuple[Any, ...]) -> list[Array]:
    folder = Folder()
    folder.assume(dict(zip(graph.inputs, arrays, strict=True)))
    return [folder.evaluate(tensor) for tensor in graph.outputs]



