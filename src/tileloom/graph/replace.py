"""Graphs with some of their nodes replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .nodes import Graph, Node, Tensor

#: Given a node, and what there is now in place of a tensor: its results, or None to leave it.
Replace = Callable[[Node, Callable[[Tensor], Tensor]], Sequence[Tensor] | None]


def replace_nodes(graph: Graph, replace: Replace) -> Graph:
    """The graph with nodes replaced, producers first; the graph itself if nothing changes.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> def exp2(node, now):
    ...     return [ops.exp2(now(node.inputs[0]))] if node.op.name == "exp" else None
    >>> [node.op.name for node in replace_nodes(Graph([x], [ops.neg(ops.exp(x))]), exp2).nodes]
    ['exp2', 'neg']
    """
    found: dict[Tensor, Tensor] = {}

    def now(tensor: Tensor) -> Tensor:
        return found.get(tensor, tensor)

    for node in graph.nodes:
        results = replace(node, now)
        if results is None:
            results = node.over(list(map(now, node.inputs))).outputs
        pairs = zip(node.outputs, results, strict=True)
        found.update((old, new) for old, new in pairs if new is not old)
    return graph.with_outputs(list(map(now, graph.outputs))) if found else graph
