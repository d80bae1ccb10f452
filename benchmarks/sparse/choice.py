"""Whether the automatic choice of a kernel ever costs: `python -m benchmarks.sparse.choice`.

Graphs of many laws: exponents of the degrees, mean degrees, shares of edges near their row. Where
the choice is to go through the rows there is nothing to lose; where it is another one both are
timed. `--results` writes RESULTS-sparse-choice.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import harness, harness_cli, harness_report, results
from ..harness import Workload
from . import cases, graphs, peers, report

RESULTS = Path(__file__).parents[1] / "RESULTS-sparse-choice.md"
ROWS = 1 << 14
ALPHA = (2.0, 2.5, 3.0, 5.0, 9.0)
DEGREE = (4, 32, 256)
LOCAL = (0.0, 0.5, 0.95)
_HEAD = """# The automatic choice of a kernel for sparse times dense

Made by `python -m benchmarks.sparse.choice --results`; nothing is edited by hand.

Machine: {machine}

Square matrices of {rows} rows by the laws of `graphs.py`: exponents {alpha}, mean degrees {degree},
shares of edges near their row {local}; {width} features. In {plain} of {total} cases the choice is
to go through the rows. In the others, below, both were timed; no choice may be more than 5 % slower
than rows.

"""


def laws() -> Iterator[tuple[str, graphs.Law]]:
    """Names and laws."""
    for alpha, degree, local in itertools.product(ALPHA, DEGREE, LOCAL):
        most = min(ROWS // 2, 40 * degree)
        law = graphs.Law(ROWS, ROWS * degree, alpha, most, local=local)
        yield f"alpha {alpha:g}, degree {degree}, near {local:g}", law


def workload(name: str, graph: graphs.Graph, width: int) -> Workload:
    """A product, by what is chosen and by rows."""

    def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
        x = rng.standard_normal((graph.rows, width), np.float32)
        return graph.indptr, graph.indices, graph.data, x

    most = int(np.diff(graph.indptr).max())
    return Workload(
        f"{name}, {width}", inputs, cases.product, peers.CHOICE, atol=cases.ERROR * most**0.5
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 where a choice cost more than 5 %."""
    from tileloom.frontend.sparse.spmm_plan import planned
    from tileloom.frontend.sparse.structure import Structure

    parser = harness_cli.parser(__doc__ or "")
    parser.add_argument("--results", action="store_true", help="write RESULTS-sparse-choice.md")
    chosen = parser.parse_args(arguments)
    harness_cli.with_threads(chosen.threads)
    effort = harness.Effort(chosen.rounds, 3, chosen.seconds, seed=chosen.seed, noise=results.QUIET)
    rows, total = [], 0
    for name, law in laws():
        graph = graphs.kept(f"{name}, {ROWS}", law)
        structure = Structure(graph.indptr, graph.indices, (graph.rows, graph.rows))
        for width in cases.WIDTHS:
            total += 1
            if planned(structure, width, np.dtype("float32")).format != "rows":
                timed = [workload(name, graph, width)]
                rows += harness.run(
                    timed, None, effort, log=lambda text: print(text, file=sys.stderr)
                )
    table = report.Table("Choices other than rows", "", (report.Bar("rows", 1.0, 0.95),))
    text = _HEAD.format(
        machine=harness_report.describe(harness_report.machine()), rows=ROWS, width=cases.WIDTHS,
        alpha=ALPHA, degree=DEGREE, local=LOCAL, total=total, plain=total - len(rows),
    ) + report.markdown(table, rows, 0.0)  # fmt: skip
    print(text)
    if chosen.results:
        RESULTS.write_text(text)
    return int(any(report.ratio(row, "rows") < 0.95 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
