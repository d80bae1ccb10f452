"""Products of bytes of one kind as products of unsigned bytes times signed ones.

`vpdpbusd` takes no others. Flipping the sign bits of the left operand, where it is read, adds 128
to all of it or takes as much away; what that changes is the same for all rows: 128 times the sums
of the right operand's columns, which for a constant are computed here. The left operand of a
convolution is its input, with what it is padded with, and the sums are those of its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from ..base import dtype
from . import ops
from .contractions import matmul_extents, suits_panels
from .nodes import Graph, Node, Tensor, TensorType
from .op import Attrs
from .replace import replace_nodes
from .symbols import is_symbolic
from .words import words_for

if TYPE_CHECKING:
    from .machine import Machine


#: Rows that make up for adding up columns in a kernel of its own, rather than strip by strip.
MANY_ROWS = 64


def flip_signs(graph: Graph, machine: Machine, static: Set[Tensor] = frozenset()) -> Graph:
    """The graph with products of bytes of one kind by those of both kinds, and sums.

    Products of few rows with a matrix that changes stay as they are: their kernels take bytes in
    offset binary (`words.py`).

    Args:
        static: tensors that count as constants.

    >>> from tileloom.graph.nodes import tensor_type
    >>> from tileloom.graph.machine import Machine
    >>> x, y = (Tensor(tensor_type((64, 64), "int8"), name) for name in "xy")
    >>> graph = Graph([x, y], [ops.matmul(x, y, out_dtype="int32")])
    >>> made = flip_signs(graph, Machine(features=frozenset(["avx512vnni"])))
    >>> [node.op.name for node in made.nodes]
    ['matmul', 'cast', 'reduce_sum', 'reshape', 'constant', 'mul', 'sub']
    """

    def flip(node: Node, now: Callable[[Tensor], Tensor]) -> Sequence[Tensor] | None:
        if not _flips(node, machine, static):
            return None
        return [_flipped(node, list(map(now, node.inputs)))]

    return replace_nodes(graph, flip)


def _flips(node: Node, machine: Machine, static: Set[Tensor]) -> bool:
    if node.op.name not in ("matmul", "conv") or not suits_panels(node):
        return False
    words = words_for(node, machine)
    if words is None or not words.flips:
        return False
    if node.op.name == "conv":
        return True
    if node.inputs[1].value is not None or node.inputs[1] in static:
        return True
    sizes = [n for tensor in (*node.inputs, *node.outputs) for n in tensor.shape]
    return not any(map(is_symbolic, sizes)) and matmul_extents(node)[0] >= MANY_ROWS


def _flipped(node: Node, inputs: list[Tensor]) -> Tensor:
    left, right = inputs
    result = node.outputs[0].type
    attrs = {**node.attrs, "out_dtype": dtype("int32"), "flips": True}
    types = [TensorType(result.shape, dtype("int32"))]
    (product,) = Node(node.op, [left, right], attrs, types, node.name).outputs
    sums = _window_sums(right) if node.op.name == "conv" else _column_sums(right, node.attrs)
    offset = -128 if left.dtype.is_unsigned else 128
    total = ops.sub(product, ops.mul(sums, offset))
    return total if result.dtype is total.dtype else ops.cast(total, result.dtype)


def _column_sums(right: Tensor, attrs: Attrs) -> Tensor:
    """[..., 1, columns]: the sums along the depth, as numbers where they are known."""
    transposed = bool(attrs["transpose_b"])
    axis = right.ndim - (1 if transposed else 2)
    shape = (*right.shape[:-2], 1, right.shape[-2 if transposed else -1])
    return _sums(right, (axis,), shape)


def _window_sums(weight: Tensor) -> Tensor:
    """[channels, 1, ...]: the sums of the weights of each channel of the result."""
    return _sums(weight, tuple(range(1, weight.ndim)), (weight.shape[0], *[1] * (weight.ndim - 2)))


def _sums(matrix: Tensor, axes: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    if matrix.value is not None:
        return ops.constant(matrix.value.sum(axes, dtype=np.int32).reshape(shape))
    return ops.reshape(ops.sum(ops.cast(matrix, "int32"), axis=axes), shape)
