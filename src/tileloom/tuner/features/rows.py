"""One row of numbers for each store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from ...tir import PARALLEL, UNROLLED, VECTORIZED
from .intensity import intensity_curve
from .names import SLOT_SIZE, feature_names
from .program import Nest
from .regions import BufferUse, Numbers, Work, iterations
from .reuse import Reuse

_KINDS = (VECTORIZED, UNROLLED, PARALLEL)
_TAGS = tuple(f"{head}Idx.{axis}" for head in ("block", "thread") for axis in "xyz")


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """What is asked for.

    Attributes:
        buffers_per_store: slots in a row.
        samples: of the arithmetic intensity.
        cache_line_bytes: of the machine.
        is_gpu: whether it is a GPU.
    """

    buffers_per_store: int = 5
    samples: int = 10
    cache_line_bytes: int = 64
    is_gpu: bool = False


def matrix(
    works: Sequence[Work],
    reuses: Sequence[Sequence[Reuse]],
    options: FeatureOptions,
) -> Numbers:
    """The features of stores."""
    rows = [_row(work, found, options) for work, found in zip(works, reuses, strict=True)]
    result = np.array(rows, np.float64)
    scaled = _scaled_columns(options)
    result[:, scaled] = np.log2(np.abs(result[:, scaled]) + 1)
    return result


@cache
def _scaled_columns(options: FeatureOptions) -> Numbers:
    """Which columns are on a logarithmic scale."""
    names = feature_names(options.buffers_per_store, options.samples)
    plain = ("_type.", "is_gpu", "arith_intensity_curve")
    return np.array([not any(part in name for part in plain) for name in names])


def _row(work: Work, reuses: Sequence[Reuse], options: FeatureOptions) -> list[float]:
    total = work.iterations
    row: list[float] = [count * total for count in work.counts]
    for kind in _KINDS:
        row += _loops(work.nest, kind)
    row.append(float(options.is_gpu))
    row += _threads(work.nest)
    row += _slots(work, reuses, options)
    row += intensity_curve(work, options.samples)
    row += _allocation(work)
    unroll = next((loop.unroll_step for loop in reversed(work.nest) if loop.unroll_step > 0), 0)
    row += (total, len(work.nest), unroll)
    return row


def _loops(nest: Nest, kind: str) -> list[float]:
    """The number of the loops of a kind, their iterations, the length of the innermost; then where
    they are: of eight possibilities TVM knows "there is none" and "mixed" apart."""
    loops = [loop for loop in nest if loop.kind == kind]
    if not loops:
        return [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    return [len(loops), iterations(loops), loops[-1].extent or 1, 0, 0, 0, 0, 0, 0, 0, 1]


def _threads(nest: Nest) -> list[float]:
    lengths: dict[str, int] = {}
    for loop in nest:
        if loop.tag:
            tag = "vthread" if loop.tag.startswith("vthread") else loop.tag
            lengths.setdefault(tag, loop.extent or 1)
    return [lengths.get(tag, 1) for tag in (*_TAGS, "vthread")]


def _slots(work: Work, reuses: Sequence[Reuse], options: FeatureOptions) -> list[float]:
    slots = [
        _Slot(use, reuse, work, options.cache_line_bytes)
        for use, reuse in zip(work.uses, reuses, strict=True)
    ]
    slots.sort(key=lambda slot: (-slot.lines, -slot.bytes, slot.name))
    row = [number for slot in slots[: options.buffers_per_store] for number in slot.numbers()]
    row += [0.0] * (options.buffers_per_store * SLOT_SIZE - len(row))
    return row


class _Slot:
    """What is told of one buffer."""

    def __init__(self, use: BufferUse, reuse: Reuse, work: Work, cache_line: int) -> None:
        self.use, self.reuse = use, reuse
        self.name = use.memory.name
        total = work.iterations
        self.bytes = float(use.bytes * total)
        self.unique_bytes = self.lines = self.unique_lines = 1.0
        self.stride = 0
        if work.nest:
            innermost = max(use.steps, default=-1)
            step = use.steps.get(innermost, 0)
            self.stride = step if innermost == len(work.nest) - 1 else 0
            self.unique_bytes = use.elements[0] * use.bytes
            runs = total / iterations(work.nest[innermost + 1 :])
            self.lines = max(1.0, runs * min(1.0, step * use.bytes / cache_line))
            self.unique_lines = max(
                1.0, self.unique_bytes / min(cache_line, _continuous_bytes(use))
            )

    def numbers(self) -> list[float]:
        """As they stand in a row."""
        sizes = [self.bytes, self.unique_bytes, self.lines, self.unique_lines]
        kind, distance, distance_bytes, count = self.reuse
        return [
            *(float(kind == self.use.kind) for kind in range(3)),
            *sizes,
            *(float(kind == other) for other in range(3)),
            distance,
            distance_bytes,
            count,
            *(size / (count or 0.5) for size in sizes),
            self.stride,
        ]


def _continuous_bytes(use: BufferUse) -> int:
    """The bytes of the last axis that is accessed as a whole; one where there is none."""
    pairs = list(zip(use.memory.shape, use.box, strict=False))
    return next((extent * use.bytes for extent, part in reversed(pairs) if part == extent), 1)


def _allocation(work: Work) -> list[float]:
    memory = work.uses[0].memory
    if memory.nest is None:
        return [0, 0, 1, 0]
    outer = iterations(memory.nest)
    elements = prod(memory.shape)
    size = elements * memory.buffer.dtype.bytes
    return [size, elements * outer, outer, work.iterations / outer if outer else 0]
