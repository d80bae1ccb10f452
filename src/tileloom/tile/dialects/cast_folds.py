"""How casts fold: of constants where nothing is lost, and of casts."""

from __future__ import annotations

import math

from ..ir.attributes import bits_of, float_of_bits, round_to
from ..ir.core import Operation
from ..ir.elementwise import elementwise, has_exact_floats, signed, unsigned, width
from ..ir.rewriter import fold_rule
from ..ir.types import FloatType, Type, element_type
from .arith_folds import Constants, Folded, operation_of


@fold_rule("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def fold_integer_cast(op: Operation, constants: Constants) -> Folded:
    """Folds a cast between integers."""
    source, type = op.operands[0], op.results[0].type
    bits = width(source.type)
    view = unsigned if op.name in ("arith.extui", "arith.index_castui") else signed
    made = elementwise(lambda a: view(a, bits), constants, type)
    if made is not None:
        return (made,)
    inner = source.defining_op
    if inner is None:
        return None
    undone = {
        "arith.trunci": ("arith.extsi", "arith.extui"),
        "arith.index_cast": ("arith.index_cast",),
        "arith.index_castui": ("arith.index_castui",),
    }.get(op.name, ())
    if inner.name not in undone or inner.operands[0].type is not type:
        return None
    widened = width(inner.results[0].type) >= width(type)
    return (inner.operands[0],) if widened else None


@fold_rule("arith.extf", "arith.truncf", "tt.fp_to_fp")
def fold_float_cast(op: Operation, constants: Constants) -> Folded:
    """Folds a cast between floats, of a constant that is a number of both formats."""
    source, type = op.operands[0], op.results[0].type
    if source.type is type:
        return (source,)
    inner = operation_of(source, "arith.extf")
    if op.name == "arith.truncf" and inner is not None and inner.operands[0].type is type:
        return (inner.operands[0],)
    if not has_exact_floats(type) or not has_exact_floats(source.type):
        return None
    made = elementwise(lambda a: _if_exact(a, type), constants, type)
    return None if made is None else (made,)


def _if_exact(value: float, type: Type) -> float | None:
    element = element_type(type)
    if not isinstance(element, FloatType) or math.isnan(value):
        return None
    return value if round_to(value, element) == value else None


@fold_rule("arith.sitofp", "arith.uitofp")
def fold_to_float(op: Operation, constants: Constants) -> Folded:
    """Folds a cast of integers to floats, rounded to the nearest."""
    type, bits = op.results[0].type, width(op.operands[0].type)
    if not has_exact_floats(type):
        return None
    view = unsigned if op.name == "arith.uitofp" else signed
    made = elementwise(lambda a: _once_rounded(view(a, bits)), constants, type)
    return None if made is None else (made,)


def _once_rounded(value: int) -> float | None:
    """An integer as a float that is not rounded yet; None where it would have to be twice."""
    return float(value) if abs(value) < 1 << 53 else None


@fold_rule("arith.fptosi", "arith.fptoui")
def fold_to_integer(op: Operation, constants: Constants) -> Folded:
    """Folds a cast of floats to integers, towards zero; what is out of range does not fold."""
    type = op.results[0].type
    bits = width(type)
    least, end = (-(1 << (bits - 1)), 1 << (bits - 1))
    if op.name == "arith.fptoui":
        least, end = 0, 1 << bits

    def truncated(value: float) -> int | None:
        if not math.isfinite(value):
            return None
        made = math.trunc(value)
        return made if least <= made < end else None

    made = elementwise(truncated, constants, type)
    return None if made is None else (made,)


@fold_rule("arith.bitcast", "tt.bitcast")
def fold_bitcast(op: Operation, constants: Constants) -> Folded:
    """Folds bits seen as of another type."""
    source, type = op.operands[0], op.results[0].type
    if source.type is type:
        return (source,)
    inner = operation_of(source, op.name)
    if inner is not None and inner.operands[0].type is type:
        return (inner.operands[0],)
    before, after = element_type(source.type), element_type(type)
    if any(isinstance(t, FloatType) and not has_exact_floats(t) for t in (before, after)):
        return None

    def same_bits(value: float) -> float | None:
        if isinstance(value, float) and math.isnan(value):
            return None
        bits = bits_of(value, before) if isinstance(before, FloatType) else int(value)
        if not isinstance(after, FloatType):
            return bits
        made = float_of_bits(unsigned(bits, after.bits), after)
        return None if math.isnan(made) else made

    made = elementwise(same_bits, constants, type)
    return None if made is None else (made,)
