"""Operators of the graph: everything about one is registered once, here.

An `Op` says what its results look like (`infer`), what they are (`reference`, in NumPy), and how
they are made: by tensor expressions (`compute`), by simpler ops (`expand`), or, when it has
neither, by running the reference on the host.

>>> from tileloom.graph import ops
>>> REGISTRY["add"].kind
'elementwise'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import compute as te
from ..base.errors import InternalError, UserError
from .nodes import Node, Tensor, TensorType, reachable

Attrs = Mapping[str, Any]
Array = np.ndarray[Any, Any]
Infer = Callable[[Sequence[TensorType], Attrs], Sequence[TensorType]]
Compute = Callable[[Sequence[te.Tensor], Attrs, Sequence[TensorType]], Sequence[te.Tensor]]
Reference = Callable[[Sequence[Array], Attrs, Sequence[TensorType]], Sequence[Array]]
Expand = Callable[[Sequence[Tensor], Attrs], Sequence[Tensor]]
Steps = Callable[[Sequence[TensorType], Attrs, Sequence[TensorType]], int]

#: What a planner may do with an op.
#: elementwise: output i reads inputs at i (after broadcasting); injective: output i reads one or a
#: few elements at computed places; reduction: reads many; matmul, conv: have planners of their own;
#: opaque: runs alone (the host reference when it has no compute rule).
Kind = Literal["elementwise", "injective", "reduction", "matmul", "conv", "opaque"]


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """An operator.

    Attributes:
        name: unique, in the field's own term ("add", "matmul", "reduce_sum").
        kind: how it may be fused and planned.
        infer: types of the outputs; raises ShapeError/DTypeError naming what does not fit.
        reference: the meaning, on NumPy arrays. Gets (arrays, attrs, output types) and returns
            arrays of exactly these types.
        compute: the same as tensor expressions, or None.
        expand: the same as other ops, or None. An op with `expand` is composite: it needs no
            `compute`.
        commutative: whether two inputs may be exchanged (for common-subexpression elimination).
        steps: how many elements the reference reads and makes on its way, where these are not those
            of inputs and outputs.
    """

    name: str
    kind: Kind
    infer: Infer
    reference: Reference
    compute: Compute | None = None
    expand: Expand | None = None
    commutative: bool = False
    steps: Steps | None = None

    def cost(
        self, inputs: Sequence[TensorType], attrs: Attrs, outputs: Sequence[TensorType]
    ) -> int:
        """How many elements the reference reads and makes: what it takes of time and memory.

        >>> from tileloom.graph import ops
        >>> from tileloom.graph.nodes import tensor_type
        >>> square = tensor_type((10, 10), "float32")
        >>> plain = {"transpose_a": False, "transpose_b": False}
        >>> [REGISTRY[n].cost([square] * 2, plain, [square]) for n in ("add", "matmul")]
        [300, 331]
        """
        if self.steps is not None:
            return self.steps(inputs, attrs, outputs)
        moved = sum(type_.size for type_ in (*inputs, *outputs))
        if self.expand is None:
            return moved
        simple = reachable(self.expand([Tensor(type_) for type_ in inputs], attrs))
        return moved + sum(cost_of(node) for node in simple)


def cost_of(node: Node) -> int:
    """`Op.cost` of a node."""
    types = [tensor.type for tensor in node.inputs], [tensor.type for tensor in node.outputs]
    found: int = node.op.cost(types[0], node.attrs, types[1])
    return found


REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Add an op to the registry."""
    if op.name in REGISTRY:
        raise InternalError(f"graph op {op.name!r} is registered twice")
    REGISTRY[op.name] = op
    return op


def apply(name: str, inputs: Sequence[Tensor], /, **attrs: Any) -> tuple[Tensor, ...]:
    """A new node; its outputs.

    Raises:
        UserError: the inputs do not fit the op; the message starts with the op's name.
    """
    op = REGISTRY[name]
    try:
        types = op.infer([tensor.type for tensor in inputs], attrs)
    except UserError as error:
        if not error.message.startswith(f"{name}: "):
            raise type(error)(f"{name}: {error.message}", hint=error.hint) from None
        raise
    return Node(op, inputs, attrs, types).outputs


def apply1(name: str, inputs: Sequence[Tensor], /, **attrs: Any) -> Tensor:
    """The one output of a new node."""
    return apply(name, inputs, **attrs)[0]
