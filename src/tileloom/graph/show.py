"""The graph as text, one node a line."""

from __future__ import annotations

from .nodes import Graph, Tensor


def show_graph(graph: Graph) -> str:
    """The graph as assignments in order, attributes in parentheses.

    Names are numbers except where the program gave one.
    """
    names: dict[Tensor, str] = {}

    def name(tensor: Tensor) -> str:
        return names.setdefault(tensor, tensor.name or f"%{len(names)}")

    header = ", ".join(f"{name(t)}: {t.type}" for t in graph.inputs)
    lines = [f"graph {graph.name}({header}):"]
    for node in graph.nodes:
        inputs = [name(t) for t in node.inputs]
        attrs = [f"{k}={_brief(v)}" for k, v in sorted(node.attrs.items())]
        results = ", ".join(f"{name(t)}: {t.type}" for t in node.outputs)
        lines.append(f"  {results} = {node.op.name}({', '.join(inputs + attrs)})")
    lines.append(f"  return {', '.join(name(t) for t in graph.outputs)}")
    return "\n".join(lines)


def _brief(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
