"""Branches of `scf.if` that are known, empty, or the same."""

from __future__ import annotations

from collections.abc import Collection

from ..dialects.scf import IfBranches, make_yield
from ..ir.attributes import constant_attribute, integer_value
from ..ir.core import Block, Operation, Region, Value
from ..ir.rewriter import PatternRewriter, constant_of, pattern
from ..ir.types import I1
from .inlining import inline_before


def drop_if_results(op: Operation, gone: Collection[int], rewriter: PatternRewriter) -> Operation:
    """The branch without some of its results, which nothing may use, in its place."""
    kept = [i for i in range(len(op.results)) if i not in gone]
    regions = [Region(), Region()]
    made = Operation(
        op.definition,
        op.operands,
        [op.results[i].type for i in kept],
        op.attributes,
        regions,
        span=op.span,
    )
    for region, target in zip(op.regions, regions, strict=True):
        region.move_blocks_to(target)
        for block in target.blocks:
            last = block.terminator
            unused = [last.operands[i].defining_op for i in gone]
            last.set_operands([last.operands[i] for i in kept])
            for each in unused:
                rewriter.push(each)
    op.block_of().insert_before(op, made)
    for index, result in zip(kept, made.results, strict=True):
        result.name = op.results[index].name
        rewriter.replace_value(op.results[index], result)
    rewriter.erase_op(op)
    rewriter.push(made)
    return made


@pattern("scf.if")
def take_known_branch(op: Operation, rewriter: PatternRewriter) -> bool:
    """A branch on a constant is the one that is taken."""
    taken = integer_value(constant_of(op.operands[0]))
    if taken is None:
        return False
    branches = IfBranches(op)
    block = branches.then_block if taken else branches.else_block
    values = [] if block is None else inline_before(op, block, (), rewriter)
    rewriter.replace_op(op, values)
    return True


@pattern("scf.if")
def drop_unused_results(op: Operation, rewriter: PatternRewriter) -> bool:
    """Results that nobody uses are not yielded."""
    gone = [i for i, result in enumerate(op.results) if not result.users]
    if not gone:
        return False
    drop_if_results(op, gone, rewriter)
    return True


@pattern("scf.if")
def select_instead(op: Operation, rewriter: PatternRewriter) -> bool:
    """A result that both branches know from outside is selected."""
    branches = IfBranches(op)
    otherwise = branches.else_block
    if not op.results or otherwise is None:
        return False
    gone = []
    rewriter.before_op(op)
    pairs = zip(branches.yields(True), branches.yields(False), strict=True)
    for index, (first, second) in enumerate(pairs):
        if first.block is branches.then_block or second.block is otherwise:
            continue
        value: Value = first
        if first is not second:
            value = rewriter("arith.select", op.operands[0], first, second)
        rewriter.replace_value(op.results[index], value)
        gone.append(index)
    if not gone:
        return False
    drop_if_results(op, gone, rewriter)
    return True


@pattern("scf.if")
def know_condition_inside(op: Operation, rewriter: PatternRewriter) -> bool:
    """In a branch its condition is a constant."""
    condition = op.operands[0]
    if condition.use_count == 1:
        return False
    changed = False
    for value, region in zip((1, 0), op.regions, strict=True):
        inside = [user for user in condition.users if _is_in_region(user, region)]
        if inside:
            known = rewriter.constant_at_entry(constant_attribute(value, I1), I1, op)
            for user in inside:
                user.replace_operand(condition, known)
                rewriter.modified(user)
            changed = True
    return changed


def _is_in_region(op: Operation, region: Region) -> bool:
    return any(a.block is not None and a.block.region is region for a in op.ancestors())


def _is_empty(block: Block | None) -> bool:
    return block is None or block.first is block.terminator


@pattern("scf.if")
def drop_empty_else(op: Operation, rewriter: PatternRewriter) -> bool:
    """Without results there is no need of an empty else branch."""
    branches = IfBranches(op)
    if op.results or branches.else_block is None or not _is_empty(branches.else_block):
        return False
    rewriter.erase_op(branches.else_block.terminator)
    op.regions[1].blocks = []
    return True


@pattern("scf.if")
def exchange_branches(op: Operation, rewriter: PatternRewriter) -> bool:
    """A branch on the contrary of a condition has its branches exchanged."""
    inner = op.operands[0].defining_op
    if inner is None or inner.name != "arith.xori" or not op.regions[1].blocks:
        return False
    if integer_value(constant_of(inner.operands[1])) != 1:
        return False
    op.set_operand(0, inner.operands[0])
    op.regions.reverse()
    rewriter.modified(op)
    rewriter.push(inner)
    return True


@pattern("scf.if")
def combine_with_previous(op: Operation, rewriter: PatternRewriter) -> bool:
    """Two branches on one condition, one right after the other, are one."""
    previous = op.previous
    if previous is None or previous.name != "scf.if":
        return False
    if previous.operands[0] is not op.operands[0]:
        return False
    first, second = IfBranches(previous), IfBranches(op)
    for taken in (True, False):
        yielded = first.yields(taken)
        region = op.regions[0 if taken else 1]
        for index, result in enumerate(previous.results):
            for user in list(result.users):
                if _is_in_region(user, region):
                    user.replace_operand(result, yielded[index])
                    rewriter.modified(user)
    kept = [result for result in previous.results if result.users]
    types = [value.type for value in (*kept, *op.results)]
    regions = [Region(), Region()]
    made = Operation(op.definition, op.operands, types, previous.attributes, regions, span=op.span)
    for taken, region in zip((True, False), regions, strict=True):
        blocks = [
            (branches.then_block if taken else branches.else_block) for branches in (first, second)
        ]
        if blocks == [None, None]:
            continue
        _join_blocks(region, blocks, [result.index for result in kept], rewriter)
    op.block_of().insert_before(op, made)
    for old, new in zip((*kept, *op.results), made.results, strict=True):
        rewriter.replace_value(old, new)
    rewriter.erase_op(op)
    rewriter.erase_op(previous)
    rewriter.push(made)
    return True


def _join_blocks(
    region: Region, blocks: list[Block | None], kept: list[int], rewriter: PatternRewriter
) -> None:
    """One block of the operations of two, that yields what the first one does of `kept` and
    all that the second one does."""
    target = region.append(Block())
    values: list[Value] = []
    for number, block in enumerate(blocks):
        if block is None:
            continue
        for inner in list(block):
            if inner.definition.is_terminator:
                chosen = [inner.operands[i] for i in kept] if number == 0 else inner.operands
                values.extend(chosen)
            else:
                target.append(inner.detach())
                rewriter.push(inner)
    target.append(make_yield(values))


@pattern("scf.if")
def combine_nested(op: Operation, rewriter: PatternRewriter) -> bool:
    """A branch that has but another one in it is one branch on both conditions."""
    branches = IfBranches(op)
    if op.results or not _is_empty(branches.else_block):
        return False
    inner = branches.then_block.first
    if inner is None or inner.name != "scf.if" or inner.results:
        return False
    if inner.next is not branches.then_block.terminator:
        return False
    inside = IfBranches(inner)
    if not _is_empty(inside.else_block) or inside.condition.block is branches.then_block:
        return False
    rewriter.before_op(op)
    both = rewriter("arith.andi", branches.condition, inside.condition)
    inner.move_before(op)
    inner.set_operand(0, both)
    rewriter.modified(inner)
    rewriter.erase_op(op)
    return True
