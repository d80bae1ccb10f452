"""Triton's combinations: sums into products, offsets into one, selections into loads."""

from __future__ import annotations

from ..dialects.arith_folds import operation_of
from ..ir.attributes import EnumAttr, constant_attribute, constant_value, integer_value
from ..ir.core import Operation, Value
from ..ir.definitions import segments
from ..ir.rewriter import PatternRewriter, apply_patterns, constant_of
from ..ir.slots import SEGMENTS
from ..ir.types import TensorType, as_tensor, element_bits, is_float
from .registry import tile_pass


@tile_pass("triton-combine")
def triton_combine(module: Operation) -> None:
    """Combines `dot(a, b, 0) + c`, pointers moved twice, selections of what is loaded, and sums
    of products along an axis that are products of matrices."""
    apply_patterns(
        module,
        {
            "arith.addi": (add_to_product,),
            "arith.addf": (add_to_product,),
            "tt.addptr": (move_once,),
            "arith.select": (load_selected,),
            "tt.reduce": (reduce_to_product,),
        },
    )


def is_zero(value: Value) -> bool:
    """Whether a value is zero, or a tensor of zeros."""
    splat = operation_of(value, "tt.splat")
    found = constant_value(constant_of(splat.operands[0] if splat is not None else value))
    return found is not None and found == 0


def add_to_product(op: Operation, rewriter: PatternRewriter) -> bool:
    """`dot(a, b, 0) + c` is `dot(a, b, c)`, if nothing else uses the product."""
    for place in (0, 1):
        product = operation_of(op.operands[place], "tt.dot")
        if product is None or not is_zero(product.operands[2]):
            continue
        if product.results[0].use_count != 1 or _is_imprecise(product, op):
            continue
        operands = (*product.operands[:2], op.operands[1 - place])
        rewriter.replace_with(op, "tt.dot", operands, attributes=product.attributes)
        return True
    return False


def _is_imprecise(product: Operation, op: Operation) -> bool:
    if op.name != "arith.addf":
        return False
    return bool(integer_value(product.attributes.get("maxNumImpreciseAcc")))


def move_once(op: Operation, rewriter: PatternRewriter) -> bool:
    """`addptr(addptr(p, i), j)` is `addptr(p, i + j)` of offsets as wide as pointers, or of
    constants whose sum does not overflow."""
    inner = operation_of(op.operands[0], "tt.addptr")
    if inner is None:
        return False
    first, second = inner.operands[1], op.operands[1]
    if first.type is not second.type:
        return False
    if element_bits(first.type) == 64:
        rewriter.before_op(op)
        total = rewriter("arith.addi", first, second)
        rewriter.replace_with(op, "tt.addptr", (inner.operands[0], total))
        return True
    known = [constant_value(constant_of(each)) for each in (first, second)]
    if not all(isinstance(each, int) for each in known):
        return False
    made = constant_attribute(sum(known), first.type)
    if constant_value(made) != sum(known):
        return False
    offset = rewriter.constant_at_entry(made, first.type, op)
    rewriter.replace_with(op, "tt.addptr", (inner.operands[0], offset))
    return True


def load_selected(op: Operation, rewriter: PatternRewriter) -> bool:
    """`select(c, load(p, splat(c)), other)` is a load with that other value."""
    condition, taken, otherwise = op.operands
    load = operation_of(taken, "tt.load")
    mask = None if load is None else load.operand("mask")
    if load is None or mask is None or load.operand("other") is not None:
        return False
    splat = operation_of(mask, "tt.splat")
    if splat is None or splat.operands[0] is not condition:
        return False
    if integer_value(load.attributes.get("isVolatile")):
        return False
    attributes = {**load.attributes, SEGMENTS: segments((1, 1, 1))}
    rewriter.replace_with(op, "tt.load", (load.operands[0], mask, otherwise), attributes=attributes)
    return True


def reduce_to_product(op: Operation, rewriter: PatternRewriter) -> bool:
    """`sum(x[:, :, None] * y[None, :, :], axis=1)` is `dot(x, y, 0)`."""
    if len(op.operands) != 1 or op.integer("axis") != 1 or not _adds_floats(op):
        return False
    product = operation_of(op.operands[0], "arith.mulf")
    if product is None or product.results[0].type is not op.operands[0].type:
        return False
    sources = []
    for operand, axis in zip(product.operands, (2, 0), strict=True):
        broadcast = operation_of(operand, "tt.broadcast")
        expanded = broadcast and operation_of(broadcast.operands[0], "tt.expand_dims")
        if not expanded or expanded.integer("axis") != axis:
            return False
        sources.append(expanded.operands[0])
    result = op.results[0].type
    if not isinstance(result, TensorType) or result.rank != 2 or not is_float(result):
        return False
    return _replace_by_product(op, sources, result, rewriter)


def _replace_by_product(
    op: Operation, sources: list[Value], result: TensorType, rewriter: PatternRewriter
) -> bool:
    rows, columns = (as_tensor(value.type).shape for value in sources)
    if len(rows) != 2 or len(columns) != 2 or rows[1] != columns[0]:
        return False
    if result.shape != (rows[0], columns[1]):
        return False
    zero = rewriter.constant_at_entry(constant_attribute(0.0, result), result, op)
    precision = {"inputPrecision": EnumAttr("keyword", "tf32")}
    rewriter.replace_with(op, "tt.dot", (*sources, zero), (result,), precision)
    return True


def _adds_floats(op: Operation) -> bool:
    """Whether a reduction adds floats."""
    block = op.body
    first = block.first
    if first is None or first.name != "arith.addf" or first.next is not block.terminator:
        return False
    return list(first.operands) == list(block.arguments) and list(
        block.terminator.operands
    ) == list(first.results)
