"""What fusion saves a network: kernels, and bytes that they read and write, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tileloom.base import Target
from tileloom.driver import plan_graph
from tileloom.graph.nodes import Graph, Node, Tensor

#: These change nothing in memory; a broadcast is part of whatever reads it.
_FREE = {"constant", "reshape", "broadcast_to"}
#: These read of their first operand only what they give.
_PICKING = {"gather", "gather_elements", "gather_nd", "slice"}


@dataclass(frozen=True)
class Traffic:
    """Kernels of one run of a network, and the bytes that they read and write."""

    kernels: int
    moved: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.kernels + other.kernels, self.moved + other.moved)


def before_and_after(graphs: Sequence[Graph]) -> tuple[Traffic, Traffic]:
    """With each basic op as a kernel of its own, and as compiled."""
    before = after = Traffic(0, 0)
    for graph in graphs:
        program = plan_graph(graph, Target.host())
        touched = _Touched(program.graph.nodes)
        nodes = [node for node in program.graph.nodes if node.op.name not in _FREE]
        before += touched.all([(*node.inputs, *node.outputs) for node in nodes])
        calls = [call for segment in program.segments for call in segment.calls]
        after += touched.all([call.tensors for call in calls])
    return before, after


class _Touched:
    """How many bytes of a tensor a kernel touches."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.picked: dict[Tensor, int] = {}
        self.whole: set[Tensor] = set()
        for node in nodes:
            for k, tensor in enumerate(node.inputs):
                if k == 0 and node.op.name in _PICKING:
                    size = node.outputs[0].type.nbytes
                    self.picked[tensor] = self.picked.get(tensor, 0) + size
                elif node.op.name not in _FREE:
                    self.whole.add(tensor)

    def bytes(self, tensor: Tensor) -> int:
        """All of it, unless it is only picked from."""
        while tensor.node is not None and tensor.node.op.name == "broadcast_to":
            tensor = tensor.node.inputs[0]
        size = tensor.type.nbytes
        return size if tensor in self.whole else min(size, self.picked.get(tensor, size))

    def all(self, kernels: Iterable[Sequence[Tensor]]) -> Traffic:
        """Of kernels over these tensors."""
        sizes = [sum(map(self.bytes, dict.fromkeys(tensors))) for tensors in kernels]
        return Traffic(len(sizes), sum(sizes))


def table(rows: Sequence[tuple[str, Traffic, Traffic]]) -> str:
    """In Markdown."""
    lines = [
        "| network | kernels before | after | | MB before | after | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, before, after in rows:
        cells: list[Any] = [name, before.kernels, after.kernels]
        cells += [f"{before.kernels / max(1, after.kernels):.1f} x"]
        cells += [f"{before.moved / 1e6:.1f}", f"{after.moved / 1e6:.1f}"]
        cells += [f"{before.moved / max(1, after.moved):.1f} x"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


__all__ = ["Traffic", "before_and_after", "table"]
