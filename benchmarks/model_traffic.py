"""What fusion saves a network: kernels, and bytes that they read and write, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tileloom.driver import plan_graph
from tileloom.graph.nodes import Graph
from tileloom.graph.traffic import Traffic
from tileloom.target import Target


@dataclass(frozen=True)
class Moved:
    """Kernels of one run of a network, and the bytes that they read and write."""

    kernels: int
    bytes: int


def before_and_after(graphs: Sequence[Graph]) -> tuple[Moved, Moved]:
    """With each basic op as a kernel of its own, and as compiled."""
    programs = [plan_graph(graph, Target.host()) for graph in graphs]
    return _sum(p.traffic_unfused for p in programs), _sum(p.traffic for p in programs)


def _sum(parts: Iterable[Traffic]) -> Moved:
    listed = list(parts)
    return Moved(sum(len(p.kernels) for p in listed), sum(p.total for p in listed))


def table(rows: Sequence[tuple[str, Moved, Moved]]) -> str:
    """In Markdown."""
    lines = [
        "| network | kernels before | after | | MB before | after | |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, before, after in rows:
        cells: list[Any] = [name, before.kernels, after.kernels]
        cells += [f"{before.kernels / max(1, after.kernels):.1f} x"]
        cells += [f"{before.bytes / 1e6:.1f}", f"{after.bytes / 1e6:.1f}"]
        cells += [f"{before.bytes / max(1, after.bytes):.1f} x"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


__all__ = ["Moved", "before_and_after", "table"]
