"""Calls of any kind measured: ways to compute something that are no schedules of a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .compare import greatest_error, tolerance
from .task import Measurement
from .timing import Clock, Timing, sample_times, turn

_TERMS = 1 << 16  # of a sum that is added up in one order or another, about the most


def measure_call(
    make: Callable[[str], Callable[[], Any]], choice: str, default: str, timing: Timing
) -> Measurement:
    """Compare a choice with the default, and time both in turns.

    Whatever is wrong with it is said by the measurement, unless it ends the process.

    Args:
        make: makes a call of a choice; the call returns its result, an array.
        choice: what is measured.
        default: what it is compared with.
        timing: how it is timed.
    """
    start = time.perf_counter()
    try:
        call, other = make(choice), make(default)
        built = time.perf_counter() - start
        expected, found = np.array(other()), np.asarray(call())
        error = greatest_error(expected, found)
        if error > tolerance(str(expected.dtype), _TERMS):
            return Measurement("wrong", (), (), f"the result is off by {error:.3g}", built, error)
        with turn(timing.alone):
            times = sample_times(_clock(call), _clock(other), None, timing)
        return Measurement("ok", *times, "", built, error)
    except Exception as error:  # of any kind: a choice must not end the others
        return Measurement("error", error=f"{type(error).__name__}: {error}")


def _clock(call: Callable[[], Any]) -> Clock:
    def clock(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    return clock
