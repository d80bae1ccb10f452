"""Arithmetic on constants is brought together, and casts of casts are one."""

from __future__ import annotations

from ..dialects.arith_folds import (
    NEGATED,
    SWAPPED,
    all_ones,
    change_predicate,
    operation_of,
)
from ..ir.attributes import EnumAttr, constant_attribute, constant_value, integer_value
from ..ir.core import Operation, Value
from ..ir.elementwise import elementwise, width
from ..ir.interning import Attribute
from ..ir.rewriter import PatternRewriter, constant_of, pattern

ADD, SUB, MUL = "arith.addi", "arith.subi", "arith.muli"


def _constants(op: Operation) -> tuple[Attribute | None, Attribute | None]:
    first, second = op.operands
    return constant_of(first), constant_of(second)


@pattern(ADD, SUB)
def add_constants(op: Operation, rewriter: PatternRewriter) -> bool:
    """Sums and differences of two constants and a value have one constant:
    `(x + a) - b` is `x + (a - b)`, `a - (x - b)` is `(a + b) - x`, and so on."""
    outer = _constants(op)
    place = 1 if outer[1] is not None else 0
    constant = outer[place]
    inner = op.operands[1 - place].defining_op
    if constant is None or inner is None or inner.name not in (ADD, SUB):
        return False
    left, right = _constants(inner)
    if (left is None) == (right is None):
        return False
    other = left if right is None else right
    value = inner.operands[1 if right is None else 0]
    if other is None:
        return False
    # The sum is  sign * x + (own * constant + its * other).
    sign = -1 if inner.name == SUB and right is None else 1
    its = -1 if inner.name == SUB and right is not None else 1
    own = -1 if op.name == SUB and place == 1 else 1
    if op.name == SUB and place == 0:
        sign, its = -sign, -its
    return _replace_by_sum(op, (value, sign), (constant, own), (other, its), rewriter)


def _replace_by_sum(
    op: Operation,
    value: tuple[Value, int],
    first: tuple[Attribute, int],
    second: tuple[Attribute, int],
    rewriter: PatternRewriter,
) -> bool:
    subtracts = value[1] == 1 and second[1] == -1 and first[1] == -1
    type = op.results[0].type
    total = elementwise(
        lambda a, b: (first[1] * a + second[1] * b) * (-1 if subtracts else 1),
        (first[0], second[0]),
        type,
    )
    if total is None:
        return False
    known = rewriter.constant_at_entry(total, type, op)
    if subtracts:
        rewriter.replace_with(op, SUB, (value[0], known))
    elif value[1] == 1:
        rewriter.replace_with(op, ADD, (value[0], known))
    else:
        rewriter.replace_with(op, SUB, (known, value[0]))
    return True


@pattern(MUL)
def multiply_constants(op: Operation, rewriter: PatternRewriter) -> bool:
    """`(x * a) * b` is `x * (a * b)`."""
    inner = operation_of(op.operands[0], MUL)
    constant = constant_of(op.operands[1])
    if inner is None or constant is None:
        return False
    other = constant_of(inner.operands[1])
    type = op.results[0].type
    made = elementwise(lambda a, b: a * b, (other, constant), type)
    if made is None:
        return False
    known = rewriter.constant_at_entry(made, type, op)
    rewriter.replace_with(op, MUL, (inner.operands[0], known))
    return True


@pattern(ADD)
def subtract_negated(op: Operation, rewriter: PatternRewriter) -> bool:
    """`x + y * -1` is `x - y`."""
    for place in (0, 1):
        product = operation_of(op.operands[place], MUL)
        if product is not None and integer_value(constant_of(product.operands[1])) == -1:
            rewriter.replace_with(op, SUB, (op.operands[1 - place], product.operands[0]))
            return True
    return False


@pattern(SUB)
def subtract_from_difference(op: Operation, rewriter: PatternRewriter) -> bool:
    """`(a - b) - a` is `0 - b`."""
    inner = operation_of(op.operands[0], SUB)
    if inner is None or inner.operands[0] is not op.operands[1]:
        return False
    type = op.results[0].type
    zero = rewriter.constant_at_entry(constant_attribute(0, type), type, op)
    rewriter.replace_with(op, SUB, (zero, inner.operands[1]))
    return True


@pattern("arith.andi", "arith.ori")
def absorb(op: Operation, rewriter: PatternRewriter) -> bool:
    """`a & (a & b)` is `a & b`; the same holds of `|`."""
    first, second = op.operands
    for one, other in ((first, second), (second, first)):
        inner = operation_of(one, op.name)
        if inner is not None and other in inner.operands:
            rewriter.replace_op(op, [one])
            return True
    return False


# Comparisons.


@pattern("arith.cmpi")
def compare_with_constant(op: Operation, rewriter: PatternRewriter) -> bool:
    """A constant is compared on the right."""
    first, second = _constants(op)
    if first is None or second is not None:
        return False
    predicate = change_predicate(op.enum("predicate") or "", SWAPPED)
    op.attributes["predicate"] = EnumAttr("keyword", predicate)
    op.set_operands((op.operands[1], op.operands[0]))
    rewriter.modified(op)
    return True


@pattern("arith.cmpi")
def compare_before_extending(op: Operation, rewriter: PatternRewriter) -> bool:
    """Two numbers extended in the same way compare as they do before."""
    first, second = (operand.defining_op for operand in op.operands)
    if first is None or second is None or first.name != second.name:
        return False
    predicate = op.enum("predicate") or ""
    kept = {"arith.extsi": ("eq", "ne", "s"), "arith.extui": ("eq", "ne", "u")}.get(first.name)
    if kept is None or not predicate.startswith(kept):
        return False
    sources = first.operands[0], second.operands[0]
    if sources[0].type is not sources[1].type:
        return False
    rewriter.replace_with(op, op.name, sources, attributes=op.attributes)
    return True


@pattern("arith.xori")
def negate_comparison(op: Operation, rewriter: PatternRewriter) -> bool:
    """The contrary of a comparison is the comparison by the contrary predicate."""
    compared = operation_of(op.operands[0], "arith.cmpi")
    mask = constant_value(constant_of(op.operands[1]))
    if compared is None or mask != all_ones(op.results[0].type):
        return False
    predicate = change_predicate(compared.enum("predicate") or "", NEGATED)
    attributes = {**compared.attributes, "predicate": EnumAttr("keyword", predicate)}
    rewriter.replace_with(op, "arith.cmpi", compared.operands, attributes=attributes)
    return True


# Casts.

# An outer cast of an inner one, and the one that does what both do.
ONE_CAST = {
    ("arith.extui", "arith.extui"): "arith.extui",
    ("arith.extsi", "arith.extsi"): "arith.extsi",
    ("arith.extsi", "arith.extui"): "arith.extui",
    ("arith.trunci", "arith.trunci"): "arith.trunci",
    ("arith.index_cast", "arith.extsi"): "arith.index_cast",
    ("arith.index_castui", "arith.extui"): "arith.index_castui",
    ("arith.bitcast", "arith.bitcast"): "arith.bitcast",
    ("tt.bitcast", "tt.bitcast"): "tt.bitcast",
}


@pattern(*sorted({outer for outer, _ in ONE_CAST}))
def one_cast(op: Operation, rewriter: PatternRewriter) -> bool:
    """A cast of a cast is one."""
    inner = op.operands[0].defining_op
    if inner is None:
        return False
    if op.name == "arith.trunci" and inner.name in ("arith.extsi", "arith.extui"):
        name: str | None = inner.name
        if width(inner.operands[0].type) > width(op.results[0].type):
            name = op.name
    else:
        name = ONE_CAST.get((op.name, inner.name))
    if name is None:
        return False
    rewriter.replace_with(op, name, inner.operands)
    return True


@pattern("arith.andi", "arith.ori")
def combine_before_extending(op: Operation, rewriter: PatternRewriter) -> bool:
    """Bits of two numbers extended in the same way are combined before."""
    first, second = (operand.defining_op for operand in op.operands)
    if first is None or second is None or first.name != second.name:
        return False
    if first.name not in ("arith.extsi", "arith.extui"):
        return False
    sources = first.operands[0], second.operands[0]
    if sources[0].type is not sources[1].type:
        return False
    rewriter.before_op(op)
    inner = rewriter(op.name, *sources)
    rewriter.replace_with(op, first.name, (inner,))
    return True


@pattern("arith.mulf", "arith.divf")
def drop_signs(op: Operation, rewriter: PatternRewriter) -> bool:
    """The signs of two negated factors cancel."""
    first, second = (operation_of(operand, "arith.negf") for operand in op.operands)
    if first is None or second is None:
        return False
    op.set_operands((first.operands[0], second.operands[0]))
    rewriter.modified(op)
    rewriter.push(first)
    rewriter.push(second)
    return True
