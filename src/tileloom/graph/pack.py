"""Weights of matrix products laid out ahead of time as the products' inner loops read them.

A product packs its right operand into panels of a few vectors' width each time it runs, unless the
operand is a constant: then the panels are made once, here.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import InternalError
from ..base.panels import pack_panels
from .nodes import Graph, Node, Tensor, TensorType
from .op import REGISTRY
from .to_tir.gemm_plan import choose_microkernel, panel_width
from .to_tir.kernel import Machine
from .to_tir.products import accumulator_of, matmul_extents, suits_panels


def pack_weights(graph: Graph, machine: Machine) -> Graph:
    """The graph with constant right operands of matrix products as packed panels.

    >>> import numpy as np
    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((8, 3), "float32"), "x")
    >>> product = ops.matmul(x, ops.constant(np.ones((3, 40), "float32")))
    >>> [packed] = pack_weights(Graph([x], [product]), Machine(512)).outputs
    >>> packed.node.op.name, packed.node.inputs[1]
    ('packed_matmul', Tensor(...: float32[2, 3, 32]))
    """
    now: dict[Tensor, Tensor] = {}
    panels: dict[Any, Tensor] = {}
    for node in graph.nodes:
        inputs = [now.get(tensor, tensor) for tensor in node.inputs]
        fresh = node
        if _is_packable(node):
            fresh = _packed(node, inputs[0], machine, panels)
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            types = [tensor.type for tensor in node.outputs]
            fresh = Node(node.op, inputs, node.attrs, types, node.name)
        if fresh is not node:
            now.update(zip(node.outputs, fresh.outputs, strict=True))
    outputs = [now.get(tensor, tensor) for tensor in graph.outputs]
    return Graph(graph.inputs, outputs, graph.output_names, graph.name)


def _is_packable(node: Node) -> bool:
    if node.op.name != "matmul" or node.inputs[1].value is None or not suits_panels(node):
        return False
    left, right = (tensor.shape for tensor in node.inputs)
    return len(right) <= len(left) and all(extent == 1 for extent in right[:-2])


def _packed(node: Node, left: Tensor, machine: Machine, panels: dict[Any, Tensor]) -> Node:
    right, matrix = node.inputs[1], node.inputs[1].value
    if matrix is None:
        raise InternalError(f"{node} has no constant to pack")
    columns = node.outputs[0].shape[-1]
    total, kinds = accumulator_of(node), [tensor.dtype for tensor in node.inputs]
    width = panel_width(columns, machine.vector_bits, total)
    micro = choose_microkernel(kinds, total, matmul_extents(node), machine)
    transposed = node.attrs["transpose_b"]
    how = transposed, width, micro.parts, micro.steps
    key = right, *how
    if key not in panels:
        array = pack_panels(matrix.reshape(right.shape[-2:]), *how)
        attrs = {"value": array, "panels_of": (matrix, *how)}
        type_ = TensorType(array.shape, right.dtype if micro.parts == 1 else micro.packed)
        panels[key] = Node(REGISTRY["constant"], (), attrs, [type_]).outputs[0]
    attrs = {
        "transpose_a": node.attrs["transpose_a"],
        "columns": columns,
        "out_dtype": node.attrs["out_dtype"],
        "words_of": None if micro.parts == 1 else str(right.dtype),
    }
    types = [node.outputs[0].type]
    return Node(REGISTRY["packed_matmul"], [left, panels[key]], attrs, types, node.name)
