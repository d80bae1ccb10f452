"""What operations that move elements make of what is known of them (see `axis_lattice.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from ..ir.attributes import DenseArrayAttr
from ..ir.core import Operation
from .axis_arithmetic import axis_rule
from .axis_lattice import (
    AxisInfo,
    AxisRun,
    axis_run,
    bounds_of,
    every,
    join,
    join_runs,
    make_info,
    narrow,
    scalars,
    shape_of,
)

Sized = tuple[int, AxisRun]  # a dimension's size, and what is known along it


@axis_rule("ttg.convert_layout")
def _convert(_op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    return infos[0]


@axis_rule("tt.splat")
def _splat(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info, type = infos[0], op.results[0].type
    divisor = info.runs[0].divisor
    runs = [AxisRun(size, 0, size, divisor) for size in shape_of(type)]
    return AxisInfo(tuple(runs), info.low, info.high, info.unit)


@axis_rule("tt.unsplat")
def _unsplat(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info = infos[0]
    axis = AxisRun(1, 0, 1, max(map(every, info.runs)))
    return make_info(op.results[0].type, [axis], info.low, info.high)


@axis_rule("tt.broadcast")
def _broadcast(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    source = shape_of(op.operands[0].type)
    result = shape_of(op.results[0].type)
    runs = [
        axis if old == new else AxisRun(new, 0, new, axis.divisor)
        for axis, old, new in zip(infos[0].runs, source, result, strict=True)
    ]
    return make_info(op.results[0].type, runs, infos[0].low, infos[0].high)


@axis_rule("tt.expand_dims")
def _expand(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    axis, runs = op.integer("axis"), list(infos[0].runs)
    runs.insert(axis, AxisRun(1, 0, 1, max(map(every, runs))))
    return make_info(op.results[0].type, runs, infos[0].low, infos[0].high)


@axis_rule("tt.trans", "ttg.memdesc_trans")
def _transpose(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    order = op.attributes["order"]
    dims = order.values if isinstance(order, DenseArrayAttr) else range(infos[0].rank)
    runs = tuple(infos[0].runs[d] for d in dims)
    return AxisInfo(runs, infos[0].low, infos[0].high, infos[0].unit)


# Reshapes: dimensions whose sizes have the same product are merged into one, which is split.


@axis_rule("tt.reshape")
def _reshape(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info, type = infos[0], op.results[0].type
    source, result = shape_of(op.operands[0].type), shape_of(type)
    shared = max(map(every, info.runs))
    if "allow_reorder" in op.attributes:
        runs = [AxisRun(1, 0, 1, shared)] * len(result)
        return make_info(type, runs, info.low, info.high)
    runs = []
    for inputs, sizes in matching_groups(source, result):
        axes = [(source[d], info.runs[d]) for d in inputs]
        if len(axes) == len(sizes) == 1:
            runs.append(axes[0][1])
        else:
            flat = merged(axes) if axes else (1, AxisRun(1, 0, 1, shared))
            runs += split_axis(flat, sizes)
    return make_info(type, runs, info.low, info.high)


def matching_groups(
    source: Sequence[int], result: Sequence[int]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """The dimensions of one shape that become sizes of another, as few as can be at a time.

    >>> [(list(a), b) for a, b in matching_groups((4, 8, 16), (32, 4, 4))]
    [([0, 1], (32,)), ([2], (4, 4))]
    """
    i = j = 0
    while i < len(source) or j < len(result):
        first, start, left, right = i, j, 1, 1
        while left != right or i == first or j == start:
            if left <= right and i < len(source):
                left *= source[i]
                i += 1
            elif j < len(result):
                right *= result[j]
                j += 1
            else:
                break
        yield range(first, i), tuple(result[start:j])


def merged(axes: Sequence[Sized]) -> Sized:
    """Several dimensions as one, in row-major order."""
    size, axis = axes[-1]
    for outer_size, outer in reversed(axes[:-1]):
        axis = _merged_pair(outer, axis, size)
        size *= outer_size
    return size, axis


def _merged_pair(outer: AxisRun, inner: AxisRun, size: int) -> AxisRun:
    """Blocks of the inner dimension, of a size, that go on along the outer one."""
    if size == 1:
        return outer
    inner = narrow(inner, gcd(inner.run, size))
    whole = inner.run == size and outer.run > 1 and outer.stride == inner.stride * size
    if not whole:
        return inner
    exact = size * outer.exact if inner.exact == size else inner.exact
    divisor = max(inner.divisor, outer.divisor)
    return axis_run(size * outer.run, inner.stride, exact, divisor)


def split_axis(flat: Sized, sizes: Sequence[int]) -> list[AxisRun]:
    """One dimension as several."""
    axis = flat[1]
    made: list[AxisRun] = []
    inner = 1
    for size in reversed(sizes):
        made.append(_split_run(axis, size, inner))
        inner *= size
    return made[::-1]


def _split_run(axis: AxisRun, size: int, step: int) -> AxisRun:
    """Along a dimension whose neighbours are `step` apart."""
    if axis.run % step:
        return AxisRun(1, 0, 1, every(axis))
    run = gcd(axis.run // step, size)
    exact = gcd(axis.exact // step, run) if axis.exact % step == 0 else 1
    if step == 1:
        return narrow(axis, run)
    return axis_run(run, axis.stride * step, exact, every(axis))


# Several tensors.


@axis_rule("tt.join")
def _join(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    runs = [join_runs(a, b) for a, b in zip(left.runs, right.runs, strict=True)]
    runs.append(AxisRun(1, 0, 1, min(max(map(every, info.runs)) for info in infos)))
    ends = min(left.low, right.low), max(left.high, right.high)
    return make_info(op.results[0].type, runs, *ends)


@axis_rule("tt.split")
def _split(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    info = infos[0]
    runs = info.runs[:-1] or (AxisRun(1, 0, 1, max(map(every, info.runs))),)
    return make_info(op.results[0].type, runs, info.low, info.high)


@axis_rule("tt.cat")
def _concatenate(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    both = join(infos[0], infos[1], op.operands[0].type)
    runs = [scalars(a) for a in both.runs]
    return make_info(op.results[0].type, runs, both.low, both.high)


@axis_rule("tt.gather")
def _gather(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    source, indices = infos
    axis, type = op.integer("axis"), op.results[0].type
    shared = max(map(every, source.runs))
    runs = []
    for d, (a, b) in enumerate(zip(source.runs, indices.runs, strict=True)):
        equal = 1 if b.stride else b.run
        run = equal if d == axis else gcd(equal, 1 if a.stride else a.run)
        runs.append(AxisRun(run, 0, run, shared))
    return make_info(type, runs, source.low, source.high)


@axis_rule("tt.histogram")
def _histogram(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    type = op.results[0].type
    return make_info(type, [AxisRun(1, 0, 1, 1)], 0, bounds_of(type)[1])
