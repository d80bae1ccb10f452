"""Small arrays lose the gaps between the elements that are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from ...expr import Expr, IntImm, Range, const
from ...tir import (
    Block,
    Buffer,
    BufferRegion,
    PrimFunc,
    buffer_accesses,
    collect,
)
from ..analysis.linear import linear
from ..analysis.regions import Accesses
from ..analysis.threads import storage_rank
from ..common import Access, Replacer, on_body

_LOCAL = 3


def compact_strides(func: PrimFunc) -> PrimFunc:
    """Of a thread's own array only every n-th element is used: it keeps these.

    So it is with what threads that take turns along an axis have of a row, once it is counted
    from a thread's first element: `32 * inner` becomes `inner`.

    Needs: blocks without iteration variables, compacted.
    Ensures: the same.
    """
    local = {
        buffer
        for block in collect(func.body, Block)
        for buffer in block.alloc_buffers
        if storage_rank(buffer.scope) == _LOCAL
        and not buffer.strides
        and buffer.elem_offset is None
    }
    if not local:
        return func
    known = Accesses.of(func.body).by_buffer
    steps: dict[Buffer, list[int]] = {}
    for buffer, indices in buffer_accesses(func.body):
        if buffer in local and not any(access.by_pointer for access in known.get(buffer, ())):
            row = steps.setdefault(buffer, [0] * len(indices))
            for dim, index in enumerate(indices):
                form = linear(index)
                row[dim] = gcd(row[dim], form.const, *form.terms.values())
    dense = {buffer: made for buffer, row in steps.items() if (made := _dense(buffer, row))}
    return on_body(func, _Divide(dense).visit) if dense else func


@dataclass(frozen=True, slots=True)
class _Dense:
    buffer: Buffer
    steps: tuple[int, ...]

    def indices(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices into the array without gaps."""
        return tuple(
            index if step == 1 else linear(index).split(step)[0].to_expr(index.dtype)
            for index, step in zip(indices, self.steps, strict=True)
        )


def _dense(buffer: Buffer, row: list[int]) -> _Dense | None:
    """Axes along which all elements used are more than one apart."""
    steps: list[int] = []
    shape: list[Expr] = []
    for extent, step in zip(buffer.shape, row, strict=True):
        if step > 1 and isinstance(extent, IntImm):
            steps.append(step)
            shape.append(const((extent.value - 1) // step + 1, extent.dtype))
        else:
            steps.append(1)
            shape.append(extent)
    if all(step == 1 for step in steps):
        return None
    return _Dense(buffer.replace(shape=tuple(shape)), tuple(steps))


class _Divide(Replacer):
    def __init__(self, dense: Mapping[Buffer, _Dense]) -> None:
        super().__init__({}, {})
        self.dense = dense

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        new = self.dense.get(buffer)
        return super().visit_buffer(buffer) if new is None else new.buffer

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        new = self.dense.get(buffer)
        if new is None:
            return super().access(buffer, indices)
        return new.buffer, new.indices(indices)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        result = super().visit_region(region)
        new = self.dense.get(region.buffer)
        if new is None:
            return result
        lows = new.indices(tuple(part.min for part in result.region))
        extents = [
            part.extent if step == 1 else (part.extent + (step - 1)) // step
            for part, step in zip(result.region, new.steps, strict=True)
        ]
        return BufferRegion(new.buffer, tuple(map(Range, lows, extents)))
