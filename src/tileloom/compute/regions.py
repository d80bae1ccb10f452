"""What a block reads, as boxes of buffers over its iteration variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import Add, Expr, IntImm, Range, Sub, const, post_order
from ..tir import Buffer, BufferLoad, BufferRegion


def read_regions(exprs: Iterable[Expr], skip: Sequence[Buffer] = ()) -> tuple[BufferRegion, ...]:
    """One box for each buffer that the expressions load from, in order of appearance."""
    found: dict[Buffer, list[tuple[Expr, ...]]] = {}
    for expr in exprs:
        for node in post_order(expr):
            if isinstance(node, BufferLoad) and node.buffer not in skip:
                found.setdefault(node.buffer, []).append(node.indices)
    return tuple(_box(buffer, accesses) for buffer, accesses in found.items())


def _box(buffer: Buffer, accesses: Sequence[tuple[Expr, ...]]) -> BufferRegion:
    ranges = [
        _hull([indices[axis] for indices in accesses], extent)
        for axis, extent in enumerate(buffer.shape)
    ]
    return BufferRegion(buffer, tuple(ranges))


def _hull(indices: Sequence[Expr], extent: Expr) -> Range:
    """The least range known to hold these indices: a point, neighbours of a point, or all."""
    splits = [_split(index) for index in indices]
    base = splits[0][0]
    together = all(other is base for other, _ in splits)
    if not together or any(_depends_on_data(index) for index in indices):
        return Range(const(0, extent.dtype), extent)
    offsets = [offset for _, offset in splits]
    low, high = min(offsets), max(offsets)
    first = indices[offsets.index(low)]
    return Range(first, const(high - low + 1, first.dtype))


def _split(index: Expr) -> tuple[Expr | None, int]:
    """`index` as something plus an integer."""
    match index:
        case IntImm(value=value):
            return None, value
        case Add(a, IntImm(value=value)):
            return a, value
        case Sub(a, IntImm(value=value)):
            return a, -value
        case _:
            return index, 0


def _depends_on_data(index: Expr) -> bool:
    return any(isinstance(node, BufferLoad) for node in post_order(index))
