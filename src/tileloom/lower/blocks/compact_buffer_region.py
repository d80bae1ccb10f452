"""Buffers shrink to what is used of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...expr import Expr, IntImm, Range, Var, const, free_vars, substitute
from ...expr.analyzer import Analyzer
from ...expr.linear import Linear
from ...tir import (
    Block,
    Buffer,
    BufferRegion,
    For,
    PrimFunc,
    Stmt,
    pre_order,
)
from ..analysis.known_bounds import size_bounds
from ..analysis.linear import linear
from ..analysis.regions import Accesses, Interval, hulls, thread_number
from ..common import Access, Replacer, on_body

ALIGN = "buffer_dim_align"
#: Memory of an unknown size is as large as it may be at most, if that is not more bytes: the stack.
SMALL = 1 << 17


def compact_buffer_region(func: PrimFunc) -> PrimFunc:
    """Every allocated buffer keeps, of each axis, only what one run of its block touches.

    An axis shrinks where the touched part has a constant length below the extent; its indices then
    count from the start of that part. Buffers reached through their pointer stay whole.
    A block annotation "buffer_dim_align" (buffer, axis, factor, offset: the stride of the axis is
    to be `offset` modulo `factor`) gives padded strides. An annotation "size_bounds" of the
    function's body (the least and the greatest value of variables, by name) lets buffers that stay
    small have the largest size that they may need.

    Needs: blocks without iteration variables and init; allocations planned.
    Memory that every thread has for itself keeps what one thread touches.

    Ensures: the same; every access is inside the new shape if it was inside the old.
    """
    found = Accesses.of(func.body)
    aligned = _alignments(func.body) if found.owners else {}
    known = size_bounds(func)
    shrunk: dict[Buffer, _Shrunk] = {}
    for buffer, accesses in found.by_buffer.items():
        if not accesses or buffer.strides or buffer.elem_offset is not None:
            continue
        if any(access.by_pointer for access in accesses):
            continue
        hull = hulls(accesses, len(found.owners[buffer]), found.bounds)
        new = _shrink(buffer, hull, aligned.get(buffer, ()), known)
        if new is not None:
            shrunk[buffer] = new
    return on_body(func, _Rebase(shrunk).visit) if shrunk else func


@dataclass(frozen=True, slots=True)
class _Shrunk:
    buffer: Buffer
    starts: tuple[Linear | None, ...]

    def shift(self, indices: Sequence[Expr], threads: Mapping[Var, Var]) -> tuple[Expr, ...]:
        """The indices into the small buffer, where thread numbers are these variables."""
        return tuple(
            index if start is None else _minus(index, start, threads)
            for index, start in zip(indices, self.starts, strict=True)
        )


def _minus(index: Expr, start: Linear, threads: Mapping[Var, Var]) -> Expr:
    if threads and any(not free_vars(atom).isdisjoint(threads) for atom in start.terms):
        start = linear(substitute(start.to_expr(index.dtype), threads))
    return linear(index).plus(start, -1).to_expr(index.dtype)


def _shrink(
    buffer: Buffer,
    hull: Sequence[Interval | None],
    aligned: Sequence[tuple[int, int, int]],
    known: Mapping[str, tuple[int, int]],
) -> _Shrunk | None:
    starts: list[Linear | None] = []
    shape: list[Expr] = []
    for extent, part in zip(buffer.shape, hull, strict=True):
        start, size = _axis(extent, part)
        starts.append(start)
        shape.append(size)
    most = [_most(size, known) for size in shape] if known else []
    count = prod(size.value for size in most if isinstance(size, IntImm))
    constant = bool(most) and all(isinstance(size, IntImm) for size in most)
    if constant and count * buffer.dtype.bytes <= SMALL:
        shape = most
    if not aligned and all(a is b for a, b in zip(shape, buffer.shape, strict=True)):
        return None
    strides = _padded(shape, aligned) if aligned else ()
    return _Shrunk(buffer.replace(shape=tuple(shape), strides=strides), tuple(starts))


def _most(size: Expr, known: Mapping[str, tuple[int, int]]) -> Expr:
    """The greatest value of a size, or the size itself if that is not known."""
    variables = free_vars(size)
    if not variables or any(var.name not in known for var in variables):
        return size
    analyzer = Analyzer()
    analyzer.bind_bounds({var: known[var.name] for var in variables})
    return const(int(analyzer.const_int_bound(size).max_value), size.dtype)


def _axis(extent: Expr, part: Interval | None) -> tuple[Linear | None, Expr]:
    if part is None:
        return None, extent
    low, high = part
    size = high.plus(low, -1)
    if size.terms or (isinstance(extent, IntImm) and size.const + 1 >= extent.value):
        return None, extent
    return low, const(max(size.const + 1, 1), extent.dtype)


def _padded(shape: Sequence[Expr], aligned: Sequence[tuple[int, int, int]]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    step: Expr = const(1, shape[-1].dtype)
    for axis in range(len(shape) - 1, -1, -1):
        for which, factor, offset in aligned:
            if which % len(shape) == axis:
                step = step + (offset - step) % factor
        strides.append(step)
        step = step * shape[axis]
    return tuple(reversed(strides))


def _alignments(stmt: Stmt) -> Mapping[Buffer, list[tuple[int, int, int]]]:
    result: dict[Buffer, list[tuple[int, int, int]]] = {}
    for node in pre_order(stmt):
        if isinstance(node, Block) and ALIGN in node.annotations:
            for entry in _entries(node.annotations[ALIGN]):
                index, axis, factor, offset = (int(part) for part in entry)
                buffer = node.writes[index].buffer
                result.setdefault(buffer, []).append((axis, factor, offset))
    return result


def _entries(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


class _Rebase(Replacer):
    def __init__(self, shrunk: Mapping[Buffer, _Shrunk]) -> None:
        super().__init__({}, {})
        self.shrunk = shrunk
        self.threads: dict[Var, Var] = {}  # of the thread loops around, by their numbers

    def visit_For(self, stmt: For) -> Stmt:
        if stmt.thread_binding is None:
            return super().visit_For(stmt)
        outer, tag = dict(self.threads), stmt.thread_binding.thread_tag
        self.threads[thread_number(tag, stmt.loop_var.dtype)] = stmt.loop_var
        self._done = {}
        result = super().visit_For(stmt)
        self.threads, self._done = outer, {}
        return result

    def visit_buffer(self, buffer: Buffer) -> Buffer:
        new = self.shrunk.get(buffer)
        return super().visit_buffer(buffer) if new is None else new.buffer

    def access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Access | None:
        new = self.shrunk.get(buffer)
        if new is None:
            return super().access(buffer, indices)
        return new.buffer, new.shift(indices, self.threads)

    def visit_region(self, region: BufferRegion) -> BufferRegion:
        result = super().visit_region(region)
        new = self.shrunk.get(region.buffer)
        if new is None:
            return result
        lows = new.shift([part.min for part in result.region], self.threads)
        extents = [part.extent for part in result.region]
        return BufferRegion(new.buffer, tuple(map(Range, lows, extents)))
