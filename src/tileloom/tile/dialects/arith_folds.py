"""How arithmetic folds: on constants, and by the laws that hold for all numbers of a type.

Integers wrap around; floats are rounded as IEEE 754 says. What is undefined (a division by zero,
a shift by too much) does not fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.attributes import constant_attribute, constant_value
from ..ir.core import Operation, Value
from ..ir.elementwise import (
    elementwise,
    has_exact_floats,
    is_truth,
    numbers,
    signed,
    unsigned,
    width,
)
from ..ir.interning import Attribute
from ..ir.rewriter import fold_rule
from ..ir.types import I1, ShapedType, Type, element_type

Folded = Sequence[Attribute | Value] | None
Constants = Sequence[Attribute | None]


def operation_of(value: Value, name: str) -> Operation | None:
    """The operation that defines a value, if it is of a name."""
    op = value.defining_op
    return op if op is not None and op.name == name else None


def all_ones(type: Type) -> int:
    """The integer whose bits are all set."""
    return 1 if is_truth(type) else -1


# Integers.


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divides(a: int, b: int, bits: int) -> bool:
    return b != 0 and not (b == -1 and a == -(1 << (bits - 1)))


# Of two signed numbers and their bits; None where the result is undefined.
INTEGERS: dict[str, Callable[[int, int, int], int | None]] = {
    "addi": lambda a, b, n: a + b,
    "subi": lambda a, b, n: a - b,
    "muli": lambda a, b, n: a * b,
    "andi": lambda a, b, n: a & b,
    "ori": lambda a, b, n: a | b,
    "xori": lambda a, b, n: a ^ b,
    "divsi": lambda a, b, n: _truncated(a, b) if _divides(a, b, n) else None,
    "remsi": lambda a, b, n: a - _truncated(a, b) * b if _divides(a, b, n) else None,
    "floordivsi": lambda a, b, n: a // b if _divides(a, b, n) else None,
    "ceildivsi": lambda a, b, n: -(-a // b) if _divides(a, b, n) else None,
    "divui": lambda a, b, n: unsigned(a, n) // unsigned(b, n) if b else None,
    "remui": lambda a, b, n: unsigned(a, n) % unsigned(b, n) if b else None,
    "ceildivui": lambda a, b, n: -(-unsigned(a, n) // unsigned(b, n)) if b else None,
    "shli": lambda a, b, n: a << b if 0 <= b < n else None,
    "shrsi": lambda a, b, n: a >> b if 0 <= b < n else None,
    "shrui": lambda a, b, n: unsigned(a, n) >> b if 0 <= b < n else None,
    "maxsi": lambda a, b, n: max(a, b),
    "minsi": lambda a, b, n: min(a, b),
    "maxui": lambda a, b, n: max(unsigned(a, n), unsigned(b, n)),
    "minui": lambda a, b, n: min(unsigned(a, n), unsigned(b, n)),
}
# Operations of which a constant on the right leaves the left operand as it is.
RIGHT_IDENTITY = {
    **dict.fromkeys(("addi", "subi", "ori", "xori", "shli", "shrsi", "shrui", "maxui"), 0),
    **dict.fromkeys(("muli", "divsi", "divui", "floordivsi", "ceildivsi", "ceildivui"), 1),
}
IDEMPOTENT = ("andi", "ori", "maxsi", "minsi", "maxui", "minui")


@fold_rule(*(f"arith.{name}" for name in INTEGERS))
def fold_integers(op: Operation, constants: Constants) -> Folded:
    """Folds an operation on two integers."""
    name, type = op.name[6:], op.results[0].type
    bits, function = width(type), INTEGERS[name]

    def of_signed(a: int, b: int) -> int | None:
        return function(signed(a, bits), signed(b, bits), bits)

    made = elementwise(of_signed, constants, type)
    if made is not None:
        return (made,)
    left, right = op.operands
    value = constant_value(constants[1])
    if value is not None:
        by_constant = _with_constant(name, left, value, type)
        if by_constant is not None:
            return (by_constant,)
    if left is right:
        return _with_itself(name, left, type)
    return _undone(name, left, right)


def _with_constant(name: str, left: Value, value: int, type: Type) -> Attribute | Value | None:
    """What an operation gives for a known right operand."""
    bits = width(type)
    ones = all_ones(type)
    if RIGHT_IDENTITY.get(name) == value and not (bits == 1 and name in ("divsi", "floordivsi")):
        return left
    if name in ("muli", "andi", "minui") and value == 0:
        return constant_attribute(0, type)
    if name in ("remsi", "remui") and value == 1 and bits > 1:
        return constant_attribute(0, type)
    if name in ("andi", "minui") and value == ones:
        return left
    if name in ("ori", "maxui") and value == ones:
        return constant_attribute(ones, type)
    if name in ("maxsi", "minsi") and bits > 1:
        least, greatest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        if value == (least if name == "maxsi" else greatest):
            return left
        if value == (greatest if name == "maxsi" else least):
            return constant_attribute(value, type)
    return None


def _with_itself(name: str, left: Value, type: Type) -> Folded:
    """What an operation gives on a value and the same value."""
    if name in ("subi", "xori"):
        return (constant_attribute(0, type),)
    return (left,) if name in IDEMPOTENT else None


def _undone(name: str, left: Value, right: Value) -> Folded:
    """`(a - b) + b`, `(a + b) - b`, `(a ^ b) ^ b`, and `a & ~a`."""
    if name == "addi":
        for first, second in ((left, right), (right, left)):
            difference = operation_of(first, "arith.subi")
            if difference is not None and difference.operands[1] is second:
                return (difference.operands[0],)
    if name == "subi":
        total = operation_of(left, "arith.addi")
        if total is not None and right in total.operands:
            return (total.operands[0 if total.operands[1] is right else 1],)
    if name == "xori":
        for first, second in ((left, right), (right, left)):
            inner = operation_of(first, "arith.xori")
            if inner is not None and second in inner.operands:
                return (inner.operands[0 if inner.operands[1] is second else 1],)
    if name in ("andi", "ori") and (_is_not(left, right) or _is_not(right, left)):
        return (constant_attribute(0 if name == "andi" else all_ones(left.type), left.type),)
    return None


def _is_not(value: Value, other: Value) -> bool:
    """Whether a value is the complement of another."""
    op = operation_of(value, "arith.xori")
    if op is None or op.operands[0] is not other:
        return False
    mask = operation_of(op.operands[1], "arith.constant")
    return mask is not None and constant_value(mask.attributes["value"]) == all_ones(value.type)


# Floats.


def maximum(a: float, b: float) -> float:
    """The larger, or NaN if one is; +0 is larger than -0."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return a if math.copysign(1, a) > 0 else b
    return max(a, b)


def minimum(a: float, b: float) -> float:
    """The smaller, or NaN if one is; -0 is smaller than +0."""
    return -maximum(-a, -b)


def _maxnum(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else maximum(a, b)


def _minnum(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else minimum(a, b)


FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "maximumf": maximum,
    "minimumf": minimum,
    "maxnumf": _maxnum,
    "minnumf": _minnum,
}
# The constant on the right that leaves every left operand as it is.
NEUTRAL = {
    "addf": -0.0,
    "subf": 0.0,
    "mulf": 1.0,
    "divf": 1.0,
    "maximumf": -math.inf,
    "minimumf": math.inf,
}


@fold_rule(*(f"arith.{name}" for name in FLOATS))
def fold_floats(op: Operation, constants: Constants) -> Folded:
    """Folds an operation on two floats."""
    name, type = op.name[6:], op.results[0].type
    neutral = NEUTRAL.get(name)
    if neutral is not None and repr(constant_value(constants[1])) == repr(neutral):
        return (op.operands[0],)
    if op.operands[0] is op.operands[1] and name[:3] in ("max", "min"):
        return (op.operands[0],)
    if not has_exact_floats(type):
        return None
    function = FLOATS[name]

    def computed(a: float, b: float) -> float:
        made = float(function(np.float64(a), np.float64(b)))
        return math.nan if math.isnan(made) else made

    with np.errstate(all="ignore"):
        made = elementwise(computed, constants, type)
    return None if made is None else (made,)


@fold_rule("arith.negf")
def fold_negf(op: Operation, constants: Constants) -> Folded:
    """Folds a change of sign."""
    inner = operation_of(op.operands[0], "arith.negf")
    if inner is not None:
        return (inner.operands[0],)
    made = elementwise(lambda a: -a, constants, op.results[0].type)
    return None if made is None else (made,)


# Comparisons.

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def change_predicate(predicate: str, table: dict[str, str]) -> str:
    """A predicate of integers with its order changed: `slt` and `SWAPPED` give `sgt`."""
    if predicate in ("eq", "ne"):
        return table.get(predicate, predicate)
    return predicate[0] + table[predicate[1:]]


def compare_integers(predicate: str, a: int, b: int, bits: int) -> bool:
    """Whether a predicate holds of two integers of some bits."""
    if predicate in ("eq", "ne"):
        return ORDERS[predicate](a, b)
    view = unsigned if predicate[0] == "u" else signed
    return ORDERS[predicate[1:]](view(a, bits), view(b, bits))


@fold_rule("arith.cmpi")
def fold_cmpi(op: Operation, constants: Constants) -> Folded:
    """Folds a comparison of integers."""
    predicate = op.enum("predicate") or ""
    type, bits = op.results[0].type, width(op.operands[0].type)
    left, right = op.operands
    if left is right:
        return (
            (constant_attribute(predicate[-1] == "e" or predicate == "eq", type),)
            if (predicate != "ne")
            else (constant_attribute(False, type),)
        )
    made = elementwise(lambda a, b: compare_integers(predicate, a, b, bits), constants, type)
    if made is not None:
        return (made,)
    value = constant_value(constants[1])
    if value is None:
        return None
    if bits == 1 and (predicate, value) in (("eq", 1), ("ne", 0)):
        return (left,)
    if predicate in ("eq", "ne") and value == 0:
        inner = left.defining_op
        if inner is not None and inner.name in ("arith.extui", "arith.extsi"):
            source = inner.operands[0]
            if is_truth(source.type) and predicate == "ne":
                return (source,)
    return None


def compare_floats(predicate: str, a: float, b: float) -> bool:
    """Whether a predicate holds of two floats."""
    if predicate in ("true", "false"):
        return predicate == "true"
    unordered = math.isnan(a) or math.isnan(b)
    if predicate in ("ord", "uno"):
        return unordered == (predicate == "uno")
    if unordered:
        return predicate[0] == "u"
    return ORDERS[predicate[1:]](a, b)


@fold_rule("arith.cmpf")
def fold_cmpf(op: Operation, constants: Constants) -> Folded:
    """Folds a comparison of floats."""
    predicate, type = op.enum("predicate") or "", op.results[0].type
    if predicate in ("true", "false"):
        return (constant_attribute(predicate == "true", type),)
    known = numbers(constants[1])
    if known is not None and all(map(math.isnan, known)):
        return (constant_attribute(predicate[0] == "u", type),)
    made = elementwise(lambda a, b: compare_floats(predicate, a, b), constants, type)
    return None if made is None else (made,)


# Selections.


@fold_rule("arith.select")
def fold_select(op: Operation, constants: Constants) -> Folded:
    """Folds a selection."""
    condition, first, second = op.operands
    decided = constant_value(constants[0])
    if decided is not None:
        return (first if decided else second,)
    if first is second:
        return (first,)
    type = op.results[0].type
    same = condition.type is I1 or condition.type is type
    if element_type(type) is I1 and same and condition.type is type:
        values = constant_value(constants[1]), constant_value(constants[2])
        if values == (1, 0):
            return (condition,)
    by_equality = _selected_by_equality(condition, first, second)
    if by_equality is not None:
        return (by_equality,)
    return _selected_elements(constants, type)


def _selected_by_equality(condition: Value, first: Value, second: Value) -> Value | None:
    """`a == b ? a : b` is `b`; `a != b ? a : b` is `a`."""
    op = operation_of(condition, "arith.cmpi")
    if op is None or op.enum("predicate") not in ("eq", "ne"):
        return None
    if {*op.operands} != {first, second}:
        return None
    return second if op.enum("predicate") == "eq" else first


def _selected_elements(constants: Constants, type: Type) -> Folded:
    if not isinstance(type, ShapedType):
        return None
    made = elementwise(lambda c, a, b: a if c else b, constants, type)
    return None if made is None else (made,)
