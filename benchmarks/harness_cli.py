"""The command line shared by all benchmark files."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import harness, harness_report
from .harness import Workload

# One thread count for every peer's pool. NumPy's OpenBLAS reads its variable at import only.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TILELOOM_NUM_THREADS",
)
# OpenBLAS's threads spin for 0.1 s after a product, on a core that the next peer's threads want and
# then stay away from: 2^20 cycles keep them awake between its own calls.
# Those of Intel's OpenMP, under MKL, spin for 0.2 s, a time in milliseconds.
_CALM = {"OPENBLAS_THREAD_TIMEOUT": "20", "KMP_BLOCKTIME": "20"}


def with_threads(count: int) -> None:
    """Start this program anew with every pool at `count` threads, on as many CPUs."""
    wanted = dict.fromkeys(THREAD_VARIABLES, str(count)) | _CALM
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **wanted})


def parser(description: str) -> argparse.ArgumentParser:
    """The options that every benchmark file takes."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--only", action="append", metavar="PATTERN", help="workloads by name")
    result.add_argument("--peers", metavar="A,B", help="peers that take part")
    result.add_argument("--with", dest="extra", default="", metavar="A,B", help="optional peers")
    result.add_argument("--threads", type=int, default=2)
    result.add_argument("--rounds", type=int, default=15)
    result.add_argument("--seconds", type=float, default=30.0, help="limit for one workload")
    result.add_argument("--seed", type=int, default=0)
    result.add_argument("--markdown", type=Path, help="also write the table here")
    result.add_argument("--json", type=Path, help="also write all samples here")
    result.add_argument("--list", action="store_true", help="print the workloads and stop")
    return result


def select(workloads: Sequence[Workload], patterns: Sequence[str] | None) -> list[Workload]:
    """The workloads whose name fits one of the shell patterns."""
    if not patterns:
        return list(workloads)
    return [w for w in workloads if any(fnmatch.fnmatch(w.name, p) for p in patterns)]


def main(
    description: str,
    make_workloads: Callable[[Sequence[str]], list[Workload]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run what the command line asks for.

    Args:
        make_workloads: from the names of the optional peers to the workloads.

    Returns:
        The exit status: 1 when a peer was wrong or failed, 2 when nothing was selected.
    """
    options = parser(description).parse_args(arguments)
    extra = [name for name in options.extra.split(",") if name]
    workloads = select(make_workloads(extra), options.only)
    if options.list or not workloads:
        print("\n".join(w.name for w in workloads) or "no workload of that name")
        return 0 if workloads else 2
    with_threads(options.threads)
    effort = harness.Effort(rounds=options.rounds, seconds=options.seconds, seed=options.seed)
    peers = options.peers.split(",") if options.peers else None
    rows = harness.run(workloads, peers, effort, log=lambda text: print(text, file=sys.stderr))
    facts = harness_report.machine()
    text = f"{harness_report.describe(facts)}\n\n{harness_report.markdown(rows)}"
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(harness_report.to_json(rows, facts))
    return int(any(c.status in ("wrong", "failed") for row in rows for c in row.cells.values()))
