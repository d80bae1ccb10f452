"""Branches between blocks: on constants, to blocks that have no other way in, past empty ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.cf import block_operands
from ..ir.attributes import integer_value
from ..ir.core import Block, Operation, Region, Value
from ..ir.definitions import definition_of, segments
from ..ir.dominance import region_of
from ..ir.rewriter import PatternRewriter, constant_of, pattern
from ..ir.slots import SEGMENTS


def _branch_instead(
    op: Operation, target: Block, values: Sequence[Value], rewriter: PatternRewriter
) -> None:
    made = Operation(definition_of("cf.br"), values, successors=[target], span=op.span)
    op.block_of().insert_before(op, made)
    rewriter.erase_op(op)
    rewriter.push(made)


@pattern("cf.cond_br")
def take_known_target(op: Operation, rewriter: PatternRewriter) -> bool:
    """A branch on a constant goes to one target; so does one whose targets are the same."""
    taken = integer_value(constant_of(op.operands[0]))
    first, second = op.successors
    if taken is None and first is second and [*block_operands(op, 0)] == [*block_operands(op, 1)]:
        taken = 1
    if taken is None:
        return False
    index = 0 if taken else 1
    _branch_instead(op, op.successors[index], list(block_operands(op, index)), rewriter)
    return True


@pattern("cf.cond_br")
def select_values(op: Operation, rewriter: PatternRewriter) -> bool:
    """A branch to one block with different values selects the values."""
    first, second = op.successors
    if first is not second:
        return False
    rewriter.before_op(op)
    pairs = zip(block_operands(op, 0), block_operands(op, 1), strict=True)
    values = [a if a is b else rewriter("arith.select", op.operands[0], a, b) for a, b in pairs]
    _branch_instead(op, first, values, rewriter)
    return True


@pattern("cf.br")
def merge_target(op: Operation, rewriter: PatternRewriter) -> bool:
    """A block that only one branch goes to, and always, follows it at once."""
    block, target = op.block_of(), op.successors[0]
    region = region_of(target)
    if target is block or target is region.blocks[0] or target.predecessors != [block]:
        return False
    for argument, value in zip(target.arguments, op.operands, strict=True):
        rewriter.replace_value(argument, value)
    rewriter.erase_op(op)
    for inner in list(target):
        block.append(inner.detach())
        rewriter.push(inner)
    region.blocks.remove(target)
    return True


@pattern("cf.br", "cf.cond_br")
def pass_empty_target(op: Operation, rewriter: PatternRewriter) -> bool:
    """A block that only branches on is passed."""
    groups = [list(block_operands(op, index)) for index in range(len(op.successors))]
    changed = False
    for index, target in enumerate(op.successors):
        only = target.first
        if only is None or only.name != "cf.br" or only.successors[0] is target:
            continue
        if any(user is not only for argument in target.arguments for user in argument.users):
            continue
        given = dict(zip(target.arguments, groups[index], strict=True))
        groups[index] = [given.get(value, value) for value in only.operands]  # type: ignore[call-overload]
        op.successors[index] = only.successors[0]
        changed = True
    if changed:
        _set_groups(op, groups)
        rewriter.modified(op)
    return changed


def _set_groups(op: Operation, groups: Sequence[Sequence[Value]]) -> None:
    """Gives a branch the values for its targets."""
    values = [value for group in groups for value in group]
    if op.name == "cf.br":
        op.set_operands(values)
        return
    op.set_operands([op.operands[0], *values])
    op.attributes[SEGMENTS] = segments((1, *map(len, groups)))


def drop_unreachable(region: Region) -> bool:
    """Removes the blocks that no path from the entry leads to."""
    if len(region.blocks) < 2:
        return False
    reached: set[Block] = set()
    waiting = [region.blocks[0]]
    while waiting:
        block = waiting.pop()
        if block not in reached:
            reached.add(block)
            waiting.extend(block.successors)
    gone = [block for block in region.blocks if block not in reached]
    for block in gone:
        for op in block:
            op.drop_references()
    region.blocks = [block for block in region.blocks if block in reached]
    return bool(gone)
