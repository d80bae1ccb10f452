"""A graph as lines that stay comparable from step to step: constants stand where they are read."""

from __future__ import annotations

from typing import Any

from ..graph.nodes import Graph, Node, Tensor

_LONGEST = 60


def listing(graph: Graph) -> list[str]:
    """The inputs, the nodes and the outputs, a line each.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2, 3), "float32"), "x")
    >>> print(*listing(Graph([x], [ops.sum(ops.mul(x, 2.0), 1)], ["total"])), sep="\\n")
    input x: float32[2, 3]
    %0: float32[2, 3] = mul(x, 2.0)
    %1: float32[2] = reduce_sum(%0, axis=(1,), keepdims=False)
    output total = %1
    """
    names: dict[Tensor, str] = {}
    for k, tensor in enumerate(graph.inputs):
        names[tensor] = tensor.name or f"argument{k}"
    lines = [f"input {names[t]}: {t.type}" for t in graph.inputs]
    number = 0
    for node in graph.nodes:
        if node.op.name == "constant":
            names[node.outputs[0]] = _constant(node)
            continue
        for tensor in node.outputs:
            names[tensor] = tensor.name or f"%{number}"
            number += not tensor.name
        results = ", ".join(f"{names[t]}: {t.type}" for t in node.outputs)
        parts = [names[t] for t in node.inputs]
        parts += [f"{key}={_brief(value)}" for key, value in sorted(node.attrs.items())]
        lines.append(f"{results} = {node.op.name}({', '.join(parts)})")
    pairs = zip(graph.output_names, graph.outputs, strict=True)
    return lines + [f"output {name} = {names[t]}" for name, t in pairs]


def _constant(node: Node) -> str:
    value = node.attrs["value"]
    if value.size == 1 and value.ndim == 0:
        return str(value.item())
    return f"constant {node.outputs[0].type}"


def _brief(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    text = repr(value).replace("\n", " ")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
