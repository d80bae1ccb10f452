"""Values of tensors that depend on constants alone, by the reference interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...graph.nodes import Node, Tensor, reachable
from .values import Array, constant_of


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 16 << 30


#: No single tensor may be larger than the machine's memory.
LARGEST_TENSOR = _physical_memory()
#: A constant expression is replaced by its value if that is at most this, or
#: at most `GROWTH` times what it is made of.
SMALL = 1 << 16
GROWTH = 8


def check_size(tensor: Tensor) -> None:
    """Refuse a tensor that no memory would hold."""
    if tensor.type.nbytes > LARGEST_TENSOR:
        raise UserError(
            f"a tensor of type {tensor.type} would need {tensor.type.nbytes:,} bytes, "
            f"more than this machine's {LARGEST_TENSOR:,}"
        )


class Folder:
    """Knows which tensors are constant expressions, and evaluates them."""

    def __init__(self) -> None:
        self._constant: dict[Node, bool] = {}
        self._values: dict[Tensor, Array] = {}

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether the tensor depends on no graph input."""
        if tensor.node is None:
            return False
        if tensor.node not in self._constant:
            for node in self._unjudged(tensor.node):
                self._constant[node] = all(
                    t.node is not None and self._constant[t.node] for t in node.inputs
                )
        return self._constant[tensor.node]

    def _unjudged(self, node: Node) -> list[Node]:
        """The node and those before it that have not been looked at, producers first."""
        seen = {node}
        stack = [node]
        while stack:
            for tensor in stack.pop().inputs:
                before = tensor.node
                if before is not None and before not in seen and before not in self._constant:
                    seen.add(before)
                    stack.append(before)
        return sorted(seen, key=lambda found: found.serial)

    def evaluate(self, tensor: Tensor) -> Array:
        """The value of a constant expression."""
        if tensor.value is not None:
            return tensor.value
        if tensor not in self._values:
            self._run(tensor)
        return self._values[tensor]

    def _run(self, tensor: Tensor) -> None:
        values: dict[Tensor, Array] = {}
        nodes = self._unknown([tensor])
        total = sum(output.type.nbytes for node in nodes for output in node.outputs)
        if total > LARGEST_TENSOR:
            raise UserError(
                f"constants of {total:,} bytes do not fit into this machine's {LARGEST_TENSOR:,}"
            )
        for node in nodes:
            arrays = [self._lookup(t, values) for t in node.inputs]
            types = [output.type for output in node.outputs]
            results = node.op.reference(arrays, node.attrs, types)
            values.update(zip(node.outputs, results, strict=True))
        self._values[tensor] = values[tensor]

    def _lookup(self, tensor: Tensor, values: dict[Tensor, Array]) -> Array:
        if tensor.value is not None:
            return tensor.value
        found = values.get(tensor)
        return self._values[tensor] if found is None else found

    def _unknown(self, targets: Iterable[Tensor]) -> list[Node]:
        """The nodes to run, producers first; what is known already is a leaf."""
        seen: set[Node] = set()
        stack = list(targets)
        while stack:
            tensor = stack.pop()
            if tensor in self._values or tensor.value is not None or tensor.node is None:
                continue
            if tensor.node not in seen:
                seen.add(tensor.node)
                stack.extend(tensor.node.inputs)
        return sorted(seen, key=lambda node: node.serial)

    def fold(self, tensor: Tensor) -> Tensor:
        """A constant in the tensor's place where that is worth its memory, else the tensor."""
        if tensor.value is not None or not self.is_constant(tensor):
            return tensor
        if tensor.type.nbytes > max(SMALL, GROWTH * self._leaves(tensor)):
            return tensor
        result = constant_of(np.asarray(self.evaluate(tensor)))
        result.name = tensor.name
        self._values.pop(tensor, None)
        return result

    @staticmethod
    def _leaves(tensor: Tensor) -> int:
        total = 0
        for node in reachable([tensor]):
            value: Any = node.attrs.get("value") if node.op.name == "constant" else None
            total += 0 if value is None else value.nbytes
        return total
