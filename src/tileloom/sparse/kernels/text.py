"""Kernels are written as scripts: lines of tensor IR with the sizes of one case filled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...script import parse
from ...tir import PrimFunc


class KernelText:
    """The lines of a script."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._indent = 0

    def __call__(self, *lines: str) -> None:
        """Add lines."""
        self._lines += [f"{'    ' * self._indent}{line}" for line in lines]

    @contextmanager
    def inside(self, head: str) -> Iterator[None]:
        """A line that ends with a colon; what is added meanwhile is its suite."""
        self(head)
        self._indent += 1
        yield
        self._indent -= 1

    def parsed(self) -> PrimFunc:
        """The program."""
        found = parse("\n".join(self._lines))
        if not isinstance(found, PrimFunc):
            raise TypeError("the script of a kernel is one function")
        return found


def vectors(count: int, lanes: int) -> list[tuple[int, int]]:
    """Vectors over so many elements, as (first element, lanes); the last may be a short one.

    >>> vectors(40, 16)
    [(0, 16), (16, 16), (32, 8)]
    """
    return [(first, min(lanes, count - first)) for first in range(0, count, lanes)]


def tiles(count: int, lanes: int, most: int) -> list[Sequence[tuple[int, int]]]:
    """Vectors over so many elements in groups of at most `most`.

    >>> [len(tile) for tile in tiles(100, 16, 4)]
    [4, 3]
    """
    each = vectors(count, lanes)
    return [each[k : k + most] for k in range(0, len(each), most)]


def ramp(base: str, first: int, lanes: int) -> str:
    """Neighbouring elements from `base + first` on."""
    start = base if not first else f"{base} + {first}" if base != "0" else str(first)
    return start if lanes == 1 else f"T.Ramp({start}, 1, {lanes})"


def spread(value: str, lanes: int) -> str:
    """A value in all lanes."""
    return value if lanes == 1 else f"T.Broadcast({value}, {lanes})"


def first_lanes(count: str, lanes: int) -> str:
    """A mask of the first `count` lanes of a vector; `count` is an int64."""
    return f"T.Ramp(T.int64(0), T.int64(1), {lanes}) < T.Broadcast({count}, {lanes})"
