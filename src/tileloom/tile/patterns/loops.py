"""Loops with fewer carried values, and loops that run once or never."""

from __future__ import annotations

from collections.abc import Collection

from ..dialects.scf import ForLoop
from ..ir.attributes import integer_value
from ..ir.core import Operation, Region, Value
from ..ir.rewriter import PatternRewriter, constant_of, pattern
from .inlining import inline_before


def trip_count(op: Operation) -> int | None:
    """How often a loop runs, if that is known."""
    loop = ForLoop(op)
    if loop.lower is loop.upper:
        return 0
    bounds = [integer_value(constant_of(v)) for v in (loop.lower, loop.upper, loop.step)]
    lower, upper, step = bounds
    if lower is None or upper is None:
        return None
    if upper <= lower:
        return 0
    return None if step is None or step <= 0 else -(-(upper - lower) // step)


def drop_iter_args(op: Operation, gone: Collection[int], rewriter: PatternRewriter) -> Operation:
    """The loop without some of its `iter_args`, in its place. Neither they nor their results
    may be used."""
    kept = [i for i in range(len(op.results)) if i not in gone]
    old = ForLoop(op)
    operands = [*op.operands[:3], *(old.inits[i] for i in kept)]
    made = Operation(
        op.definition,
        operands,
        [op.results[i].type for i in kept],
        op.attributes,
        [Region()],
        span=op.span,
    )
    terminator = old.body.terminator
    unused = [old.yields[i].defining_op for i in gone]
    terminator.set_operands([old.yields[i] for i in kept])
    op.regions[0].move_blocks_to(made.regions[0])
    made.body.remove_arguments([i + 1 for i in gone])
    op.block_of().insert_before(op, made)
    for index, result in zip(kept, made.results, strict=True):
        result.name = op.results[index].name
        rewriter.replace_value(op.results[index], result)
    rewriter.erase_op(op)
    rewriter.push(made)
    for each in unused:
        rewriter.push(each)
    return made


@pattern("scf.for")
def fold_iter_args(op: Operation, rewriter: PatternRewriter) -> bool:
    """Drops what a loop carries but does not change, does not use, or carries twice."""
    loop = ForLoop(op)
    gone: list[int] = []
    carried: dict[tuple[Value, Value], int] = {}
    for index, argument in enumerate(loop.iter_args):
        init, value, result = loop.inits[index], loop.yields[index], op.results[index]
        first = carried.setdefault((init, value), index)
        if value in (argument, init):
            rewriter.replace_value(argument, init)
            rewriter.replace_value(result, init)
        elif first != index:
            rewriter.replace_value(argument, loop.iter_args[first])
            rewriter.replace_value(result, op.results[first])
        elif argument.users or result.users:
            continue
        gone.append(index)
    if not gone:
        return False
    drop_iter_args(op, gone, rewriter)
    return True


@pattern("scf.for")
def run_once_or_never(op: Operation, rewriter: PatternRewriter) -> bool:
    """A loop that runs never is its first values; one that runs once is its body; one that
    only yields what is known outside is that."""
    count = trip_count(op)
    if count is None:
        return False
    loop = ForLoop(op)
    if count == 0:
        rewriter.replace_op(op, list(loop.inits))
        return True
    if count == 1:
        values = inline_before(op, loop.body, [loop.lower, *loop.inits], rewriter)
        rewriter.replace_op(op, values)
        return True
    known_outside = all(value.block is not loop.body for value in loop.yields)
    if loop.body.first is loop.body.terminator and known_outside:
        rewriter.replace_op(op, list(loop.yields))
        return True
    return False
