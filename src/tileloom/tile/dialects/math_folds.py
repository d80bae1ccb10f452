"""How functions fold on constants, where the result is exact or rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ..ir.core import Operation
from ..ir.elementwise import elementwise, has_exact_floats, unsigned, width
from ..ir.rewriter import fold_rule
from ..ir.types import F64, element_type
from .arith_folds import Constants, Folded


def _round_away(value: float) -> float:
    """The nearest integer; of two, the one farther from zero."""
    if not math.isfinite(value) or abs(value) >= 1 << 52:
        return value
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "absf": abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "trunc": np.trunc,
    "roundeven": np.rint,
    "round": _round_away,
    "sqrt": lambda a: np.sqrt(np.float64(a)) if a >= 0 else None,
    "copysign": math.copysign,
}


@fold_rule(*(f"math.{name}" for name in FUNCTIONS))
def fold_function(op: Operation, constants: Constants) -> Folded:
    """Folds a function that is computed exactly, or rounded once."""
    type = op.results[0].type
    if not has_exact_floats(type):
        return None
    function = FUNCTIONS[op.name[5:]]

    def checked(*values: float) -> float | None:
        if any(map(math.isnan, values)):
            return None
        made = function(*values)
        return None if made is None else float(made)

    made = elementwise(checked, constants, type)
    return None if made is None else (made,)


@fold_rule("math.fma")
def fold_fma(op: Operation, constants: Constants) -> Folded:
    """Folds a product and a sum that are rounded once, where they are exact in 64 bits."""
    type = op.results[0].type
    if not has_exact_floats(type) or element_type(type) is F64:
        return None
    made = elementwise(_exact_fma, constants, type)
    return None if made is None else (made,)


def _exact_fma(a: float, b: float, c: float) -> float | None:
    if not all(map(math.isfinite, (a, b, c))):
        return None
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    made = a * b + c
    return made if math.isfinite(made) and exact and Fraction(made) == exact else None


@fold_rule("math.absi", "math.ctlz", "math.cttz", "math.ctpop")
def fold_bits(op: Operation, constants: Constants) -> Folded:
    """Folds a function of the bits of integers."""
    type = op.results[0].type
    bits = width(type)

    def count(value: int) -> int:
        plain = unsigned(value, bits)
        if op.name == "math.ctlz":
            return bits - plain.bit_length()
        if op.name == "math.cttz":
            return (plain & -plain).bit_length() - 1 if plain else bits
        return abs(value) if op.name == "math.absi" else plain.bit_count()

    made = elementwise(count, constants, type)
    return None if made is None else (made,)
