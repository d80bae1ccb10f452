"""Loads and stores whose mask is known."""

from __future__ import annotations

from ..ir.attributes import integer_value
from ..ir.core import Operation
from ..ir.definitions import segments
from ..ir.rewriter import PatternRewriter, constant_of, pattern
from ..ir.slots import SEGMENTS


def _known_mask(op: Operation) -> int | None:
    mask = op.operand("mask")
    return None if mask is None else integer_value(constant_of(mask))


@pattern("tt.load")
def load_by_known_mask(op: Operation, rewriter: PatternRewriter) -> bool:
    """A load where all is loaded needs no mask; one where nothing is, is its other value."""
    mask = _known_mask(op)
    if mask is None:
        return False
    if mask:
        unused = [operand.defining_op for operand in op.operands[1:]]
        op.set_operands(op.operands[:1])
        op.attributes[SEGMENTS] = segments((1, 0, 0))
        rewriter.modified(op)
        for each in unused:
            rewriter.push(each)
        return True
    other = op.operand("other")
    if other is None or integer_value(op.attributes.get("isVolatile")):
        return False
    rewriter.replace_op(op, [other])
    return True


@pattern("tt.store")
def store_by_known_mask(op: Operation, rewriter: PatternRewriter) -> bool:
    """A store where all is stored needs no mask; one where nothing is, is not done."""
    mask = _known_mask(op)
    if mask is None:
        return False
    if not mask:
        rewriter.erase_op(op)
        return True
    last = op.operands[2].defining_op
    op.set_operands(op.operands[:2])
    rewriter.modified(op)
    rewriter.push(last)
    return True
