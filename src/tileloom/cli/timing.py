"""Times of several ways to compute one thing, in turns within one process."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

Call = Callable[[], Any]


def interleaved_times(
    calls: Mapping[str, Call], rounds: int = 15, seconds: float = 5.0, seed: int = 0
) -> dict[str, float]:
    """Median seconds of each call.

    Rounds visit the calls in random order, so that a slow minute of the machine hits all alike.
    Before each, it waits until the workers of the one before have stopped spinning.

    Args:
        rounds: how often each is measured, at most.
        seconds: no new round begins after this long.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(seed).shuffle
    start = time.perf_counter()
    for done in range(rounds):
        if done >= 3 and time.perf_counter() - start > seconds:
            break
        shuffle(order)
        for name in order:
            _rest()
            samples[name].append(_sample(calls[name], repeats[name]))
    return {name: statistics.median(found) for name, found in samples.items()}


def _repeats(call: Call) -> int:
    call()
    return max(1, int(1e-3 / max(_sample(call, 1), 1e-7)))


def _sample(call: Call, repeats: int, warm: float = 0.03) -> float:
    # Untimed calls first: the system may take a while to move a worker that woke up on the core of
    # its caller.
    start = time.perf_counter()
    call()
    while time.perf_counter() - start < warm:
        call()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def _rest(limit: float = 0.3, pause: float = 2e-3) -> None:
    """Sleep until no thread of this process is busy."""
    start = time.perf_counter()
    while time.perf_counter() - start < limit:
        burnt = time.process_time()
        time.sleep(pause)
        if time.process_time() - burnt < 0.15 * pause:
            return
