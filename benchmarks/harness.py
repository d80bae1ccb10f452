"""The one benchmark harness: workloads by peers, interleaved in one process, correctness first.

What it does against the usual ways of fooling oneself:

* Every peer's result is compared with a float64 reference before any is timed; a wrong one is not.
* Rounds visit the peers in a random order, so that slow drift of the machine hits all alike.
  Judge ratios inside one run; absolute times move by tens of percent between runs.
* Before each timed part it waits until the process burns no CPU: the worker threads of OpenMP
  runtimes spin for up to 50 ms after their last region and would steal a core from the next peer.
* Then untimed calls warm caches and wake workers, for as long as the system's scheduler may take to
  move a worker that woke up on its caller's core.
* Medians and minima are kept: two-thread medians under a few milliseconds can be bimodal, the
  minimum is then the better measure of the kernel.
* CPU time used by anything else on the machine during the timed parts is reported beside it.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Call = Callable[[], Any]
Builder = Callable[..., Call]


class Skip(Exception):
    """A peer cannot take part; the message says why."""


@dataclass(frozen=True)
class Workload:
    """One thing to compute, and who computes it.

    Args:
        name: a short unique name.
        make_inputs: from a seeded generator to the input arrays.
        reference: the expected result, computed in float64 from the inputs.
        peers: name to builder; a builder gets the inputs and returns a call without arguments that
            computes the result. It raises `Skip` or `ImportError` when the peer is not there.
        rtol, atol: the tolerance against the reference.
        flops, moved: operations and compulsory bytes, for the rate column.
    """

    name: str
    make_inputs: Callable[[np.random.Generator], tuple[NDArray[Any], ...]]
    reference: Callable[..., NDArray[Any]]
    peers: Mapping[str, Builder]
    rtol: float = 1e-4
    atol: float = 1e-5
    flops: int | None = None
    moved: int | None = None


@dataclass(frozen=True)
class Effort:
    """How long to measure. Slow calls get fewer rounds, but never fewer than `min_rounds`.

    Rounds during which others kept more than `noise` cores busy are made again while there is time;
    where too few are quiet, the quietest half is kept.
    """

    rounds: int = 15
    min_rounds: int = 3
    seconds: float = 30.0
    sample_seconds: float = 2e-3
    seed: int = 0
    idle_limit: float = 0.5
    warm_seconds: float = 0.03
    noise: float = math.inf


@dataclass
class Cell:
    """What one peer did on one workload; times in seconds."""

    peer: str
    status: str = "ok"  # "ok", "skipped", "wrong" or "failed"
    note: str = ""
    error: float = math.nan  # largest error relative to the tolerance's scale
    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median sample, NaN when there is none."""
        return statistics.median(self.samples) if self.samples else math.nan

    @property
    def minimum(self) -> float:
        """The smallest sample, NaN when there is none."""
        return min(self.samples, default=math.nan)


@dataclass
class Row:
    """All peers on one workload; `foreign` is the CPU, in cores, that others used meanwhile."""

    workload: Workload
    cells: dict[str, Cell]
    foreign: float = math.nan


def run(
    workloads: Sequence[Workload],
    peers: Sequence[str] | None = None,
    effort: Effort = Effort(),  # frozen
    log: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Measure each workload; `peers` restricts who takes part."""
    rows = []
    for workload in workloads:
        log(f"{workload.name} ...")
        row = run_one(workload, peers, effort)
        rows.append(row)
        log(summary(row))
    return rows


def summary(row: Row) -> str:
    """One line: each peer's median, or why there is none."""
    parts = [
        f"{cell.peer} {cell.median * 1e3:.3g} ms"
        if cell.status == "ok"
        else f"{cell.peer} {cell.status} ({cell.note})"
        for cell in row.cells.values()
    ]
    return f"{row.workload.name}: " + ", ".join(parts)


def run_one(workload: Workload, peers: Sequence[str] | None, effort: Effort) -> Row:
    """Build, check and time the peers of one workload."""
    inputs = workload.make_inputs(np.random.default_rng(effort.seed))
    expected = np.asarray(workload.reference(*inputs))
    cells: dict[str, Cell] = {}
    calls: dict[str, Call] = {}
    for name, builder in workload.peers.items():
        if peers is None or name in peers:
            cells[name], call = _build(name, builder, workload, inputs, expected)
            if call is not None:
                calls[name] = call
    rounds = kept(interleave(calls, effort), effort)
    for name in calls:
        cells[name].samples = [one.samples[name] for one in rounds]
    return Row(workload, cells, statistics.fmean(one.foreign for one in rounds) if rounds else 0.0)


def _build(
    name: str,
    builder: Builder,
    workload: Workload,
    inputs: tuple[NDArray[Any], ...],
    expected: NDArray[Any],
) -> tuple[Cell, Call | None]:
    try:
        call = builder(*inputs)
        # A copy: a peer that keeps its output buffer must not change what was checked.
        actual = np.array(_readable(call()), dtype=np.float64)
    except (Skip, ImportError) as reason:
        return Cell(name, "skipped", str(reason)), None
    except Exception as error:  # a peer's own failure is a finding, not an end of the run
        first = str(error).splitlines()[0] if str(error) else ""
        return Cell(name, "failed", f"{type(error).__name__}: {first}"[:160]), None
    cell = Cell(name)
    cell.error, cell.note = compare(actual, expected, workload.rtol, workload.atol)
    if cell.note:
        cell.status = "wrong"
        return cell, None
    return cell, call


def _readable(result: Any) -> Any:
    """What NumPy can read: it knows no bfloat16 of PyTorch's."""
    return result.float() if str(getattr(result, "dtype", "")) == "torch.bfloat16" else result


def compare(
    actual: NDArray[Any], expected: NDArray[Any], rtol: float, atol: float
) -> tuple[float, str]:
    """The largest absolute error, and a complaint when it is out of tolerance."""
    if actual.shape != expected.shape:
        return math.nan, f"shape {actual.shape}, expected {expected.shape}"
    if actual.size == 0:
        return 0.0, ""
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(actual - expected))
    # An infinite error is not within any part of an infinite expectation.
    fine = same | (np.isfinite(gap) & (gap <= atol + rtol * np.abs(expected)))
    worst = float(np.max(gap))
    if not fine.all():
        return worst, f"largest error {worst:.3g} (rtol {rtol:g}, atol {atol:g})"
    return worst, ""


@dataclass
class Round:
    """One visit of every call: seconds by name, and the cores that others kept busy meanwhile."""

    samples: dict[str, float]
    foreign: float


def interleave(calls: Mapping[str, Call], effort: Effort) -> list[Round]:
    """Seconds per call, sampled in rounds that visit every call once in random order."""
    order = list(calls)
    shuffle = random.Random(effort.seed).shuffle
    repeats = {name: _repeats(call, effort) for name, call in calls.items()}
    rounds: list[Round] = []
    quiet = 0
    start = time.perf_counter()
    while calls and quiet < effort.rounds:
        if len(rounds) >= effort.min_rounds and time.perf_counter() - start > effort.seconds:
            break
        shuffle(order)
        used = Usage()
        samples = {name: _sample(calls[name], repeats[name], effort, used) for name in order}
        rounds.append(Round(samples, used.foreign))
        quiet += not rounds[-1].foreign > effort.noise
    return rounds


def kept(rounds: Sequence[Round], effort: Effort) -> list[Round]:
    """The quiet rounds; where there are too few, the quietest half."""
    quiet = [one for one in rounds if not one.foreign > effort.noise]
    if len(quiet) >= effort.min_rounds:
        return quiet
    half = max(effort.min_rounds, len(rounds) // 2)
    return sorted(rounds, key=lambda one: one.foreign)[:half]


class Usage:
    """CPU used during timed parts alone: in all, and by this process."""

    def __init__(self) -> None:
        self.machine = self.own = self.wall = 0.0

    def begin(self) -> tuple[float, float, float]:
        """Clocks before a timed part."""
        return cpu_ticks(), time.process_time(), time.perf_counter()

    def end(self, begun: tuple[float, float, float]) -> None:
        """Add what passed since. Ticks are coarse; over many parts that evens out."""
        machine, own, wall = (now - then for now, then in zip(self.begin(), begun, strict=True))
        self.machine += machine
        self.own += own
        self.wall += wall

    @property
    def foreign(self) -> float:
        """Cores that others kept busy."""
        return max(0.0, (self.machine - self.own) / self.wall) if self.wall > 0 else math.nan


def _repeats(call: Call, effort: Effort) -> int:
    """How many calls make one sample, so that the clock's own cost does not show."""
    call()
    start = time.perf_counter()
    call()
    elapsed = max(time.perf_counter() - start, 1e-7)
    return max(1, math.ceil(effort.sample_seconds / elapsed))


def _sample(call: Call, repeats: int, effort: Effort, used: Usage) -> float:
    wait_until_idle(effort.idle_limit)
    warm_up(call, effort.warm_seconds)
    begun = used.begin()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    seconds = time.perf_counter() - start
    used.end(begun)
    return seconds / repeats


def warm_up(call: Call, seconds: float) -> None:
    """Untimed calls for at least this long, and at least one."""
    start = time.perf_counter()
    call()
    while time.perf_counter() - start < seconds:
        call()


def wait_until_idle(limit: float = 0.5, pause: float = 2e-3) -> float:
    """Sleep until no thread of this process burns CPU, `limit` seconds at most.

    Returns:
        The seconds waited.
    """
    start = time.perf_counter()
    while True:
        burnt, at = time.process_time(), time.perf_counter()
        time.sleep(pause)
        burnt, passed = time.process_time() - burnt, time.perf_counter() - at
        waited = time.perf_counter() - start
        if burnt < 0.15 * passed or waited > limit:
            return waited


def cpu_ticks() -> float:
    """Seconds of CPU that the whole machine has used since boot; NaN where /proc is missing."""
    try:
        with open("/proc/stat") as file:
            fields = file.readline().split()[1:]
    except OSError:
        return math.nan
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, fields)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
