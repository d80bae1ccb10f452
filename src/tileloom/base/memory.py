"""Where intermediates live: one arena, in which tensors that are never alive together overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

ALIGNMENT = 64
Key = TypeVar("Key")


def plan_arena(
    sizes: Mapping[Key, int], lifetimes: Mapping[Key, tuple[int, int]]
) -> tuple[dict[Key, int], int]:
    """Offsets in an arena, and its size in bytes.

    Large tensors are placed first, each at the lowest place where nothing alive at the same time
    lies (greedy by size).

    Args:
        sizes: bytes.
        lifetimes: first and last step, both inclusive.

    >>> plan_arena({"a": 64, "b": 64, "c": 64}, {"a": (0, 1), "b": (1, 2), "c": (2, 3)})
    ({'a': 0, 'b': 64, 'c': 0}, 128)
    """
    offsets: dict[Key, int] = {}
    total = 0
    for key in sorted(sizes, key=lambda k: -sizes[k]):
        size = max(ALIGNMENT, -(-sizes[key] // ALIGNMENT) * ALIGNMENT)
        taken = sorted(
            (offsets[other], offsets[other] + max(ALIGNMENT, sizes[other]))
            for other in offsets
            if _overlap(lifetimes[key], lifetimes[other])
        )
        offset = _first_gap(taken, size)
        offsets[key] = offset
        total = max(total, offset + size)
    return offsets, total


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _first_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    at = 0
    for low, high in taken:
        if low - at >= size:
            break
        at = max(at, -(-high // ALIGNMENT) * ALIGNMENT)
    return at
