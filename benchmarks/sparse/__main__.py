"""Sparse kernels on graphs: `python -m benchmarks.sparse [--only 'spmm_*_32'] [--results]`.

Each result is compared with float64 before it is timed; all peers of a case run in turns within one
process. Packages that are missing are named. `--results` writes RESULTS-sparse.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import harness, harness_cli, harness_report, results
from . import cases, native, report

RESULTS = Path(__file__).parents[1] / "RESULTS-sparse.md"
_HEAD = """# Sparse results on a CPU

Made by `python -m benchmarks.sparse --results`; nothing is edited by hand.

Machine: {machine}

Graphs are synthetic: `graphs.py` draws twins of seven known ones (rows, edges, degrees, locality),
proteins and reddit cut down to a quarter and a sixteenth. All peers of a case run in turns within
one process, in random order, each checked against float64 first. Cells: medians in ms, unless said
otherwise. `best : tileloom`: how many times as fast as the best of the others of that case we are,
by medians (by minima). Absolute times drift with the machine; judge the ratios. `foreign`: cores
that other processes kept busy; rounds above {quiet} are made again while there is time.

`of triad`: bytes of all operands and of the result, each counted once, over our time, as a part of
the {triad:.1f} GB/s of c = a + 3 b on arrays of 256 MiB ({by}). More than what operands in a cache
allow is not asked: gathers read rows of features again and again.

MKL, C and Numba write into an array that is there, as ours does in SpMM and SDDMM; SciPy and
PyTorch return new ones. C is `kernels.c`, compiled with {flags}.

"""


def options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = harness_cli.parser(__doc__ or "")
    parser.add_argument("--results", action="store_true", help="write RESULTS-sparse.md")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 where a peer was wrong or failed, 2 where nothing has that name."""
    chosen = options(arguments)
    workloads = harness_cli.select(cases.workloads(), chosen.only)
    if chosen.list or not workloads:
        print("\n".join(w.name for w in workloads) or "no workload of that name")
        return 0 if workloads else 2
    harness_cli.with_threads(chosen.threads)
    speed, by = report.triad()
    effort = harness.Effort(chosen.rounds, 3, chosen.seconds, seed=chosen.seed, noise=results.QUIET)
    peers = chosen.peers.split(",") if chosen.peers else None
    rows = harness.run(workloads, peers, effort, log=lambda text: print(text, file=sys.stderr))
    facts = harness_report.machine()
    text = _HEAD.format(
        machine=harness_report.describe(facts), quiet=results.QUIET, triad=speed / 1e9, by=by,
        flags=" ".join(native.FLAGS),
    ) + report.page(rows, speed)  # fmt: skip
    print(text)
    for path in filter(None, (chosen.markdown, RESULTS if chosen.results else None)):
        path.write_text(text)
    if chosen.json:
        chosen.json.write_text(harness_report.to_json(rows, facts))
    return int(any(c.status in ("wrong", "failed") for row in rows for c in row.cells.values()))


if __name__ == "__main__":
    sys.exit(main())
