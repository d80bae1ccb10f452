"""Reductions with few results, split into partial ones so that every worker has a share.

The outermost reduced axis is cut into parts; a first pass reduces each part, a second one combines
what the parts gave. (Known as `rfactor` in schedules.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import compute as te
from ...base.sums import LEAST_PARTS, equal_parts, parts_of
from ...expr import (
    And,
    CommReducer,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    binary,
    const,
    substitute,
)
from ..symbols import is_symbolic
from .atoms import domain
from .frame import Axis
from .stages import PlanRefused, Stage


def split_reduction(stage: Stage) -> tuple[Stage, Stage]:
    """A stage that reduces parts and a stage that combines them; the second makes the results.

    Raises:
        PlanRefused: no reduced axis is long enough.
    """
    live = domain(stage)
    axis = next((a for a in live if a.reduce and a.extent >= LEAST_PARTS), None)
    first = stage.body[0]
    if axis is None or not isinstance(first, Reduce):
        raise PlanRefused("no axis to split")
    parts, length = _cut(axis, live)
    (old,) = axis.parts
    part, inner = Var("part", old.dtype), Var(old.name, old.dtype)
    position = part * length + inner
    values = {old: position}
    sources = [substitute(value, values) for value in first.source]
    condition = substitute(first.condition, values)
    if parts * length != axis.extent:
        condition = binary(And, position < axis.extent, condition)
    axes = [_axis(part, parts)]
    axes += [_axis(v, n) for v, n in zip(stage.axes, stage.extents, strict=True)]
    reduced = [
        _axis(inner, length) if v is old else _axis(v, n)
        for v, n in zip(stage.reduce_axes, stage.reduce_extents, strict=True)
    ]
    bodies = [
        Reduce(first.combiner, sources, (), reduced, condition, k) for k in range(len(stage.body))
    ]
    op = te.ComputeOp(f"{stage.op.name}_parts", axes, bodies, {})
    early = Stage(
        op,
        (part, *stage.axes),
        (parts, *stage.extents),
        tuple(a.var for a in reduced),
        tuple(
            length if v is old else n
            for v, n in zip(stage.reduce_axes, stage.reduce_extents, strict=True)
        ),
        op.body,
    )
    return early, _combine(stage, first, op, parts)


def _cut(axis: Axis, axes: Sequence[Axis]) -> tuple[int, int]:
    """The number of parts and their length; equal parts if there is a divisor near."""
    extent = axis.extent
    if any(is_symbolic(other.extent) for other in axes):
        parts = 4 * LEAST_PARTS if is_symbolic(extent) else LEAST_PARTS
        return parts, -(-extent // parts)
    wanted = parts_of(prod(other.extent for other in axes), extent)
    equal = equal_parts(extent, wanted)
    if equal is not None:
        return extent // equal, equal
    length = -(-extent // wanted)
    length = -(-length // 64) * 64 if length > 64 else length
    return -(-extent // length), length


def _axis(var: Var, extent: int) -> IterVar:
    return IterVar(Range(const(0, var.dtype), const(extent, var.dtype)), var)


def _combine(stage: Stage, first: Reduce, op: te.ComputeOp, parts: int) -> Stage:
    number = Var("part", op.axis[0].var.dtype)
    combiner: CommReducer = first.combiner
    loads = [ProducerLoad(tensor, [number, *stage.axes]) for tensor in op.outputs]
    axes = [_axis(number, parts)]
    bodies = tuple(
        Reduce(combiner, loads, first.init, axes, const(True), k) for k in range(len(stage.body))
    )
    return Stage(stage.op, stage.axes, stage.extents, (number,), (parts,), bodies)
