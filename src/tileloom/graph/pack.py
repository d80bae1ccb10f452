"""Weights of matrix products laid out ahead of time as the products' inner loops read them.

A product packs its right operand into panels of a few vectors' width each time it runs, unless the
operand is a constant: then the panels are made once, here. A right operand that somebody computes
once for many calls (see `hoist.py`) is packed by an op. So are the weights of a convolution that
multiplies words; those that change, in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from ..base.panels import pack_panels, pack_words
from .contractions import accumulator_of, panel_width, suits_panels
from .machine import Machine
from .nodes import Graph, Node, Tensor, TensorType
from .op import REGISTRY, apply1
from .ops import constant
from .ops.matmul import packed_type
from .replace import replace_nodes
from .words import Words, words_for


def pack_weights(graph: Graph, machine: Machine, static: Set[Tensor] = frozenset()) -> Graph:
    """The graph with constant right operands of matrix products as packed panels, and words.

    Args:
        static: tensors that count as constants; ops pack them.

    >>> import numpy as np
    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((8, 3), "float32"), "x")
    >>> product = ops.matmul(x, ops.constant(np.ones((3, 40), "float32")))
    >>> [packed] = pack_weights(Graph([x], [product]), Machine(512)).outputs
    >>> packed.node.op.name, packed.node.inputs[1]
    ('packed_matmul', Tensor(...: float32[2, 3, 32]))
    """
    panels: dict[Any, Tensor] = {}

    def pack(node: Node, now: Callable[[Tensor], Tensor]) -> Sequence[Tensor] | None:
        words = _words_of_conv(node, machine)
        if words is not None:
            return _packed_conv(node, now(node.inputs[0]), words, panels).outputs
        if not _is_packable(node, static):
            return None
        return _packed(node, now(node.inputs[0]), machine, panels).outputs

    return replace_nodes(graph, pack)


def _words_of_conv(node: Node, machine: Machine) -> Words | None:
    """The words that the weights of a convolution are put into."""
    packs = node.op.name == "conv" and suits_panels(node)
    return words_for(node, machine) if packs else None


def _packed_conv(node: Node, x: Tensor, words: Words, known: dict[Any, Tensor]) -> Node:
    weight = node.inputs[1]
    key = weight, words.parts
    if key not in known:
        known[key] = _in_words(weight, words.parts)
    attrs = {**node.attrs, "words_of": str(weight.dtype), "out_dtype": node.outputs[0].dtype}
    types = [node.outputs[0].type]
    return Node(REGISTRY["packed_conv"], [x, known[key]], attrs, types, node.name)


def _in_words(weight: Tensor, parts: int) -> Tensor:
    """Weights in words: a constant, if they are one."""
    if weight.value is None:
        return apply1("pack_words", [weight], parts=parts)
    return constant(pack_words(weight.value, parts))


def _is_packable(node: Node, static: Set[Tensor]) -> bool:
    if node.op.name != "matmul" or not suits_panels(node):
        return False
    if node.inputs[1].value is None and node.inputs[1] not in static:
        return False
    left, right = (tensor.shape for tensor in node.inputs)
    return len(right) <= len(left) and all(extent == 1 for extent in right[:-2])


def _packed(node: Node, left: Tensor, machine: Machine, panels: dict[Any, Tensor]) -> Node:
    right = node.inputs[1]
    columns = node.outputs[0].shape[-1]
    width = panel_width(columns, machine.vector_bits, accumulator_of(node))
    words = words_for(node, machine)
    parts, unit = (1, 1) if words is None else (words.parts, words.unit)
    how = node.attrs["transpose_b"], width, parts, unit
    key = right, *how
    if key not in panels:
        panels[key] = _panels(right, how)
    attrs = {
        "transpose_a": node.attrs["transpose_a"],
        "columns": columns,
        "out_dtype": node.attrs["out_dtype"],
        "words_of": None if words is None else str(right.dtype),
        **({"flips": True} if node.attrs.get("flips") else {}),
    }
    types = [node.outputs[0].type]
    return Node(REGISTRY["packed_matmul"], [left, panels[key]], attrs, types, node.name)


def _panels(right: Tensor, how: tuple[bool, int, int, int]) -> Tensor:
    """A matrix as panels: a constant, if it is one."""
    shape, matrix = right.shape[-2:], right.value
    if matrix is None:
        flat = right if right.ndim == 2 else apply1("reshape", [right], shape=shape)
        transposed, width, parts, unit = how
        return apply1(
            "pack_panels", [flat], transposed=transposed, width=width, parts=parts, unit=unit
        )
    array = pack_panels(matrix.reshape(shape), *how)
    attrs = {"value": array, "panels_of": (matrix, *how)}
    type_ = TensorType(array.shape, packed_type(right.dtype, how[2]))
    return Node(REGISTRY["constant"], (), attrs, [type_]).outputs[0]
