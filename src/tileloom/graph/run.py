"""The meaning of a graph: every node evaluated by its op's NumPy reference, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import ArgumentError
from .nodes import Graph, Node, Tensor
from .op import Array


def run(graph: Graph, inputs: Sequence[Any]) -> list[Array]:
    """The outputs of the graph for these inputs.

    Raises:
        ArgumentError: an input is missing, or has another shape or type than the graph's.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> run(Graph([x], [ops.add(x, 1.0)]), [np.array([1, 2], "float32")])
    [array([2., 3.], dtype=float32)]
    """
    if len(inputs) != len(graph.inputs):
        raise ArgumentError(
            f"graph {graph.name!r} takes {len(graph.inputs)} inputs, got {len(inputs)}"
        )
    values: dict[Tensor, Array] = {}
    for tensor, value in zip(graph.inputs, inputs, strict=True):
        values[tensor] = _checked(tensor, np.asarray(value))
    # Every array is dropped after its last use, so that large graphs fit.
    nodes = graph.nodes
    last = {tensor: k for k, node in enumerate(nodes) for tensor in node.inputs}
    kept = {*graph.outputs, *graph.inputs}
    for k, node in enumerate(nodes):
        values.update(zip(node.outputs, evaluate(node, values), strict=True))
        for tensor in {*node.inputs, *node.outputs}:
            if last.get(tensor, k) <= k and tensor not in kept:
                values.pop(tensor, None)
    return [values[_given(tensor, values)] for tensor in graph.outputs]


def evaluate(node: Node, values: dict[Tensor, Array]) -> Sequence[Array]:
    """The outputs of one node."""
    arrays = [values[_given(tensor, values)] for tensor in node.inputs]
    return node.op.reference(arrays, node.attrs, [tensor.type for tensor in node.outputs])


def _given(tensor: Tensor, values: dict[Tensor, Array]) -> Tensor:
    if tensor not in values:
        raise ArgumentError(f"{tensor} is not among the inputs of the graph")
    return tensor


def _checked(tensor: Tensor, value: Array) -> Array:
    wanted = tensor.type
    if value.shape != wanted.shape or value.dtype != wanted.dtype.numpy:
        raise ArgumentError(
            f"input {tensor.name or tensor.serial!r} must be {wanted}, "
            f"got {value.dtype}{list(value.shape)}"
        )
    return value
