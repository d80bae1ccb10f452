"""What becomes of AKG's own graphs: kernels, compile time, memory traffic.

`python -m benchmarks.akg [FILE]` prints a table; FILE holds one graph on each line (gzipped or
not), as records with the key `graph` or as graphs. Compile times are of the CPU, in one warm
process, with nothing taken from the cache of compiled kernels. `--kernels FILE` writes the
kernels of all graphs that have more than one; `--profile` shows where compile time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import gzip
import json
import pstats
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileloom.base.settings import override
from tileloom.driver import plan_graph
from tileloom.frontend.akg import Model, load
from tileloom.graph.inplace import write_in_place
from tileloom.graph.partition import partition
from tileloom.graph.program import Program
from tileloom.graph.show import show_groups
from tileloom.graph.traffic import traffic_of, traffic_unfused
from tileloom.target import Target

SAMPLE = Path(__file__).resolve().parents[2] / "shared" / "data" / "akg-graphs-sample.jsonl.gz"
#: The issue's limits: of the median and of the worst compile time, in seconds; kernels per graph.
LIMITS = 0.150, 3.0, 1.15


@dataclass(frozen=True)
class Row:
    """A graph.

    Attributes:
        seconds: of the CPU, to compile.
        unfused, moved, ideal: bytes that kernels would read and write if each operator were one,
            that they do, and that they must.
        replaced, in_place: inputs that get new values, and how many of them without a copy.
    """

    name: str
    ops: int
    kernels: int
    seconds: float
    unfused: int
    moved: int
    ideal: int
    replaced: int
    in_place: int


def read(path: Path) -> list[dict[str, Any]]:
    """The graphs in a file."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


def compiled(graph: dict[str, Any]) -> tuple[Model, float]:
    """A model and the CPU time that it took."""
    start = time.process_time()
    model = load(graph)
    return model, time.process_time() - start


def needed(program: Program) -> int:
    """The bytes of what is read from outside and written for it, each once."""
    outside: dict[Any, int] = {}
    inputs = set(program.graph.inputs)
    for segment in program.segments:
        outside.update({t: t.type.nbytes for t in segment.reads if t in inputs})
        outside.update({t: t.type.nbytes for t in segment.writes})
    return sum(outside.values())


def measure(graphs: Sequence[dict[str, Any]]) -> tuple[list[Row], list[str]]:
    """All graphs, after one has warmed the process up; and their kernels as text."""
    rows, texts = [], []
    with override(cache=False):
        compiled(graphs[0])
        for graph in graphs:
            model, seconds = compiled(graph)
            program = plan_graph(model.graph, Target.host())
            groups = partition(program.graph)
            why = [f"  not one: {refusal}" for refusal in groups.refusals]
            texts.append("\n".join([show_groups(program), *why]))
            ideal, replaced = needed(program), len(model.replaced)
            in_place = len(write_in_place(program, model.replaced))
            rows.append(
                Row(
                    model.name, len(graph.get("graph", graph)["op_desc"]), program.kernel_count,
                    seconds, traffic_unfused(program.graph).total, traffic_of(groups).total,
                    ideal, replaced, in_place,
                )
            )  # fmt: skip
    return rows, texts


def table(rows: Sequence[Row]) -> str:
    """The figures in Markdown."""
    count, kernels = len(rows), sum(row.kernels for row in rows)
    ops = sum(row.ops for row in rows)
    times = sorted(row.seconds * 1e3 for row in rows)
    names = ("unfused", "moved", "ideal", "replaced", "in_place")
    unfused, moved, ideal, replaced, in_place = (sum(getattr(r, n) for r in rows) for n in names)
    spread = ", ".join(f"{k}: {n}" for k, n in sorted(Counter(r.kernels for r in rows).items()))
    p95 = times[min(int(0.95 * count), count - 1)]
    worst = max(rows, key=lambda row: row.seconds)
    lines = [
        ("graphs", count),
        ("operators", ops),
        ("kernels", f"{kernels} (at most {int(count * LIMITS[2])})"),
        ("graphs by number of kernels", spread),
        ("operators per kernel", f"{ops / kernels:.2f}"),
        ("compile time, CPU ms: median", f"{times[count // 2]:.0f} (under {LIMITS[0] * 1e3:.0f})"),
        ("compile time, CPU ms: 95 %", f"{p95:.0f}"),
        ("compile time, CPU ms: worst", f"{times[-1]:.0f} (under {LIMITS[1] * 1e3:.0f})"),
        ("", worst.name),
        ("GB moved if each operator were a kernel", f"{unfused / 1e9:.2f}"),
        ("GB moved by kernels", f"{moved / 1e9:.2f}"),
        ("GB if everything were read and written once", f"{ideal / 1e9:.2f}"),
        ("moved / ideal", f"{moved / ideal:.3f}"),
        ("inputs replaced, of these in place", f"{replaced}, {in_place}"),
    ]
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in lines)


def listing(rows: Sequence[Row], texts: Sequence[str]) -> str:
    """The kernels of graphs that have more than one, most first."""
    parts = [table(rows)]
    chosen = [k for k, row in enumerate(rows) if row.kernels > 1]
    for k in sorted(chosen, key=lambda k: (-rows[k].kernels, k)):
        title = f"== {rows[k].kernels} kernels: graph {k} {rows[k].name}"
        parts.append(f"{title}\n{texts[k]}")
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--slowest", type=int, default=0, help="how many graphs to list by time")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    graphs = read(options.file)
    if options.profile:
        profiler = cProfile.Profile()
        with override(cache=False):
            compiled(graphs[0])
            profiler.runcall(lambda: [load(graph) for graph in graphs])
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        return 0
    rows, texts = measure(graphs)
    print(table(rows))
    for row in sorted(rows, key=lambda row: -row.seconds)[: options.slowest]:
        print(f"{row.seconds * 1e3:6.0f} ms  {row.ops:3} ops  {row.kernels} kernels  {row.name}")
    if options.kernels:
        options.kernels.write_text(listing(rows, texts))
    times = sorted(row.seconds for row in rows)
    met = (
        times[len(times) // 2] < LIMITS[0],
        times[-1] < LIMITS[1],
        sum(row.kernels for row in rows) <= LIMITS[2] * len(rows),
    )
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
