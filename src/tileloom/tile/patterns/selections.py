"""Selections of truth values, and of selections."""

from __future__ import annotations

from ..dialects.arith_folds import all_ones, operation_of
from ..ir.attributes import constant_attribute, constant_value
from ..ir.core import Operation, Value
from ..ir.elementwise import is_truth
from ..ir.rewriter import PatternRewriter, constant_of, pattern
from ..ir.types import is_integer

SELECT = "arith.select"


@pattern(SELECT)
def select_by_contrary(op: Operation, rewriter: PatternRewriter) -> bool:
    """A selection by the contrary of a condition has its values exchanged."""
    condition, first, second = op.operands
    inner = operation_of(condition, "arith.xori")
    if inner is None:
        return False
    if constant_value(constant_of(inner.operands[1])) != all_ones(condition.type):
        return False
    op.set_operands((inner.operands[0], second, first))
    rewriter.modified(op)
    rewriter.push(inner)
    return True


@pattern(SELECT)
def select_once(op: Operation, rewriter: PatternRewriter) -> bool:
    """Of a selection by the same condition the value is known that it gives."""
    condition, first, second = op.operands
    values = list(op.operands)
    for place, value in ((1, first), (2, second)):
        inner = operation_of(value, SELECT)
        if inner is not None and inner.operands[0] is condition:
            values[place] = inner.operands[place]
    if values == list(op.operands):
        return False
    op.set_operands(values)
    rewriter.modified(op)
    for value in (first, second):
        rewriter.push(value.defining_op)
    return True


@pattern(SELECT)
def select_truth(op: Operation, rewriter: PatternRewriter) -> bool:
    """A selection between 0 and 1 is its condition, or the contrary, or that extended."""
    condition, first, second = op.operands
    values = constant_value(constant_of(first)), constant_value(constant_of(second))
    type = op.results[0].type
    if not is_integer(type) or values not in ((0, 1), (1, 0)):
        return False
    if getattr(condition.type, "shape", None) != getattr(type, "shape", None):
        return False
    if is_truth(type):
        if values == (1, 0):
            return False  # folds
        rewriter.replace_with(op, "arith.xori", (condition, _ones(condition, op, rewriter)))
        return True
    if values == (0, 1):
        rewriter.before_op(op)
        ones = _ones(condition, op, rewriter)
        rewriter.before_op(op)
        condition = rewriter("arith.xori", condition, ones)
    rewriter.replace_with(op, "arith.extui", (condition,))
    return True


def _ones(value: Value, op: Operation, rewriter: PatternRewriter) -> Value:
    made = constant_attribute(all_ones(value.type), value.type)
    return rewriter.constant_at_entry(made, value.type, op)
