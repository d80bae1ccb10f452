"""How Triton's operations fold: changes of shape and layout of constants, pointers moved by
nothing."""

from __future__ import annotations

from ..ir.attributes import DenseElementsAttr, constant_attribute, constant_value
from ..ir.core import Operation
from ..ir.elementwise import numbers
from ..ir.rewriter import fold_rule
from ..ir.types import as_shaped
from .arith_folds import Constants, Folded


@fold_rule("tt.splat", "tt.broadcast", "ttg.convert_layout", "tt.trans", "ttg.memdesc_trans")
def fold_spread(op: Operation, constants: Constants) -> Folded:
    """A tensor of one value has it in every shape; what does not change a type is nothing."""
    source, type = op.operands[0], op.results[0].type
    value = constant_value(constants[0])
    if value is not None and op.name != "ttg.convert_layout":
        return (constant_attribute(value, type),)
    if source.type is type and op.name not in ("tt.trans", "ttg.memdesc_trans"):
        return (source,)
    if op.name in ("tt.trans", "ttg.memdesc_trans"):
        order = op.attributes["order"].values  # type: ignore[attr-defined]
        if source.type is type and list(order) == sorted(order):
            return (source,)
    return None


@fold_rule("tt.reshape", "tt.expand_dims")
def fold_view(op: Operation, constants: Constants) -> Folded:
    """The elements of a constant in another shape, in the same order."""
    source, type = op.operands[0], op.results[0].type
    if source.type is type:
        return (source,)
    values = numbers(constants[0])
    if values is None or (len(values) > 1 and "allow_reorder" in op.attributes):
        return None
    return (DenseElementsAttr(as_shaped(type), values),)


@fold_rule("tt.make_range")
def fold_range(op: Operation, _constants: Constants) -> Folded:
    """A range of one number is a constant."""
    start = op.integer("start")
    if op.integer("end") != start + 1:
        return None
    return (constant_attribute(start, op.results[0].type),)


@fold_rule("tt.addptr", "tt.advance")
def fold_moved(op: Operation, constants: Constants) -> Folded:
    """A pointer moved by zero is where it was."""
    moved = any(constant_value(constant) != 0 for constant in constants[1:])
    return None if moved else (op.operands[0],)
