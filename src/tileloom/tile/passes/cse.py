"""Common subexpressions: an operation that was done before on the same operands is not done
again."""

from __future__ import annotations

from typing import Any

from ..ir.core import Block, Operation, Region
from ..ir.definitions import Trait
from ..ir.dominance import Dominance, is_isolated
from ..ir.rewriter import PatternRewriter, erase_if_dead
from .registry import tile_pass


@tile_pass("cse")
def cse(module: Operation) -> None:
    """Replaces pure operations by equal ones that dominate them."""
    rewriter = PatternRewriter()
    for region in module.regions:
        _in_region(region, {}, Dominance(), rewriter)


def _in_region(
    region: Region, outer: dict[Any, Operation], dominance: Dominance, rewriter: PatternRewriter
) -> None:
    single = len(region.blocks) == 1
    known = dict(outer)
    for block in region.blocks:
        # With several blocks, what one block knows holds in blocks that it dominates.
        scope = known if single else dict(outer)
        if not single:
            _from_dominators(block, scope, dominance, known)
        _in_block(block, scope, dominance, rewriter)
        if not single:
            known.update({(block, key): op for key, op in scope.items() if op.block is block})


def _from_dominators(
    block: Block, scope: dict[Any, Operation], dominance: Dominance, known: dict[Any, Operation]
) -> None:
    for key, op in known.items():
        first = key[0]
        if isinstance(first, Block) and dominance.block_dominates(first, block):
            scope[key[1]] = op


def _in_block(
    block: Block, scope: dict[Any, Operation], dominance: Dominance, rewriter: PatternRewriter
) -> None:
    for op in block.snapshot():
        if erase_if_dead(op, rewriter):
            continue
        for region in op.regions:
            _in_region(region, {} if is_isolated(op) else scope, dominance, rewriter)
        if not op.definition.is_pure or op.definition.is_terminator or not op.results:
            continue
        key = signature(op)
        earlier = scope.get(key)
        if earlier is None:
            scope[key] = op
        else:
            rewriter.replace_op(op, earlier.results)


def signature(op: Operation, numbers: dict[Any, Any] | None = None) -> Any:
    """What two operations share that compute the same: a key to look one up by."""
    numbers = {} if numbers is None else numbers
    operands: Any = tuple(numbers.get(operand, operand) for operand in op.operands)
    if len(operands) == 2 and Trait.COMMUTATIVE in op.definition.traits:
        operands = tuple(sorted(operands, key=id))
    regions = tuple(_region_signature(region, numbers) for region in op.regions)
    return (
        op.name,
        operands,
        tuple(op.result_types),
        frozenset(op.attributes.items()),
        regions,
    )


def _region_signature(region: Region, numbers: dict[Any, Any]) -> Any:
    """A region by its operations, its values numbered."""
    if len(region.blocks) != 1:
        return region  # equal to itself alone
    parts: list[Any] = []
    inner = dict(numbers)
    block = region.blocks[0]
    for argument in block.arguments:
        inner[argument] = ("value", len(inner))
    parts.append(tuple(argument.type for argument in block.arguments))
    for op in block:
        parts.append(signature(op, inner))
        for result in op.results:
            inner[result] = ("value", len(inner))
    return tuple(parts)
