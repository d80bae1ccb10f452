"""Tuning against TVM's MetaSchedule: the same programs, as many trials, the same machine.

`python -m benchmarks.tuning --tvm-python PATH` tunes each program with `tileloom.tune` and, in the
Python at PATH, which has `apache-tvm` and what its tuner needs, with `tune_tir`, each with its own
defaults. Then both processes time bursts of their best kernels in turns. The table says how long
those take, and how long finding them took. `--folder` keeps what was found: what is there already
is not tuned again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import harness_cli, harness_report
from .tuning_programs import PROGRAMS, Program

ROOT = Path(__file__).resolve().parents[1]
#: What is asked for: the geometric mean of TVM's times over ours.
ASKED = 1.1
_BURST = 0.1  # seconds of calls for a sample


class WorkerError(Exception):
    """A worker has failed at what it was told to do."""


class Worker:
    """The process of a system; see `tuning_worker`.

    Args:
        system: "tileloom" or "tvm".
        python: that runs it.
    """

    def __init__(self, system: str, python: str) -> None:
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        own = {"PYTHONPATH": path, "TVM_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}
        self.system = system
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.tuning_worker", system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            text=True,
        )

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """What the process answers to a command.

        Raises:
            WorkerError: it failed, or ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the process has ended"}
        if "failed" in answer:
            raise WorkerError(f"{self.system}: {command}: {answer['failed']}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@dataclass
class Entry:
    """What a system has found for a program.

    Attributes:
        wall: seconds that tuning took.
        trials: candidates that were measured.
        claimed: seconds of a call, as the tuner measured it.
        samples: the same, measured in turns with the others.
        note: what is wrong with it.
    """

    wall: float = math.nan
    trials: int = 0
    claimed: float = math.nan
    samples: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        """Of the samples."""
        return statistics.median(self.samples) if self.samples else math.nan


@dataclass
class Row:
    """A program by systems; `foreign` is how many cores others kept busy meanwhile."""

    program: Program
    entries: dict[str, Entry]
    foreign: float = math.nan

    def speed(self) -> float:
        """TVM's time over ours: by medians of what was measured next to each other."""
        ours, theirs = (self.entries[name].samples for name in ("tileloom", "tvm"))
        pairs = list(zip(theirs, ours, strict=False))
        return statistics.median(other / own for other, own in pairs) if pairs else math.nan


def measure(program: Program, pythons: dict[str, str], options: argparse.Namespace) -> Row:
    """Tune a program with each system, unless that was done before, then time what was found."""
    row = Row(program, {})
    workers: list[Worker] = []
    for system, python in pythons.items():
        folder = options.folder / program.name / system
        folder.mkdir(parents=True, exist_ok=True)
        entry = row.entries[system] = Entry()
        try:
            facts = _tuned(system, python, program, folder, options)
            entry.wall, entry.trials = facts["wall"], facts["trials"]
            entry.claimed = facts["claimed"]
            if options.tune_only:
                continue
            worker = Worker(system, python)
            workers.append(worker)
            entry.note = worker.ask(
                "load", program=program.name, folder=str(folder), seed=options.seed
            )["complaint"]
        except WorkerError as error:
            entry.note = str(error)
    able = [worker for worker in workers if not row.entries[worker.system].note]
    row.foreign = _take_turns(able, row, options)
    for worker in workers:
        worker.close()
    return row


def _tuned(
    system: str, python: str, program: Program, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Facts about what was found, from the folder if it was found before."""
    known = folder / "facts.json"
    if known.exists():
        facts: dict[str, Any] = json.loads(known.read_text())
        return facts
    worker = Worker(system, python)
    try:
        facts = worker.ask(
            "tune",
            program=program.name,
            folder=str(folder),
            trials=options.trials,
            seed=options.seed,
        )
    finally:
        worker.close()
    known.write_text(json.dumps(facts))
    _say(f"{program.name}: {system} took {facts['wall']:.0f} s: {facts['claimed'] * 1e3:.4g} ms")
    return facts


def _take_turns(workers: Sequence[Worker], row: Row, options: argparse.Namespace) -> float:
    """Bursts of calls of each, in an order that changes; how busy others were."""
    order, shuffle = list(workers), random.Random(options.seed).shuffle
    foreign = []
    for _ in range(options.rounds if order else 0):
        shuffle(order)
        for worker in order:
            answer = worker.ask("clock", seconds=_BURST)
            row.entries[worker.system].samples.append(answer["seconds"])
            foreign.append(answer["foreign"])
    return statistics.fmean(foreign) if foreign else math.nan


# ---------------------------------------------------------------------------- the table


def table(rows: Sequence[Row]) -> str:
    """Times of kernels and of tuning, and their geometric means."""
    head = "| program | tileloom ms | TVM ms | TVM : tileloom | claimed ms | TVM's claim ms |"
    head += " tuning s | TVM's s | trials | TVM's | foreign |"
    lines = [head, "|" + "---|" * head.count(" |")]
    for row in rows:
        ours, theirs = row.entries["tileloom"], row.entries["tvm"]
        cells = [
            *(f"{entry.median * 1e3:.4g}" for entry in (ours, theirs)),
            f"{row.speed():.2f}",
            *(f"{entry.claimed * 1e3:.4g}" for entry in (ours, theirs)),
            *(f"{entry.wall:.0f}" for entry in (ours, theirs)),
            *(str(entry.trials) for entry in (ours, theirs)),
            f"{row.foreign:.2f}",
        ]
        lines.append(f"| {row.program.name} | {' | '.join(cells)} |")
    notes = [
        f"* {row.program.name}, {system}: {entry.note}"
        for row in rows
        for system, entry in row.entries.items()
        if entry.note
    ]
    return "\n".join([*lines, "", *verdicts(rows), *notes]) + "\n"


def verdicts(rows: Sequence[Row]) -> list[str]:
    """What the rows come to."""
    speeds = [row.speed() for row in rows if row.speed() > 0]
    if not speeds:
        return []
    walls = [(row.entries["tileloom"].wall, row.entries["tvm"].wall) for row in rows]
    slower = [row.program.name for row, (a, b) in zip(rows, walls, strict=True) if a > b]
    return [
        f"Geometric mean of TVM : tileloom: {statistics.geometric_mean(speeds):.2f} "
        f"(asked: {ASKED}); the least: {min(speeds):.2f}.",
        f"Tuning all of them: {sum(a for a, _ in walls):.0f} s, "
        f"TVM {sum(b for _, b in walls):.0f} s"
        + (f"; longer than TVM: {', '.join(slower)}." if slower else "."),
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune, time and print; 1 if something failed or less was reached than is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tvm-python", default=os.environ.get("TVM_PYTHON"), metavar="PATH")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="programs by name")
    parser.add_argument("--systems", default="tileloom,tvm")
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where what was found is kept")
    parser.add_argument("--tune-only", action="store_true")
    parser.add_argument("--markdown", type=Path, help="also write the table here")
    options = parser.parse_args(arguments)
    patterns = options.only or ["*"]
    chosen = [p for p in PROGRAMS.values() if any(fnmatch.fnmatch(p.name, o) for o in patterns)]
    pythons = {"tileloom": sys.executable, "tvm": options.tvm_python}
    pythons = {system: pythons[system] for system in options.systems.split(",")}
    if not all(pythons.values()):
        parser.error("say where a Python with TVM is: --tvm-python PATH, or TVM_PYTHON")
    harness_cli.with_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        options.folder = options.folder or Path(scratch)
        rows = [measure(program, pythons, options) for program in chosen]
    if options.tune_only:
        return 0
    text = f"{harness_report.describe(harness_report.machine())}\n\n{table(rows)}"
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    speeds = [row.speed() for row in rows]
    return int(not all(speed >= 1 for speed in speeds))


if __name__ == "__main__":
    sys.exit(main())
