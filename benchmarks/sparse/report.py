"""Tables of sparse kernels: ours against the fastest of the others, case by case, and means."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..harness import Call, Cell, Row, Skip
from . import native

SUBJECT = "tileloom"
Measure = Callable[[Cell], float]


@dataclass(frozen=True)
class Bar:
    """What is asked of a table.

    Attributes:
        against: peers by the beginning of their names; "" for all of them.
        least: the least ratio, best of these over ours, in any case.
        mean: the least geometric mean of it.
    """

    against: str
    mean: float
    least: float = 0.0


@dataclass(frozen=True)
class Table:
    """The cases whose name begins so."""

    title: str
    prefix: str
    bars: tuple[Bar, ...] = ()
    unit: str = "ms"
    limit: float = math.inf  # of our time, in that unit


TABLES = (
    Table("What a call costs (100 rows, 500 edges, K = 16), us", "spmm_call sddmm_call",
          unit="us", limit=20.0),
    Table("SpMM: a graph's matrix times features", "spmm", (Bar("", 1.15, 0.95),)),
    Table("SpMV: a graph's matrix times a vector", "spmv", (Bar("", 1.0),)),
    Table("SDDMM: dot products along the edges", "sddmm", (Bar("torch", 2.0), Bar("", 1.2))),
    Table("Attention along the edges: one call against three", "attention", (Bar("torch", 2.0),)),
    Table("SpGEMM: a graph's matrix times itself", "spgemm",
          (Bar("scipy", 2.0), Bar("mkl sorted", 1.0))),
    Table("Blocks of 32 x 32, K = 512", "blocks", (Bar("dense", 3.0), Bar("mkl", 1.5))),
)  # fmt: skip


def page(rows: Sequence[Row], triad: float) -> str:
    """All tables that have rows; a row is in the first that its name fits."""
    left, parts = list(rows), []
    for table in TABLES:
        taken = [r for r in left if r.workload.name.startswith(tuple(table.prefix.split()))]
        left = [r for r in left if r not in taken]
        if taken:
            parts.append(f"## {table.title}\n\n{markdown(table, taken, triad)}")
    return "\n".join(parts)


def markdown(table: Table, rows: Sequence[Row], triad: float) -> str:
    """A table, its means, and its bars."""
    peers = list(dict.fromkeys(p for r in rows for p in r.cells if p != SUBJECT))
    peers = [p for p in peers if any(r.cells[p].samples for r in rows if p in r.cells)]
    head = ["case", SUBJECT, "of triad", *peers, "best other", "best : tileloom", "foreign"]
    lines = [_line(head), _line(["---"] * len(head))]
    lines += [_row(table, row, peers, triad) for row in rows]
    lines += [*_means(rows, peers), *_bars(table, rows), *_left_out(rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(table: Table, row: Row, peers: Sequence[str], triad: float) -> str:
    scale = {"ms": 1e3, "us": 1e6}[table.unit]
    ours = row.cells.get(SUBJECT)
    moved, best = row.workload.moved, _best(row, "", _median)
    share = ""
    if ours and ours.samples and moved and triad:
        share = f"{moved / ours.median / triad:.0%}"
    return _line([
        row.workload.name, _time(ours, scale), share,
        *(_time(row.cells.get(peer), scale) for peer in peers),
        best.peer if best else "", _both(row), f"{row.foreign:.2f}",
    ])  # fmt: skip


def _time(cell: Cell | None, scale: float) -> str:
    if cell is None or cell.status == "skipped":
        return ""
    return f"{cell.median * scale:.3g}" if cell.samples else cell.status


def _both(row: Row) -> str:
    median, minimum = ratio(row, "", _median), ratio(row, "", _minimum)
    return "" if math.isnan(median) else f"{median:.2f} ({minimum:.2f})"


def _median(cell: Cell) -> float:
    return cell.median


def _minimum(cell: Cell) -> float:
    return cell.minimum


def _best(row: Row, prefix: str, measure: Measure) -> Cell | None:
    """The fastest of the others whose name begins so."""
    others = [
        cell for name, cell in row.cells.items()
        if name != SUBJECT and name.startswith(prefix) and cell.samples
    ]  # fmt: skip
    return min(others, key=measure, default=None)


def ratio(row: Row, prefix: str, measure: Measure = _median) -> float:
    """How many times as fast as the best of those peers ours is; NaN where one is missing."""
    ours, best = row.cells.get(SUBJECT), _best(row, prefix, measure)
    if ours is None or best is None or not ours.samples:
        return math.nan
    return measure(best) / measure(ours)


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean of those that there are."""
    known = [r for r in ratios if not math.isnan(r)]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def _means(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    """One line: the geometric means of others' times over ours."""
    if all(math.isnan(ratio(row, "")) for row in rows):
        return []
    found = {"best of them": mean([ratio(row, "") for row in rows])}
    for peer in peers:
        alone = [Row(r.workload, _two(r, peer), r.foreign) for r in rows]
        found[peer] = mean([ratio(row, "") for row in alone])
    text = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    return ["", f"Geometric means of others' medians over ours: {text}."]


def _two(row: Row, peer: str) -> dict[str, Cell]:
    return {name: cell for name, cell in row.cells.items() if name in (SUBJECT, peer)}


def _bars(table: Table, rows: Sequence[Row]) -> list[str]:
    lines = []
    for bar in table.bars:
        ratios = [ratio(row, bar.against) for row in rows]
        known = [r for r in ratios if not math.isnan(r)]
        if not known:
            continue
        who = f"the best of {bar.against}" if bar.against else "the best"
        reached = mean(known) >= bar.mean and min(known) >= bar.least
        asked = f"{bar.mean:g} times as fast as {who} in the mean"
        asked += f", {bar.least:g} in each case" if bar.least else ""
        verdict = "met" if reached else "**missed**"
        lines.append(f"* Asked: {asked}; {verdict}: {mean(known):.2f}, least {min(known):.2f}.")
    for row in rows:
        ours = row.cells.get(SUBJECT)
        if table.limit < math.inf and ours and ours.samples:
            verdict = "met" if ours.median * 1e6 <= table.limit else "**missed**"
            lines.append(f"* {row.workload.name}: {table.limit:g} us asked; {verdict}.")
    return ["", *lines] if lines else []


def _left_out(rows: Sequence[Row]) -> list[str]:
    """Who did not take part or was wrong, each reason once."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for cell in row.cells.values():
            if cell.status != "ok":
                text = f"{cell.peer} {cell.status}: {cell.note}"
                reasons.setdefault(text, []).append(row.workload.name)
    notes = [
        f"* {text} ({'everywhere' if len(names) == len(rows) else ', '.join(names)})"
        for text, names in reasons.items()
    ]
    return ["", *notes] if notes else []


def triad(count: int = 1 << 26, rounds: int = 9) -> tuple[float, str]:
    """Bytes a second of c = a + 3 b on large arrays, each counted once, and who ran it."""
    a, b, c = (np.full(count, value, np.float32) for value in (1.0, 2.0, 0.0))

    run: Call
    try:
        run, name = native.prepare("triad", count, a, b, c), "C"
    except Skip:
        run, name = partial(np.add, a, b, out=c), "a + b in NumPy, one thread"
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return 3 * c.nbytes / best, name


__all__ = ["TABLES", "Bar", "Table", "markdown", "mean", "page", "ratio", "triad"]
