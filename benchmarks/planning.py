"""How long planners take for the groups of AKG's own graphs, and what becomes of these.

`python -m benchmarks.planning [FILE]` prints a table; FILE holds one graph on each line, as
`benchmarks.akg` takes them. Times are of the CPU, in one warm process: from a function of blocks
to a schedule, without lowering.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileloom.base.errors import UserError
from tileloom.frontend.akg.importer import import_composite
from tileloom.frontend.akg.source import read_source
from tileloom.graph.blocks import block_function
from tileloom.graph.expand import expand
from tileloom.graph.optimize import optimize
from tileloom.graph.partition import Group, partition
from tileloom.lower import kernels, lower
from tileloom.plan import schedule_cpu, schedule_gpu
from tileloom.schedule import Schedule
from tileloom.target import Target, target
from tileloom.tir import PrimFunc

from .akg import SAMPLE, read

#: The issue's limit of the median, in seconds.
LIMIT = 0.030
PLANNERS: Mapping[str, tuple[Callable[..., Schedule], Target]] = {
    "GPU": (schedule_gpu, target("cuda -arch=sm_80")),
    "CPU": (schedule_cpu, target("cpu -num-cores=2")),
}


@dataclass(frozen=True)
class Row:
    """A group under one planner.

    Attributes:
        where: the number of the graph, and of the group in it.
        seconds: that the plan took.
        kernels: after lowering, for a GPU; 0 if it was refused.
        refused: why, if it was.
    """

    where: tuple[int, int]
    kind: str
    seconds: float
    kernels: int
    refused: str = ""


def groups(graphs: Sequence[Any]) -> Iterator[tuple[tuple[int, int], Group]]:
    """The groups that become kernels: no views, and nothing that the host computes."""
    for k, graph in enumerate(graphs):
        plain = optimize(expand(import_composite(read_source(graph)).graph))
        for n, group in enumerate(partition(plain)):
            on_host = group.kind == "alone" and group.anchor.op.compute is None
            if not group.is_view and not on_host:
                yield (k, n), group


def plan(where: tuple[int, int], kind: str, func: PrimFunc, planner: str) -> Row:
    """One group, planned and lowered."""
    schedule, machine = PLANNERS[planner]
    start = time.process_time()
    try:
        sch = schedule(func, machine)
    except UserError as error:
        return Row(where, kind, time.process_time() - start, 0, error.message)
    seconds = time.process_time() - start
    try:
        flat = lower(sch.mod["main"], machine)
    except UserError as error:
        return Row(where, kind, seconds, 0, error.message)
    count = len(list(kernels(flat.body))) if machine.kind == "cuda" else 1
    return Row(where, kind, seconds, count)


def measure(graphs: Sequence[Any], planner: str) -> list[Row]:
    """All groups, after one has warmed the process up."""
    rows: list[Row] = []
    for where, group in groups(graphs):
        func, _ = block_function(group)
        if not rows:
            plan(where, group.kind, func, planner)
        rows.append(plan(where, group.kind, func, planner))
    return rows


def table(rows: Sequence[Row], planner: str) -> str:
    """The figures in Markdown."""
    times = sorted(row.seconds * 1e3 for row in rows)
    worst = max(rows, key=lambda row: row.seconds)
    count = len(times)
    kinds = Counter(row.kind for row in rows)
    spread = Counter(row.kernels for row in rows if row.kernels)
    lines = [
        ("groups", f"{count} ({', '.join(f'{n} {kind}' for kind, n in kinds.most_common())})"),
        ("scheduled and lowered", sum(not row.refused for row in rows)),
        ("planning time, CPU ms: median", f"{times[count // 2]:.1f} (at most {LIMIT * 1e3:.0f})"),
        ("planning time, CPU ms: 95 %", f"{times[min(int(0.95 * count), count - 1)]:.1f}"),
        ("planning time, CPU ms: worst", f"{times[-1]:.1f} (group {worst.where})"),
    ]
    if PLANNERS[planner][1].kind == "cuda":
        shown = ", ".join(f"{k}: {n}" for k, n in sorted(spread.items()))
        lines.append(("groups by number of kernels", shown))
    refused = [f"refused {row.where}: {row.refused}" for row in rows if row.refused]
    head = f"| {planner} | |\n|---|---|\n"
    return "\n".join([head + "\n".join(f"| {name} | {value} |" for name, value in lines), *refused])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--planner", choices=[*PLANNERS], action="append")
    options = parser.parse_args(arguments)
    graphs = read(options.file)
    good = True
    for planner in options.planner or PLANNERS:
        rows = measure(graphs, planner)
        print(table(rows, planner) + "\n")
        good = good and sorted(row.seconds for row in rows)[len(rows) // 2] <= LIMIT
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
