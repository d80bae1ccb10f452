"""Writes RESULTS-models.md: speeds, bars, what fusion saves, how long compiling takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import harness, harness_cli, harness_report, model_compile, model_traffic
from .harness import Row
from .results import QUIET

if TYPE_CHECKING:
    from .models import Network

_HEAD = """# Networks under torch.compile, on a CPU

Made by `python -m benchmarks.models --results`; nothing is edited by hand.

Machine: {machine}

`_rest` is a network without its matrix products and convolutions: their results in the network are
given as inputs, and what they would read are the outputs (`benchmarks/model_parts.py`). All peers
of a row run in turns within one process, each checked against float64 first. Cells: median ms (in
multiples of the row's best). `tileloom : peer`: how many times as fast as the peer, by medians (by
minima). The C library keeps the memory that peers free, so that none pays for fresh pages on every
call. Rounds in which other processes kept more than {quiet} cores busy are made again while there
is time; `foreign` is what remains.

"""

_TRAFFIC = """
## What fusion saves

Kernels in one run, and megabytes that they read and write, counted by the compiler: with each basic
op as a kernel of its own (reshapes and broadcasts are none), and as compiled. What a product reads
again from its caches is not counted.

"""

_COMPILING = """
## Compiling

Seconds from the call of torch.compile to the first result, PyTorch's tracing included, each in a
fresh process: cold with empty caches on disk, warm after another process did the same.

"""


def write(
    path: Path,
    networks: Mapping[str, Network],
    workloads: Sequence[harness.Workload],
    bars: Mapping[str, float],
    arguments: Sequence[str],
) -> int:
    """Measure everything and write the page."""
    options = harness_cli.parser("writes RESULTS-models.md").parse_args(arguments)
    harness_cli.with_threads(options.threads)
    log = _log
    chosen = harness_cli.select(workloads, options.only)
    compiled = model_compile.measure(
        [w.name for w in chosen if w.name.endswith("_b1")], ("tileloom", "inductor")
    )
    log(model_compile.table(compiled))
    effort = harness.Effort(options.rounds, 3, options.seconds, seed=options.seed, noise=QUIET)
    rows, traffic = [], []
    for workload in chosen:
        rows += harness.run([workload], None, effort, log)
        network = networks[workload.name]
        traffic.append((workload.name, *model_traffic.before_and_after(network.graphs())))
        network.made = None  # its arrays are large
    machine = harness_report.describe(harness_report.machine())
    page = _HEAD.format(machine=machine, quiet=QUIET)
    page += harness_report.markdown(rows) + "\n## Bars\n\n" + bar_table(rows, bars)
    page += _TRAFFIC + model_traffic.table(traffic)
    path.write_text(page + _COMPILING + model_compile.table(compiled))
    return int(any(c.status in ("wrong", "failed") for row in rows for c in row.cells.values()))


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def bar_table(rows: Sequence[Row], bars: Mapping[str, float]) -> str:
    """Whether the parts without products are as fast as asked, against each peer."""
    lines = ["| workload | peer | asked | by medians | by minima | |", "|---|---|---|---|---|---|"]
    for row in rows:
        ours = row.cells["tileloom"]
        for peer, bar in bars.items():
            theirs = row.cells.get(peer)
            if not row.workload.name.endswith("_rest") or theirs is None or not theirs.samples:
                continue
            if not ours.samples:
                lines.append(f"| {row.workload.name} | {peer} | {bar} | {ours.status} | | |")
                continue
            median, least = theirs.median / ours.median, theirs.minimum / ours.minimum
            verdict = "met" if median >= bar else "**missed**"
            lines.append(
                f"| {row.workload.name} | {peer} | {bar} | {median:.2f} | {least:.2f} | {verdict} |"
            )
    return "\n".join(lines) + "\n"


__all__ = ["bar_table", "write"]
