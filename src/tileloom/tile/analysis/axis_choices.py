"""What comparisons, selections, extremes and other elementwise operations make of what is known
of their operands (see `axis_lattice.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ..ir.core import Operation
from ..ir.types import TensorType, element_bits
from .axis_arithmetic import axis_rule, exact_runs
from .axis_lattice import (
    AxisInfo,
    AxisRun,
    Runs,
    aligned,
    axis_run,
    bounds_of,
    lowest_bit,
    make_info,
    narrow,
    uniform,
)

# Comparisons.

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


@axis_rule("arith.cmpi")
def _compare(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    predicate = op.enum("predicate") or ""
    unsigned = predicate.startswith("u")
    kind = predicate if predicate in ("eq", "ne") else predicate[1:]
    type, bits = op.results[0].type, element_bits(op.operands[0].type)
    if not unsigned or (left.low >= 0 and right.low >= 0):
        signed = not unsigned or bits > 1
        decided = _decided(kind, left, right) if signed and bits > 1 else None
        if decided is not None:
            return uniform(type, int(decided), int(decided), 1)
    runs = []
    width = bits if unsigned else 0
    for a, b in zip(exact_runs(left, width), exact_runs(right, width), strict=True):
        run = _compared_run(kind, a, b, right.constant_value)
        if run == 1:
            run = _compared_run(MIRRORED[kind], b, a, left.constant_value)
        runs.append(AxisRun(run, 0, run, 1))
    return make_info(type, runs, 0, 1)


def _decided(kind: str, left: AxisInfo, right: AxisInfo) -> bool | None:
    below, not_above = left.high < right.low, left.high <= right.low
    above, not_below = left.low > right.high, left.low >= right.high
    same = left.low == left.high == right.low == right.high
    yes, no = {
        "eq": (same, below or above),
        "ne": (below or above, same),
        "lt": (below, not_below),
        "le": (not_above, above),
        "gt": (above, not_above),
        "ge": (not_below, below),
    }[kind]
    return True if yes else False if no else None


def _compared_run(kind: str, a: AxisRun, b: AxisRun, constant: int | None) -> int:
    """How long blocks are in which a comparison with what is constant there has one outcome."""
    if a.stride == b.stride:
        return gcd(a.exact, b.exact)
    if b.stride:
        return 1
    if kind in ("lt", "ge"):
        return gcd(aligned(a, b.divisor), b.run)
    if kind in ("le", "gt") and constant is not None:  # x <= 7 is x < 8
        return aligned(a, lowest_bit(constant + 1))
    return 1


# Selections.


@axis_rule("arith.select")
def _select(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    condition, first, second = infos
    if condition.constant_value is not None:
        return first if condition.constant_value else second
    type = op.results[0].type
    limits = [0] * first.rank  # one condition chooses all elements
    if isinstance(op.operands[0].type, TensorType):
        limits = [1 if axis.stride else axis.run for axis in condition.runs]
    axes = zip(first.runs, second.runs, limits, strict=True)
    runs = [_selected_run(a, b, limit) for a, b, limit in axes]
    return make_info(type, runs, min(first.low, second.low), max(first.high, second.high))


def _selected_run(a: AxisRun, b: AxisRun, limit: int) -> AxisRun:
    run = gcd(a.run, b.run, limit) if a.stride == b.stride else 1
    a, b = narrow(a, run), narrow(b, run)
    return axis_run(run, a.stride, gcd(a.exact, b.exact), min(a.divisor, b.divisor))


# Extremes.


@axis_rule("arith.maxsi", "arith.minsi")
def _extreme(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    largest = op.name == "arith.maxsi"
    low_side, high_side = (left, right) if left.high <= right.low else (right, left)
    if low_side.high <= high_side.low:
        return high_side if largest else low_side
    choose = max if largest else min
    ends = choose(left.low, right.low), choose(left.high, right.high)
    return make_info(op.results[0].type, _extreme_runs(left.runs, right.runs), *ends)


@axis_rule("arith.maxui", "arith.minui")
def _unsigned_extreme(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    left, right = infos
    type = op.results[0].type
    if left.low >= 0 and right.low >= 0:
        low_side, high_side = (left, right) if left.high <= right.low else (right, left)
        largest = op.name == "arith.maxui"
        if low_side.high <= high_side.low:
            return high_side if largest else low_side
        choose = max if largest else min
        ends = choose(left.low, right.low), choose(left.high, right.high)
        return make_info(type, _extreme_runs(left.runs, right.runs), *ends)
    runs = (exact_runs(info, element_bits(type)) for info in infos)
    ends = min(left.low, right.low), max(left.high, right.high)
    return make_info(type, _extreme_runs(*runs), *ends)


def _extreme_runs(left: Runs, right: Runs) -> list[AxisRun]:
    """Runs with one stride stay side by side if they are exact; of others, single elements."""
    made = []
    for a, b in zip(left, right, strict=True):
        run = gcd(a.exact, b.exact) if a.stride == b.stride else 1
        a, b = narrow(a, run), narrow(b, run)
        made.append(axis_run(run, a.stride, run, min(a.divisor, b.divisor)))
    return made


# Others.


def elementwise(op: Operation, infos: Sequence[AxisInfo], index: int = 0) -> AxisInfo:
    """Of a function of elements: equal operands have equal results."""
    type = op.results[index].type
    runs = []
    for axes in zip(*(info.runs for info in infos), strict=True):
        run = gcd(*(1 if a.stride else a.run for a in axes))
        runs.append(AxisRun(run, 0, run, 1))
    return make_info(type, runs, *bounds_of(type))


@axis_rule("tt.load")
def _load(op: Operation, infos: Sequence[AxisInfo]) -> AxisInfo:
    volatile = op.attributes.get("isVolatile")
    made = elementwise(op, infos)
    if volatile is not None and op.integer("isVolatile"):
        return AxisInfo(tuple(AxisRun(1, 0, 1, 1) for _ in made.runs), made.low, made.high)
    return made
