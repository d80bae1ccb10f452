"""The tensor graph, in grammar order.

    graph  ::= Graph(inputs, outputs)            a pure function of tensors
    tensor ::= Tensor(type) of a graph input | output `index` of a Node
    node   ::= Node(op, inputs, attrs)           `op` is a registered `Op`, see `op.py`
    type   ::= TensorType(shape, dtype)          shapes are integers, or what counts as one: see
                                                 `symbols.SymInt`

Nodes are immutable; a rewrite builds new ones. The order of nodes is that of their creation,
which is always a topological order. A constant is a node of the op "constant" whose attribute
`value` is a NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import DType, dtype
from ..base.errors import ShapeError
from .symbols import is_symbolic

if TYPE_CHECKING:
    from .op import Op

_serial = count()


def as_extent(extent: Any) -> int:
    """An extent as a Python integer, or as the symbol that it is."""
    return extent if is_symbolic(extent) else int(extent)


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a tensor.

    >>> TensorType((2, 3), dtype("float32"))
    float32[2, 3]
    """

    shape: tuple[int, ...]
    dtype: DType

    def __post_init__(self) -> None:
        for extent in self.shape:
            if extent < 0:
                raise ShapeError(f"negative extent in shape {list(self.shape)}")

    @property
    def size(self) -> int:
        """The number of elements."""
        result = 1
        for extent in self.shape:
            result *= extent
        return result

    @property
    def nbytes(self) -> int:
        """The bytes of a compact tensor."""
        return self.size * self.dtype.bytes

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def tensor_type(shape: Iterable[int], kind: str) -> TensorType:
    """A type from a sequence of integers and a type name."""
    return TensorType(tuple(map(as_extent, shape)), dtype(kind))


class Tensor:
    """A value of the graph: a graph input (`node` is None) or an output of a node."""

    __slots__ = ("index", "name", "node", "serial", "type")

    def __init__(
        self, type_: TensorType, name: str = "", node: Node | None = None, index: int = 0
    ) -> None:
        self.type = type_
        self.name = name
        self.node = node
        self.index = index
        self.serial = next(_serial)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    @property
    def value(self) -> np.ndarray[Any, Any] | None:
        """The constant's array, or None if this is not a constant."""
        if self.node is not None and self.node.op.name == "constant":
            found: np.ndarray[Any, Any] = self.node.attrs["value"]
            return found
        return None

    def __repr__(self) -> str:
        return f"Tensor({self.name or self.serial}: {self.type})"


class Node:
    """One application of an op; its output types follow from `op.infer`."""

    __slots__ = ("attrs", "inputs", "name", "op", "outputs", "serial")

    def __init__(
        self,
        op: Op,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        types: Sequence[TensorType],
        name: str = "",
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.attrs = dict(attrs)
        self.name = name
        self.serial = next(_serial)
        self.outputs = tuple(
            Tensor(type_, name if index == 0 else f"{name}.{index}", self, index)
            for index, type_ in enumerate(types)
        )

    def over(self, inputs: Sequence[Tensor]) -> Node:
        """The same of other inputs of the same types; the node itself of its own."""
        if all(a is b for a, b in zip(inputs, self.inputs, strict=True)):
            return self
        types = [tensor.type for tensor in self.outputs]
        return Node(self.op, inputs, self.attrs, types, self.name)

    def __repr__(self) -> str:
        return f"Node({self.op.name}, {list(self.inputs)})"


class Graph:
    """A pure function: `outputs` of `inputs`. Outputs may be inputs, constants, or repeated."""

    __slots__ = ("inputs", "name", "output_names", "outputs")

    def __init__(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        output_names: Sequence[str] = (),
        name: str = "main",
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.output_names = tuple(output_names) or tuple(
            tensor.name or f"output{k}" for k, tensor in enumerate(outputs)
        )
        self.name = name

    def with_outputs(self, outputs: Sequence[Tensor]) -> Graph:
        """The same with other tensors under the names of its outputs."""
        return Graph(self.inputs, outputs, self.output_names, self.name)

    @property
    def nodes(self) -> list[Node]:
        """The nodes that the outputs depend on, producers before consumers."""
        return reachable(self.outputs)

    def __str__(self) -> str:
        from .show import show_graph  # the printer imports the nodes

        return show_graph(self)


def reachable(outputs: Iterable[Tensor]) -> list[Node]:
    """The nodes that these tensors depend on, in order of creation."""
    seen: set[Node] = set()
    stack = [tensor.node for tensor in outputs if tensor.node is not None]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(t.node for t in node.inputs if t.node is not None)
    return sorted(seen, key=lambda node: node.serial)
