"""`scf.while` with fewer carried values.

The loop carries `inits` to its first region, whose `scf.condition` gives values to the second one
and, at the end, to the results; the second region's `scf.yield` gives the next carried values.
"""

from __future__ import annotations

from collections.abc import Collection

from ..ir.attributes import constant_attribute
from ..ir.core import BlockArgument, Operation, Region, Value
from ..ir.rewriter import PatternRewriter, pattern
from ..ir.types import I1


def _rebuild(
    op: Operation, inits: Collection[int], results: Collection[int], rewriter: PatternRewriter
) -> None:
    """The loop without some carried values and some results, in its place."""
    before, after = (region.blocks[0] for region in op.regions)
    kept_inits = [i for i in range(len(op.operands)) if i not in inits]
    kept = [i for i in range(len(op.results)) if i not in results]
    regions = [Region(), Region()]
    made = Operation(
        op.definition,
        [op.operands[i] for i in kept_inits],
        [op.results[i].type for i in kept],
        op.attributes,
        regions,
        span=op.span,
    )
    condition, last = before.terminator, after.terminator
    unused = [condition.operands[i + 1].defining_op for i in results]
    unused += [last.operands[i].defining_op for i in inits]
    condition.set_operands([condition.operands[0], *(condition.operands[i + 1] for i in kept)])
    last.set_operands([last.operands[i] for i in kept_inits])
    for source, target in zip(op.regions, regions, strict=True):
        source.move_blocks_to(target)
    before.remove_arguments(inits)
    after.remove_arguments(results)
    op.block_of().insert_before(op, made)
    for index, result in zip(kept, made.results, strict=True):
        rewriter.replace_value(op.results[index], result)
    rewriter.erase_op(op)
    rewriter.push(made)
    for each in unused:
        rewriter.push(each)


def _is_simple(op: Operation) -> bool:
    return all(len(region.blocks) == 1 for region in op.regions)


@pattern("scf.while")
def drop_carried(op: Operation, rewriter: PatternRewriter) -> bool:
    """Carried values that are not used, or never change, are not carried."""
    if not _is_simple(op):
        return False
    before, after = (region.blocks[0] for region in op.regions)
    gone = []
    for index, argument in enumerate(before.arguments):
        init, value = op.operands[index], after.terminator.operands[index]
        if value is init or _comes_back(value, argument, op):
            rewriter.replace_value(argument, init)
        elif argument.users:
            continue
        gone.append(index)
    if not gone:
        return False
    _rebuild(op, gone, (), rewriter)
    return True


def _comes_back(value: Value, argument: BlockArgument, op: Operation) -> bool:
    """Whether what is carried next is what was carried: given on by the condition as it is."""
    if value is argument:
        return True
    before, after = (region.blocks[0] for region in op.regions)
    if not isinstance(value, BlockArgument) or value.owner is not after:
        return False
    return before.terminator.operands[value.index + 1] is argument


@pattern("scf.while")
def drop_given(op: Operation, rewriter: PatternRewriter) -> bool:
    """Values given on that are known outside, given twice, or not used, are not given on."""
    if not _is_simple(op):
        return False
    before, after = (region.blocks[0] for region in op.regions)
    gone = []
    given: dict[Value, int] = {}
    for index, value in enumerate(before.terminator.operands[1:]):
        argument, result = after.arguments[index], op.results[index]
        first = given.setdefault(value, index)
        if _is_known_outside(value, op):
            rewriter.replace_value(argument, value)
            rewriter.replace_value(result, value)
        elif first != index:
            rewriter.replace_value(argument, after.arguments[first])
            rewriter.replace_value(result, op.results[first])
        elif argument.users or result.users:
            continue
        gone.append(index)
    if not gone:
        return False
    _rebuild(op, (), gone, rewriter)
    return True


def _is_known_outside(value: Value, op: Operation) -> bool:
    block = value.block
    around = block.parent_op if block is not None else None
    return around is None or not around.is_inside(op)


@pattern("scf.while")
def know_condition(op: Operation, rewriter: PatternRewriter) -> bool:
    """In the second region the condition holds."""
    if not _is_simple(op):
        return False
    before, after = (region.blocks[0] for region in op.regions)
    condition = before.terminator
    changed = False
    for value, argument in zip(condition.operands[1:], after.arguments, strict=True):
        if value is condition.operands[0] and argument.users:
            known = rewriter.constant_at_entry(constant_attribute(1, I1), I1, op)
            rewriter.replace_value(argument, known)
            changed = True
    return changed
