"""Elementwise operations before their operands are spread, on fewer elements."""

from __future__ import annotations

from ..dialects.arith_folds import operation_of
from ..ir.attributes import DenseElementsAttr, constant_attribute
from ..ir.core import Operation, Value
from ..ir.definitions import Trait
from ..ir.rewriter import PatternRewriter, apply_patterns, constant_of
from ..ir.types import ShapedType, TensorType, as_tensor, element_type, with_element
from ..patterns import shapes
from .registry import tile_pass


@tile_pass("triton-reorder-broadcast")
def triton_reorder_broadcast(module: Operation) -> None:
    """Lets elementwise operations come before `splat` and `broadcast`."""
    apply_patterns(
        module,
        {
            "": (before_splat, before_broadcast),
            "tt.broadcast": (shapes.shape_of_splat, shapes.broadcast_once),
            "tt.expand_dims": (shapes.shape_of_splat, shapes.expand_before_broadcast),
        },
    )


def _is_elementwise(op: Operation) -> bool:
    traits = op.definition.traits
    return Trait.ELEMENTWISE in traits and Trait.PURE in traits and bool(op.operands)


def _scalar_of(value: Value) -> Value | object | None:
    """The scalar that a tensor has everywhere: a value, or the number of a constant; or None."""
    splat = operation_of(value, "tt.splat")
    if splat is not None:
        return splat.operands[0]
    constant = constant_of(value)
    return (
        constant
        if isinstance(constant, DenseElementsAttr) and constant.splat is not None
        else (None)
    )


def before_splat(op: Operation, rewriter: PatternRewriter) -> bool:
    """`f(splat(a), splat(b))` is `splat(f(a, b))`."""
    if not _is_elementwise(op) or len(op.results) != 1:
        return False
    if not all(isinstance(value.type, TensorType) for value in op.operands):
        return False
    known = [_scalar_of(value) for value in op.operands]
    if any(each is None for each in known):
        return False
    if all(isinstance(each, DenseElementsAttr) for each in known):
        return False  # folds, or cannot
    scalars = []
    for each, value in zip(known, op.operands, strict=True):
        if isinstance(each, DenseElementsAttr):
            type = element_type(value.type)
            attribute = constant_attribute(each.splat, type)
            scalars.append(rewriter.constant_at_entry(attribute, type, op))
        elif isinstance(each, Value):
            scalars.append(each)
    rewriter.before_op(op)
    types = [element_type(op.results[0].type)]
    made = rewriter.create(op.name, scalars, types, op.attributes)
    rewriter.replace_with(op, "tt.splat", made.results)
    return True


def before_broadcast(op: Operation, rewriter: PatternRewriter) -> bool:
    """`f(broadcast(a), broadcast(b), splat(c))` is `broadcast(f(a, b, splat(c)))`, where `a` and
    `b` have one shape."""
    if not _is_elementwise(op) or len(op.results) != 1:
        return False
    sources: list[TensorType] = []
    for value in op.operands:
        broadcast = operation_of(value, "tt.broadcast")
        if broadcast is not None:
            sources.append(as_tensor(broadcast.operands[0].type))
        elif _scalar_of(value) is None:
            return False
    if not sources or any(s.shape != sources[0].shape for s in sources):
        return False
    if any(s.encoding is not sources[0].encoding for s in sources):
        return False
    _operate_on_sources(op, sources[0], rewriter)
    return True


def _operate_on_sources(op: Operation, source: TensorType, rewriter: PatternRewriter) -> None:
    operands = []
    for value in op.operands:
        broadcast = operation_of(value, "tt.broadcast")
        if broadcast is not None:
            operands.append(broadcast.operands[0])
            continue
        type = with_element(source, element_type(value.type))
        scalar = _scalar_of(value)
        if isinstance(scalar, DenseElementsAttr):
            attribute = constant_attribute(scalar.splat, type)
            operands.append(rewriter.constant_at_entry(attribute, type, op))
        elif isinstance(scalar, Value):
            rewriter.before_op(op)
            operands.append(rewriter("tt.splat", scalar, type=type))
    result = op.results[0].type
    narrow = with_element(source, result.element if isinstance(result, ShapedType) else result)
    rewriter.before_op(op)
    made = rewriter.create(op.name, operands, [narrow], op.attributes)
    rewriter.replace_with(op, "tt.broadcast", made.results)
