"""The arithmetic intensity of a store, as more and more of its work is done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import log2
from operator import mul

from .regions import Work


def intensity_curve(work: Work, samples: int) -> list[float]:
    """Floating-point operations per byte, on a logarithmic scale, at equal parts of all operations.

    Each innermost part of the nest does so many operations on so many bytes; in between the
    intensity is interpolated.
    """
    operations = sum(work.counts[:7])
    if operations <= 0 or not work.nest:
        return [0.0] * samples
    extents = [loop.extent or 1 for loop in reversed(work.nest)]
    done = [operations * product for product in accumulate(extents, mul)]
    memory = work.bytes[: len(work.nest)][::-1]
    curve: list[float] = []
    part = 0
    for sample in range(samples):
        wanted = (sample + 1) / samples * done[-1]
        while done[part] < wanted - 1e-4:
            part += 1
        curve.append(log2(1 + _intensity(done, memory, part, wanted)))
    return curve


def _intensity(done: Sequence[float], memory: Sequence[float], part: int, wanted: float) -> float:
    if part == 0:
        return done[0] / memory[0]
    before, here = done[part - 1] / memory[part - 1], done[part] / memory[part]
    return before + (here - before) * (wanted - done[part - 1]) / (done[part] - done[part - 1])
