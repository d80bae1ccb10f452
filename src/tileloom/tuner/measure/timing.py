"""Times of a kernel on a machine that others use too.

Samples of the kernel and of a baseline take turns, so that what slows the machine for a second
slows both; their ratio says more than either. Kernels that are clearly slower than what is known
already are not measured for long. One process of a machine at a time takes samples, whichever
executor it belongs to.
"""

from __future__ import annotations

import fcntl
import math
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

#: Seconds that so many calls of a kernel take.
Clock = Callable[[int], float]

TURN_SECONDS = 10.0  # seconds to wait for other processes, less than a task may take
_LOOK = 2e-3  # seconds from one look at whether they are done to the next
_PERSISTENT = 3  # times as many rounds as there are to be samples are made on a busy machine
_LEAST = 3  # samples before anything is concluded from them
_BEYOND = 4.0  # times as slow as the incumbent: then one quiet sample is enough
_AT_ONCE = 20.0  # times as slow: then one is enough that something else has disturbed
_FIRST_CALL = 0.05  # seconds: what a first call takes more than others is little next to this
_NORMAL = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
_FAR = 5.0  # standard deviations from the median of a sample that something else has disturbed
_FINE = 0.005  # of the median: what is this near is no outlier, however much nearer others are


@dataclass(frozen=True)
class Timing:
    """How kernels are timed.

    Attributes:
        samples: of each kernel, at most.
        sample_seconds: for each at least; a sample is as many calls as take so long.
        seconds: for all samples of a task: no new one begins later.
        hopeless: times as slow as the incumbent, from which on a kernel is not measured further.
        alone: whether processes of one machine wait for each other before they take samples.
    """

    samples: int = 10
    sample_seconds: float = 2e-3
    seconds: float = 1.0
    hopeless: float = 1.25
    alone: bool = True


def sample_times(
    kernel: Clock, baseline: Clock | None, incumbent: float | None, timing: Timing
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of a call by sample: of the kernel, and of the baseline at about the same time.

    Args:
        kernel: what is measured.
        baseline: what it is compared with, if anything.
        incumbent: seconds of the best that is known; where there is a baseline, that is meant.
        timing: how.

    Returns:
        As many of both, none disturbed; no second ones without a baseline.
    """
    start = time.monotonic()
    clocks = [kernel] if baseline is None else [kernel, baseline]
    counts, first = zip(*(_calls(clock, timing.sample_seconds) for clock in clocks), strict=True)
    if _slowness([first], incumbent) > max(_AT_ONCE, timing.hopeless):
        return first[:1], first[1:]
    every: list[list[float]] = []
    quiet: list[list[float]] = []  # those rounds in which no other process ran in between
    while len(quiet) < timing.samples and len(every) < _PERSISTENT * timing.samples:
        before = _preemptions()
        found: dict[int, float] = {}
        # Forwards and backwards in turns: neither always finds what the other leaves in caches.
        for k in range(len(clocks))[:: -1 if len(every) % 2 else 1]:
            if len(clocks) > 1 and counts[k] > 1:  # short calls: one to take the caches over again
                clocks[k](1)
            found[k] = clocks[k](counts[k]) / counts[k]
        every.append([found[k] for k in range(len(clocks))])
        if _preemptions() == before:
            quiet.append(every[-1])
        if time.monotonic() - start > timing.seconds:
            break
        if len(every) >= _LEAST and _slowness(every, incumbent) > timing.hopeless:
            break
        if quiet and _slowness(quiet, incumbent) > max(_BEYOND, timing.hopeless):
            break
    kept = without_outliers(quiet if len(quiet) >= _LEAST else every)
    return tuple(row[0] for row in kept), tuple(row[1] for row in kept if len(row) > 1)


def _preemptions() -> int:
    """How often the system has taken a thread of this process off its core."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _calls(clock: Clock, seconds: float) -> tuple[int, float]:
    """How many calls take so long, and how long each; the first ones fill caches and wake threads
    up."""
    count, taken = 1, clock(1)
    if taken < _FIRST_CALL:
        taken = clock(1)
    while taken < seconds:
        # Not much more than asked for, should the first call have been an unusually quick one.
        count = min(count * 10, math.ceil(count * 1.2 * seconds / max(taken, 1e-9)))
        taken = clock(count)
    return count, taken / count


def _slowness(rounds: Sequence[Sequence[float]], incumbent: float | None) -> float:
    """How many times as slow as the best that is known a kernel is at least."""
    columns = list(zip(*rounds, strict=True))
    best = statistics.median(columns[1]) if len(columns) > 1 else incumbent
    return 0.0 if best is None else min(columns[0]) / max(best, 1e-12)


def without_outliers(rounds: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The rounds in which no sample is far from the median of its column.

    >>> without_outliers([[1.0], [1.01], [0.99], [7.0]])
    [[1.0], [1.01], [0.99]]
    """
    if len(rounds) < _LEAST:
        return list(rounds)
    columns = list(zip(*rounds, strict=True))
    middles = [statistics.median(column) for column in columns]
    widths = [max(_FAR * deviation(column), _FINE * m) for column, m in zip(columns, middles)]
    return [
        row
        for row in rounds
        if all(abs(x - m) <= w for x, m, w in zip(row, middles, widths, strict=True))
    ]


def deviation(samples: Sequence[float]) -> float:
    """The standard deviation, by the median absolute deviation, which outliers hardly change.

    >>> deviation([1.0, 2.0, 3.0, 4.0, 500.0])
    1.4826
    """
    middle = statistics.median(samples)
    return _NORMAL * statistics.median(abs(x - middle) for x in samples)


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Wait until no other process of this user and machine is within such a block.

    A process that is killed is within none any more. One that stands still, because somebody has
    stopped it, is waited for no longer than `TURN_SECONDS`: that time is not the candidate's.
    """
    if not alone:
        yield
        return
    path = os.path.join(tempfile.gettempdir(), f"tileloom-measure-{os.getuid()}.lock")
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + TURN_SECONDS
        while not _locked(number) and time.monotonic() < end:
            time.sleep(_LOOK)
        yield
    finally:
        os.close(number)


def _locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
