"""The graph as text, one node a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .nodes import Graph, Tensor

if TYPE_CHECKING:
    from .program import Program


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


def show_groups(program: Program) -> str:
    """The kernels of a program in the order in which they run, each with what is fused in it."""
    names = {t: t.name or f"argument{k}" for k, t in enumerate(program.graph.inputs)}
    results = dict(zip(program.graph.outputs, program.graph.output_names, strict=True))
    lines = []
    for segment in program.segments:
        if segment.node is not None:
            lines.append(f"host {segment.node.op.name}{_types(segment.writes)}")
        else:
            lines.append(f"segment {segment.name}: {segment.arena_bytes} bytes of scratch memory")
        for call in segment.calls:
            *operands, result = call.tensors
            shown = [
                names.get(t) or ("constant" if t.value is not None else str(t.type))
                for t in operands
            ]
            end = f"  -> {results[result]}" if result in results else ""
            lines.append(f"  {call.kernel}({', '.join(shown)}): {result.type}{end}")
    lines.append(f"moved: {program.traffic}; with each op by itself: {program.traffic_unfused}")
    return "\n".join(lines)


def _types(tensors: tuple[Tensor, ...]) -> str:
    return f" -> {', '.join(str(t.type) for t in tensors)}"


def _brief(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
