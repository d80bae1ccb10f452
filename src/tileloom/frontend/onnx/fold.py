"""Values of tensors that depend on constants and extents alone.

Constants are evaluated by the reference interpreter. What depends on extents without a number is
*open*: its value is an array of expressions (`extents`), or the sizes at hand make it a constant.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from dataclasses import replace

import numpy as np

from ...base.errors import UserError
from ...graph.nodes import Node, Tensor, TensorType
from ...graph.symbols import bounds_of
from .extents import (
    MOST_CELLS,
    Elements,
    Judge,
    Unknown,
    cells_of_array,
    evaluate,
    fixed,
    has_symbols,
    tensor_of,
)
from .values import Array, constant_of


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 16 << 30


#: Of an element that NumPy makes on the way, in the widest type.
_BYTES_OF_STEP = 8
#: No single tensor may be larger than the machine's memory.
LARGEST_TENSOR = _physical_memory()
#: A constant expression is replaced by its value if that is at most this, or
#: at most `GROWTH` times what it is made of.
SMALL = 1 << 16
GROWTH = 8
#: All such values together may take so many bytes, and `GROWTH` times the constants of the model.
MOST_MADE = 64 << 20
#: Elements that folding may read and make: about a second of NumPy, and as long as it takes to
#: prepare the weights of the model. A few nodes can ask for any amount.
FOLD_STEPS, FOLD_STEPS_EACH = 1 << 28, 64
#: To find out what an expression is made of takes as long, for each node, as so many elements.
STEPS_OF_NODE = 1 << 9


def check_size(tensor: Tensor) -> None:
    """Refuse a tensor that no memory would hold, whatever the sizes."""
    if bounds_of(tensor.type.nbytes)[0] > LARGEST_TENSOR:
        raise UserError(
            f"a tensor of type {tensor.type} would need {tensor.type.nbytes:,} bytes, "
            f"more than this machine's {LARGEST_TENSOR:,}"
        )


class Folder:
    """Knows which tensors are constant expressions, and evaluates them."""

    def __init__(self) -> None:
        self._constant: dict[Node, bool] = {}
        self._open: dict[Node, bool] = {}
        self._values: dict[Tensor, Array] = {}
        self._cells: dict[Tensor, Elements] = {}
        self._made: set[Tensor] = set()
        self._folded: set[Node | None] = set()  # constants that are made of others
        self._given: set[Node | None] = set()  # constants of the model that were met
        self._given_bytes = self._folded_bytes = self._steps = 0

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether the tensor depends on no graph input, but perhaps on their extents."""
        if tensor.node is None:
            return False
        if tensor.node not in self._constant:
            for node in self._unjudged(tensor.node):
                self._constant[node] = all(
                    t.node is not None and self._constant[t.node] for t in node.inputs
                )
                self._open[node] = _is_open(node) or any(
                    t.node is not None and self._open[t.node] for t in node.inputs
                )
        return self._constant[tensor.node]

    def is_open(self, tensor: Tensor) -> bool:
        """Whether such a tensor depends on extents without a number."""
        return self.is_constant(tensor) and tensor.node is not None and self._open[tensor.node]

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
        """The value of a constant expression; of an open one, for the sizes at hand alone."""
        if tensor.value is not None:
            return tensor.value
        if tensor not in self._values and self.is_open(tensor):
            found = self.cells(tensor, decide=True)
            if found is not None:
                values = fixed(found.reshape(-1).tolist())
                return np.array(values, tensor.dtype.numpy).reshape(found.shape)
        if tensor not in self._values:
            self._run(tensor)
        return self._values[tensor]

    def cells(self, tensor: Tensor, decide: bool) -> Elements | None:
        """The elements of a constant expression, numbers and extents; None if they are neither.

        Args:
            decide: whether the sizes at hand may answer what their bounds do not.
        """
        judge = Judge(decide)
        try:
            for node in self._unknown([tensor], self._cells):
                if self._open[node]:
                    inputs = [self._known_cells(t) for t in node.inputs]
                    self._cells[node.outputs[0]] = evaluate(node, inputs, judge)
            return self._known_cells(tensor)
        except Unknown:
            return None

    def _known_cells(self, tensor: Tensor) -> Elements:
        if tensor in self._cells:
            return self._cells[tensor]
        if self.is_open(tensor) or tensor.type.size > MOST_CELLS:
            raise Unknown
        return cells_of_array(self.evaluate(tensor))

    def _run(self, tensor: Tensor) -> None:
        values: dict[Tensor, Array] = {}
        nodes = self._unknown([tensor])
        total = sum(map(_cost, nodes))
        if total * _BYTES_OF_STEP > LARGEST_TENSOR:
            raise UserError(
                f"a value that decides the structure of the model is made of {total:,} elements, "
                "too many to be computed while it is read"
            )
        for node in nodes:
            arrays = [self._lookup(t, values) for t in node.inputs]
            types = [_fixed_type(output.type) for output in node.outputs]
            attrs = fixed(node.attrs) if has_symbols(node.attrs) else node.attrs
            results = node.op.reference(arrays, attrs, types)
            values.update(zip(node.outputs, results, strict=True))
        self._values[tensor] = values[tensor]

    def _lookup(self, tensor: Tensor, values: dict[Tensor, Array]) -> Array:
        if tensor.value is not None:
            return tensor.value
        found = values.get(tensor)
        return self._values[tensor] if found is None else found

    def _unknown(self, targets: Iterable[Tensor], known: Container[Tensor] = ()) -> list[Node]:
        """The nodes to run, producers first; what is known already is a leaf."""
        seen: set[Node] = set()
        stack = list(targets)
        while stack:
            tensor = stack.pop()
            if tensor in self._values or tensor.value is not None or tensor.node is None:
                continue
            if tensor in known:
                continue
            if tensor.node not in seen:
                seen.add(tensor.node)
                stack.extend(tensor.node.inputs)
        return sorted(seen, key=lambda node: node.serial)

    def fold(self, tensor: Tensor) -> Tensor:
        """A constant in the tensor's place where that is worth its memory, else the tensor."""
        if tensor.value is not None or not self.is_constant(tensor):
            return tensor
        if self.is_open(tensor):
            return self._fold_open(tensor)
        if not self._is_worthwhile(tensor):
            return tensor
        result = constant_of(np.asarray(self.evaluate(tensor)))
        result.name = tensor.name
        self._folded.add(result.node)
        self._values.pop(tensor, None)
        return result

    def _is_worthwhile(self, tensor: Tensor) -> bool:
        """Whether a constant may take the place of an expression; if so, it is accounted for."""
        if self._steps > self._most_steps():
            return False
        size = tensor.type.nbytes
        nodes = self._unknown([tensor])
        self._steps += STEPS_OF_NODE * len(nodes)
        leaves = self._leaves(nodes)
        if size > max(SMALL, GROWTH * leaves):
            return False
        if self._folded_bytes + size > MOST_MADE + GROWTH * self._given_bytes:
            return False
        steps = sum(map(_cost, nodes))
        if min(self._most_steps() - self._steps, LARGEST_TENSOR // _BYTES_OF_STEP) < steps:
            return False
        self._folded_bytes += size
        self._steps += steps
        return True

    def _most_steps(self) -> int:
        return FOLD_STEPS + FOLD_STEPS_EACH * self._given_bytes

    def _leaves(self, nodes: Iterable[Node]) -> int:
        """The bytes of what nodes read and do not make."""
        made = {tensor for node in nodes for tensor in node.outputs}
        leaves = {tensor for node in nodes for tensor in node.inputs} - made
        for tensor in leaves:
            node = tensor.node
            if tensor.value is not None and node not in self._folded and node not in self._given:
                self._given.add(node)
                self._given_bytes += tensor.type.nbytes
        return sum(tensor.type.nbytes for tensor in leaves)

    def _fold_open(self, tensor: Tensor) -> Tensor:
        """A list of extents in its simplest form; anything else as it is."""
        unwanted = tensor in self._made or has_symbols(tensor.shape)
        if unwanted or tensor.type.size > MOST_CELLS:
            return tensor
        found = self.cells(tensor, decide=False)
        if found is None or tensor.dtype.is_float:
            return tensor
        result = tensor_of(found, tensor.dtype)
        result.name = tensor.name
        self._cells[result] = found
        self._made.add(result)
        return result


def _is_open(node: Node) -> bool:
    return has_symbols(node.attrs) or any(has_symbols(t.shape) for t in node.outputs)


def _cost(node: Node) -> int:
    inputs, outputs = (
        [_fixed_type(t.type) for t in tensors] for tensors in (node.inputs, node.outputs)
    )
    attrs = fixed(node.attrs) if has_symbols(node.attrs) else node.attrs
    return node.op.cost(inputs, attrs, outputs)


def _fixed_type(type_: TensorType) -> TensorType:
    return replace(type_, shape=fixed(type_.shape)) if has_symbols(type_.shape) else type_
