"""Functions of floats, elementwise on tensors."""

from __future__ import annotations

from ..ir.definitions import define
from .arith import NO_FLAGS, UNIFORM, UNIFORM_FORMAT, verify_floats, verify_integers

UNARY = (
    *("absf", "ceil", "floor", "round", "roundeven", "trunc", "exp", "exp2", "expm1", "log"),
    *("log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf"),
)
for _name, _operands in (
    *((name, "operand") for name in UNARY),
    *((name, "lhs rhs") for name in ("atan2", "copysign", "powf")),
    ("fma", "a b c"),
):
    define(
        f"math.{_name}",
        _operands,
        "result",
        traits=UNIFORM,
        attributes={"fastmath": NO_FLAGS},
        format=UNIFORM_FORMAT,
        verify=verify_floats,
    )
for _name in ("absi", "ctlz", "cttz", "ctpop"):
    define(
        f"math.{_name}",
        "operand",
        "result",
        traits=UNIFORM,
        format=UNIFORM_FORMAT,
        verify=verify_integers,
    )
