"""Simplifications of a graph that never change a result: folding, sharing, dropping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..nodes import Graph, Node, Tensor
from ..op import REGISTRY

#: Constants above this many bytes are not made by folding smaller ones.
FOLD_LIMIT = 1 << 24
#: Constants up to this many bytes are compared by content to find equal ones.
BYTES_COMPARED = 1 << 12


def optimize(graph: Graph) -> Graph:
    """The graph with constants folded and equal nodes shared; what nobody needs is left out.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2,), "float32"), "x")
    >>> two = ops.add(ops.constant(np.float32(1)), ops.constant(np.float32(1)))
    >>> [node.op.name for node in optimize(Graph([x], [ops.mul(x, two)])).nodes]
    ['constant', 'mul']
    """
    known: dict[Any, Node] = {}
    now: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        inputs = [now.get(tensor, tensor) for tensor in node.inputs]
        fresh = _folded(node, inputs) or _shared(node, inputs, known)
        now.update(zip(node.outputs, fresh, strict=True))
    outputs = [now.get(tensor, tensor) for tensor in graph.outputs]
    return Graph(graph.inputs, outputs, graph.output_names, graph.name)


def _folded(node: Node, inputs: list[Tensor]) -> list[Tensor] | None:
    """The outputs as constants, when all inputs are and they do not grow beyond measure."""
    if node.op.name == "constant" or any(tensor.value is None for tensor in inputs):
        return None
    size = sum(tensor.type.nbytes for tensor in node.outputs)
    if size > max(FOLD_LIMIT, sum(tensor.type.nbytes for tensor in inputs)):
        return None
    types = [tensor.type for tensor in node.outputs]
    with np.errstate(all="ignore"):
        arrays = node.op.reference([t.value for t in inputs], node.attrs, types)  # type: ignore[misc]
    return [
        constant_node(np.asarray(array, dtype=type_.dtype.numpy).reshape(type_.shape), type_)
        for array, type_ in zip(arrays, types, strict=True)
    ]


def constant_node(array: np.ndarray[Any, Any], type_: Any) -> Tensor:
    """A constant tensor."""
    return Node(REGISTRY["constant"], (), {"value": array}, [type_]).outputs[0]


def _shared(node: Node, inputs: list[Tensor], known: dict[Any, Node]) -> tuple[Tensor, ...]:
    key = _key(node, inputs)
    found = known.get(key)
    if found is not None:
        return found.outputs
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        fresh = node
    else:
        types = [tensor.type for tensor in node.outputs]
        fresh = Node(node.op, inputs, node.attrs, types, node.name)
    known[key] = fresh
    return fresh.outputs


def _key(node: Node, inputs: list[Tensor]) -> Any:
    serials = [tensor.serial for tensor in inputs]
    if node.op.commutative:
        serials.sort()
    return (node.op.name, tuple(serials), freeze(node.attrs), node.outputs[0].type)


def freeze(value: Any) -> Any:
    """Attributes as a hashable key; equal keys mean the same while the values are alive.

    Large arrays are known by identity: a key must not outlive the node that it describes.

    >>> freeze(0.0) == freeze(-0.0), freeze(float("nan")) == freeze(float("nan"))
    (False, True)
    """
    if isinstance(value, Mapping):
        return tuple(sorted((key, freeze(part)) for key, part in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(freeze(part) for part in value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        content = array.tobytes() if array.nbytes <= BYTES_COMPARED else id(value)
        return (array.dtype.name, array.shape, content)
    if isinstance(value, float):
        return value.hex()
    return (type(value).__name__, value)
