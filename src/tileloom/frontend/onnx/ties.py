"""What the sizes of labels have to do with each other: said, or guessed from those of one call.

A model need not say that dimensions agree, or that one is as long as two others together. A program
for which that was guessed is taken where it is so.

>>> alike({"a": 4, "b": 4, "c": 1, "d": 7})
{'b': ('a',), 'c': 1}
>>> sums({"past": 8, "new": 3, "all": 11, "mask": 11})
{'mask': ('past', 'new'), 'all': ('past', 'new')}
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TypeAlias

#: The size of a label, or labels and numbers of which it is the sum.
Tie: TypeAlias = "int | tuple[str | int, ...]"
Ties: TypeAlias = "Mapping[str, Tie]"


def value(tie: Tie, sizes: Mapping[str, int]) -> int:
    """What a tie makes of the sizes (or extents) of other labels."""
    if isinstance(tie, int):
        return tie
    first, *rest = (part if isinstance(part, int) else sizes[part] for part in tie)
    for part in rest:
        first = first + part
    return first


def hold(ties: Ties, sizes: Mapping[str, int]) -> bool:
    """Whether sizes are as the ties say."""
    return all(sizes[label] == value(tie, sizes) for label, tie in ties.items())


def pin(ties: Ties, pinned: Mapping[str, int]) -> dict[str, Tie]:
    """The ties where these labels have these sizes."""

    def part(tie: Tie) -> Tie:
        if isinstance(tie, int):
            return tie
        parts = tuple(pinned.get(p, p) if isinstance(p, str) else p for p in tie)
        return value(parts, {}) if all(isinstance(p, int) for p in parts) else parts

    return {**{label: part(tie) for label, tie in ties.items()}, **pinned}


def alike(sizes: Mapping[str, int]) -> dict[str, Tie]:
    """Labels of one size are one; those of size 1 are that number."""
    first: dict[int, str] = {}
    ties: dict[str, Tie] = {}
    for label, size in sizes.items():
        if size == 1:
            ties[label] = 1
        elif first.setdefault(size, label) != label:
            ties[label] = (first[size],)
    return ties


def sums(sizes: Mapping[str, int]) -> dict[str, Tie]:
    """The same, and labels that are the sum of two others, or one more than another, are that."""
    ties = alike(sizes)
    parts: set[str | int] = set()
    free = [label for label in sizes if label not in ties]
    for label in sorted(free, key=lambda label: -sizes[label]):
        others = [k for k in free if k not in ties and k != label]
        pairs: list[tuple[str | int, ...]] = [*combinations(others, 2), *((k, 1) for k in others)]
        found = next((pair for pair in pairs if value(pair, sizes) == sizes[label]), None)
        if found is not None and label not in parts:
            ties[label] = found
            parts.update(found)
    # What is like a sum is that sum.
    for label, tie in ties.items():
        if not isinstance(tie, int) and len(tie) == 1:
            ties[label] = ties.get(str(tie[0]), tie)
    return ties
