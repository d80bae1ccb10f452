"""Loops unrolled by the factor that they ask for (`tt.loop_unroll_factor`)."""

from __future__ import annotations

from ..dialects.scf import ForLoop
from ..ir.attributes import IntegerAttr, integer_value
from ..ir.core import Operation, Value
from ..ir.rewriter import OpBuilder, PatternRewriter, constant_of
from ..ir.types import I32
from ..patterns.loops import run_once_or_never, trip_count
from .registry import tile_pass

FACTOR = "tt.loop_unroll_factor"
STAGES = "tt.num_stages"


@tile_pass("triton-loop-unroll")
def triton_loop_unroll(module: Operation) -> None:
    """Repeats the bodies of loops that ask for it; what iterations are left are a loop of their
    own, that is not pipelined."""
    loops = [op for op in module.walk() if op.name == "scf.for" and FACTOR in op.attributes]
    for op in loops:
        factor = integer_value(op.attributes[FACTOR]) or 1
        if factor > 1:
            del op.attributes[FACTOR]
            if op.body.first is not op.body.terminator:
                unroll(op, factor)


def unroll(op: Operation, factor: int) -> Operation | None:
    """Unrolls a loop in place.

    Returns:
        The loop of the iterations that are left, or None if there are none.
    """
    bounds = [integer_value(constant_of(value)) for value in op.operands[:3]]
    lower, upper, step = bounds
    if lower is None or upper is None or step is None:
        end, wide = _bounds_of_unknown(op, factor)
        remains = True
    else:
        count = max(-(-(upper - lower) // step), 0)
        whole = lower + count // factor * factor * step
        remains = whole < upper
        build = OpBuilder(before=op)
        type = op.operands[0].type
        end = build.constant(whole, type) if remains or whole != upper else op.operands[1]
        wide = build.constant(step * factor, type)
    rest = _rest(op, end) if remains else None
    narrow = op.operands[2]
    op.set_operand(1, end)
    op.set_operand(2, wide)
    _repeat_body(op, narrow, factor)
    for each in (rest, op):
        if each is not None:
            _promote(each)
    return rest if rest is not None and rest.block is not None else None


def _bounds_of_unknown(op: Operation, factor: int) -> tuple[Value, Value]:
    """The end of the iterations that are a multiple of the factor, and the step of the unrolled
    loop."""
    lower, upper, step = op.operands[:3]
    build = OpBuilder(before=op)
    type = lower.type
    extent = build("arith.subi", upper, lower)
    most = build("arith.subi", step, build.constant(1, type))
    count = build("arith.divui", build("arith.addi", extent, most), step)
    times = build.constant(factor, type)
    left = build("arith.remsi", count, times)
    whole = build("arith.subi", count, left)
    end = build("arith.addi", lower, build("arith.muli", whole, step))
    return end, build("arith.muli", step, times)


def _rest(op: Operation, start: Value) -> Operation:
    """A copy of the loop after it, of the iterations that are left."""
    rest = op.clone()
    op.block_of().insert_after(op, rest)
    for old, new in zip(op.results, rest.results, strict=True):
        old.replace_uses(new)
    rest.set_operands([start, *op.operands[1:3], *op.results])
    rest.attributes[STAGES] = IntegerAttr(1, I32)
    return rest


def _repeat_body(op: Operation, step: Value, factor: int) -> None:
    loop = ForLoop(op)
    body, terminator = loop.body, loop.body.terminator
    own = list(body.before_terminator())
    first = list(terminator.operands)
    values = first
    for index in range(1, factor):
        mapping: dict[Value, Value] = dict(zip(loop.iter_args, values, strict=True))
        build = OpBuilder(before=terminator)
        if loop.iv.users:
            stride = build("arith.muli", step, build.constant(index, loop.iv.type))
            mapping[loop.iv] = build("arith.addi", loop.iv, stride)
        for each in own:
            build.insert(each.clone(mapping))
        values = [mapping.get(value, value) for value in first]
    terminator.set_operands(values)


def _promote(op: Operation) -> None:
    """A loop that runs once is no loop."""
    if trip_count(op) == 1:
        run_once_or_never(op, PatternRewriter())
