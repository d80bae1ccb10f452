"""Constants made of constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..nodes import Graph, Node, Tensor, TensorType
from ..op import REGISTRY
from ..symbols import space_of

#: Constants above this many bytes are not made by folding smaller ones.
FOLD_LIMIT = 1 << 24
#: Repeated values are not stored above this many bytes: to repeat them costs nothing in a kernel.
REPEAT_LIMIT = 1 << 12
#: Elements that folding a graph may read and make, and how many more for each element of the
#: constants that it has: a second of NumPy, and as long as it takes to prepare weights.
FOLD_STEPS, FOLD_STEPS_EACH = 1 << 28, 64


def constant_node(array: np.ndarray[Any, Any], type_: TensorType) -> Tensor:
    """A constant tensor."""
    return Node(REGISTRY["constant"], (), {"value": array}, [type_]).outputs[0]


def _is_symbolic(tensor: Tensor) -> bool:
    """Whether a value is not known though nothing is read for it."""
    made_of_size = tensor.node is not None and tensor.node.op.name == "extent"
    return made_of_size or space_of(tensor.shape) is not None


class Budget:
    """How much more may be computed at compile time.

    A graph of a few nodes can ask for any amount of work, and what is made of constants takes
    memory: what is beyond the budget is left to kernels.
    """

    def __init__(self, graph: Graph) -> None:
        values = (node.outputs[0].value for node in graph.nodes if node.op.name == "constant")
        given = sum(value.size for value in values if value is not None)
        self.left = FOLD_STEPS + FOLD_STEPS_EACH * given

    def allows(self, node: Node, inputs: Sequence[Tensor]) -> bool:
        """Whether a node may be computed; if so it is charged."""
        types = [[t.type for t in tensors] for tensors in (inputs, node.outputs)]
        steps = node.op.cost(types[0], node.attrs, types[1])
        if steps > self.left:
            return False
        self.left -= steps
        return True


def fold(node: Node, inputs: Sequence[Tensor], budget: Budget) -> list[Tensor] | None:
    """The outputs as constants, when all inputs are and they do not grow beyond measure."""
    if node.op.name == "constant" or any(map(_is_symbolic, node.outputs)):
        return None
    values = []
    for tensor in inputs:
        value = tensor.value
        if value is None:
            return None
        values.append(value)
    size = sum(tensor.type.nbytes for tensor in node.outputs)
    limit = REPEAT_LIMIT if node.op.name in ("broadcast_to", "iota") else FOLD_LIMIT
    if size > limit and size > sum(tensor.type.nbytes for tensor in inputs):
        return None
    if not budget.allows(node, inputs):
        return None
    types = [tensor.type for tensor in node.outputs]
    with np.errstate(all="ignore"):
        arrays = node.op.reference(values, node.attrs, types)
    return [
        constant_node(np.asarray(array, dtype=type_.dtype.numpy).reshape(type_.shape), type_)
        for array, type_ in zip(arrays, types, strict=True)
    ]
