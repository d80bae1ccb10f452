"""Composite ops replaced by what they are made of, down to ops with rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .nodes import Graph, Node, Tensor


def expand(graph: Graph, keep: Callable[[Node], bool] = lambda node: False) -> Graph:
    """The graph without composite ops; `keep` names nodes to leave as they are.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> [node.op.name for node in expand(Graph([x], [ops.swiglu(x, x)])).nodes]
    ['silu', 'mul']
    """
    done: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        _expand_node(node, keep, done)
    return graph.with_outputs([done.get(tensor, tensor) for tensor in graph.outputs])


def _expand_node(node: Node, keep: Callable[[Node], bool], done: dict[Tensor, Tensor]) -> None:
    inputs = [done.get(tensor, tensor) for tensor in node.inputs]
    if node.op.expand is None or keep(node):
        fresh = node.over(inputs)
        if fresh is not node:
            done.update(zip(node.outputs, fresh.outputs, strict=True))
        return
    results = node.op.expand(inputs, node.attrs)
    for part in _added(results, set(inputs)):
        # What an expansion adds may be composite again.
        if part.op.expand is not None or any(tensor in done for tensor in part.inputs):
            _expand_node(part, keep, done)
    done.update((old, done.get(new, new)) for old, new in zip(node.outputs, results, strict=True))


def _added(results: Sequence[Tensor], inputs: set[Tensor]) -> list[Node]:
    """The nodes between the inputs of an expansion and its results, in order of creation."""
    seen: set[Node] = set()
    stack = [tensor for tensor in results if tensor not in inputs]
    while stack:
        node = stack.pop().node
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(tensor for tensor in node.inputs if tensor not in inputs)
    return sorted(seen, key=lambda node: node.serial)
