"""Whether the automatic choice of a kernel ever costs: `python -m benchmarks.sparse.choice`.

Graphs of many laws: exponents of the degrees, mean degrees, shares of edges near their row; and
matrices whose elements lie in blocks, as those of pruned weights and of finite elements. Where the
choice is to go through the rows there is nothing to lose; where it is another one both are
timed. `--results` writes RESULTS-sparse-choice.md.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from .. import harness, harness_cli, harness_report, results
from ..harness import Workload
from . import cases, graphs, peers, report

RESULTS = Path(__file__).parents[1] / "RESULTS-sparse-choice.md"
ROWS = 1 << 14
ALPHA = (2.0, 2.5, 3.0, 5.0, 9.0)
DEGREE = (4, 32, 256)
LOCAL = (0.0, 0.5, 0.95)
BLOCKED_ROWS = 6144
BLOCKS = (3, 4, 8, 16, 32)
FILLINGS = (0.3, 0.6, 1.0)
#: Places that blocks have in a row, on average.
PLACES = (32, 256)
_HEAD = """# The automatic choice of a kernel for sparse times dense

Made by `python -m benchmarks.sparse.choice --results`; nothing is edited by hand.

Machine: {machine}

Square matrices of {rows} rows by the laws of `graphs.py`: exponents {alpha}, mean degrees {degree},
shares of edges near their row {local}; and of {blocked} rows with random blocks of {blocks} that
are filled to {fillings} and have {places} places in a row. {width} features. In {plain} of {total}
cases the choice is to go through the rows. In the others, below, both were timed; no choice may be
more than 5 % slower than rows.

"""


def laws() -> Iterator[tuple[str, graphs.Law]]:
    """Names and laws."""
    for alpha, degree, local in itertools.product(ALPHA, DEGREE, LOCAL):
        most = min(ROWS // 2, 40 * degree)
        law = graphs.Law(ROWS, ROWS * degree, alpha, most, local=local)
        yield f"alpha {alpha:g}, degree {degree}, near {local:g}", law


def drawn() -> Iterator[tuple[str, graphs.Graph]]:
    """Names and matrices."""
    for name, law in laws():
        yield name, graphs.kept(f"{name}, {ROWS}", law)
    for edge, filling, places in itertools.product(BLOCKS, FILLINGS, PLACES):
        yield f"block {edge}, filling {filling:g}, places {places}", block(edge, filling, places)


def block(edge: int, filling: float, places: int, rows: int = BLOCKED_ROWS) -> graphs.Graph:
    """A matrix whose elements lie in blocks.

    Args:
        edge: of a block.
        filling: the part of each that are elements.
        places: that blocks have in a row, on average.
        rows: as many as columns.
    """
    rng = np.random.default_rng(edge)
    there = scipy.sparse.csr_array(rng.random((rows // edge, rows // edge)) < places / rows)
    data = rng.standard_normal((there.nnz, edge, edge), np.float32)
    data[rng.random(data.shape) >= filling] = 0
    found = scipy.sparse.bsr_array((data, there.indices, there.indptr), shape=(rows, rows)).tocsr()
    found.eliminate_zeros()
    indptr, indices = (a.astype(np.int32) for a in (found.indptr, found.indices))
    return graphs.Graph(indptr, indices, found.data)


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
    for name, graph in drawn():
        structure = Structure(graph.indptr, graph.indices, (graph.rows, graph.rows))
        works = [(width, workload(name, graph, width)) for width in cases.WIDTHS]
        for width, work in works:
            if not harness_cli.select([work], chosen.only):
                continue
            total += 1
            if planned(structure, width, np.dtype("float32")).format != "rows":
                rows += harness.run(
                    [work], None, effort, log=lambda text: print(text, file=sys.stderr)
                )
    table = report.Table("Choices other than rows", "", (report.Bar("rows", 1.0, 0.95),))
    text = _HEAD.format(
        machine=harness_report.describe(harness_report.machine()), rows=ROWS, width=cases.WIDTHS,
        alpha=ALPHA, degree=DEGREE, local=LOCAL, total=total, plain=total - len(rows),
        blocked=BLOCKED_ROWS, blocks=BLOCKS, fillings=FILLINGS, places=PLACES,
    ) + report.markdown(table, rows, 0.0)  # fmt: skip
    print(text)
    if chosen.results:
        RESULTS.write_text(text)
    return int(any(report.ratio(row, "rows") < 0.95 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
