"""Writes RESULTS.md: kernels against peers, bars, and how long starting takes."""

from __future__ import annotations

import fnmatch
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import harness, harness_cli, harness_report, startup
from .harness import Row, Workload

_WARNING = """**Other work kept the machine busy during this run**, see the last column: ratios of
rows in which that is more than a fraction of a core are for orientation only.

"""

#: Cores that others may keep busy in a round that counts as quiet.
QUIET = 0.2

_HEAD = """# Results on a CPU

Made by `python -m benchmarks.cpu --results`; nothing is edited by hand.

Machine: {machine}

All peers of a row run in turns within one process, in random order, each checked against float64
first. Cells: median ms (in multiples of the row's best). `tileloom : peer`: how many times as fast
as the peer, by medians (by minima). Absolute times drift with the machine; judge the ratios, and
call 10% a tie. Rounds in which other processes kept more than {quiet} cores busy are made again
while there is time; `foreign` is what remains: a row is only as good as that is small. NumPy,
PyTorch and Tileloom return new arrays on each call.

"""


def write(
    path: Path,
    make: Callable[[Sequence[str]], list[Workload]],
    bars: Mapping[str, float],
    arguments: Sequence[str],
) -> int:
    """Measure everything and write the page; the samples go beside it as JSON."""
    options = harness_cli.parser("writes RESULTS.md").parse_args(arguments)
    harness_cli.with_threads(options.threads)
    starts = startup.measure()
    print(startup.markdown(starts), file=sys.stderr)
    effort = harness.Effort(options.rounds, 3, options.seconds, seed=options.seed, noise=QUIET)
    chosen = harness_cli.select(make(()), options.only)
    rows = harness.run(chosen, None, effort, log=lambda text: print(text, file=sys.stderr))
    facts = harness_report.machine()
    page = _HEAD.format(machine=harness_report.describe(facts), quiet=QUIET)
    if any(row.foreign > QUIET for row in rows):
        page += _WARNING
    page += "## Kernels\n\n" + harness_report.markdown(rows)
    page += "\n## Bars against PyTorch eager\n\n" + bar_table(rows, bars)
    page += "\n## Starting\n\nMedians over fresh processes that have imported NumPy.\n\n"
    path.write_text(page + startup.markdown(starts))
    write_readme(path.parents[1] / "README.md", rows)
    record = json.loads(harness_report.to_json(rows, facts))
    path.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    return int(any(c.status in ("wrong", "failed") for row in rows for c in row.cells.values()))


_BEGIN = "<!-- results: written by `python -m benchmarks.cpu --results` -->\n"
_END = "<!-- end of results -->"


def write_readme(path: Path, rows: Sequence[Row]) -> None:
    """Put the speeds into the front page, between its two marks."""
    head, _, rest = path.read_text().partition(_BEGIN)
    tail = rest.partition(_END)[2]
    path.write_text(head + _BEGIN + "\n" + speed_table(rows) + "\n" + _END + tail)


def speed_table(rows: Sequence[Row], subject: str = "tileloom") -> str:
    """How many times as fast as each peer, by medians, of the rows that were measured in quiet."""
    rows = [row for row in rows if row.foreign <= QUIET]
    if not rows:
        return "The last run was on a busy machine and says nothing worth a front page.\n"
    peers = list(dict.fromkeys(p for row in rows for p in row.cells if p != subject))
    lines = [f"| | ms | {' | '.join(f'x {peer}' for peer in peers)} |"]
    lines.append("|---" * (len(peers) + 2) + "|")
    for row in rows:
        ours = row.cells[subject]
        if not ours.samples:
            continue
        cells = [row.cells.get(peer) for peer in peers]
        speeds = [f"{c.median / ours.median:.2f}" if c and c.samples else "" for c in cells]
        lines.append(f"| {row.workload.name} | {ours.median * 1e3:.3g} | {' | '.join(speeds)} |")
    return "\n".join(lines) + "\n"


def bar_table(rows: Sequence[Row], bars: Mapping[str, float], peer: str = "torch") -> str:
    """Which bars are met: by medians; by minima (marked ~) where the machine was not quiet."""
    lines = ["| workload | asked | by medians | by minima | |", "|---|---|---|---|---|"]
    for row in rows:
        bar = next((b for p, b in bars.items() if fnmatch.fnmatch(row.workload.name, p)), None)
        ours, theirs = row.cells.get("tileloom"), row.cells.get(peer)
        if bar is None or ours is None or theirs is None:
            continue
        if not (ours.samples and theirs.samples):
            lines.append(f"| {row.workload.name} | {bar} | {ours.status} | | |")
            continue
        median, least = theirs.median / ours.median, theirs.minimum / ours.minimum
        noisy = row.foreign > QUIET
        verdict = "met" if (least if noisy else median) >= bar else "**missed**"
        mark = " ~" if noisy else ""
        lines.append(
            f"| {row.workload.name} | {bar} | {median:.2f} | {least:.2f} | {verdict}{mark} |"
        )
    return "\n".join(lines) + "\n"


__all__ = ["bar_table", "write"]
