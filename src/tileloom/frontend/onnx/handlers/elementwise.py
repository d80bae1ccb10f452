"""Arithmetic, comparison, logic, bits, transcendental functions: one output element from one
element of each input, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from ....graph import ops
from ....graph.nodes import Tensor
from ..call import Call
from ..registry import handler
from ..values import Value, constant_of

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": ops.abs, "Acos": ops.acos, "Acosh": ops.acosh, "Asin": ops.asin, "Asinh": ops.asinh,
    "Atan": ops.atan, "Atanh": ops.atanh, "BitwiseNot": ops.bitwise_invert, "Ceil": ops.ceil,
    "Cos": ops.cos, "Cosh": ops.cosh, "Erf": ops.erf, "Exp": ops.exp, "Floor": ops.floor,
    "IsNaN": ops.isnan, "Log": ops.log, "Neg": ops.neg, "Not": ops.logical_not,
    "Reciprocal": ops.reciprocal, "Round": ops.round, "Sigmoid": ops.sigmoid, "Sign": ops.sign,
    "Sin": ops.sin, "Sinh": ops.sinh, "Sqrt": ops.sqrt, "Tan": ops.tan, "Tanh": ops.tanh,
}  # fmt: skip


def _divide(a: Tensor, b: Tensor) -> Tensor:
    """Integers are divided toward zero."""
    return ops.div(a, b) if a.dtype.is_float else ops.trunc_div(a, b)


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """The result has the type of the base."""
    if base.dtype.is_int and exponent.dtype.is_float:
        wide = ops.pow(ops.cast(base, "float64"), ops.cast(exponent, "float64"))
        return ops.cast(wide, base.dtype)
    return ops.pow(base, ops.cast(exponent, base.dtype))


BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": ops.add, "And": ops.logical_and, "BitwiseAnd": ops.bitwise_and,
    "BitwiseOr": ops.bitwise_or, "BitwiseXor": ops.bitwise_xor, "Div": _divide,
    "Greater": ops.greater, "GreaterOrEqual": ops.greater_equal, "Less": ops.less,
    "LessOrEqual": ops.less_equal, "Mul": ops.mul, "Or": ops.logical_or, "Pow": _power,
    "Sub": ops.sub, "Xor": ops.logical_xor,
}  # fmt: skip
#: Of any number of tensors, two by two.
_FOLDS = {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}


@handler(*_UNARY)
def unary(call: Call) -> Tensor:
    return _UNARY[call.op](call.tensor(0))


@handler(*BINARY, since=7)
def binary(call: Call) -> Tensor:
    return BINARY[call.op](call.tensor(0), call.tensor(1))


@handler("Equal", since=7)
def equal(call: Call) -> Value:
    if any(isinstance(value, np.ndarray) for value in call.inputs):
        return constant_of(np.asarray(call.array(0) == call.array(1), np.bool_))
    return ops.equal(call.tensor(0), call.tensor(1))


@handler("Mod")
def mod(call: Call) -> Tensor:
    operation = ops.fmod if call.flag("fmod") else ops.mod
    return operation(call.tensor(0), call.tensor(1))


@handler("BitShift")
def bit_shift(call: Call) -> Tensor:
    left = call.choice("direction", "", ("LEFT", "RIGHT")) == "LEFT"
    operation = ops.shift_left if left else ops.shift_right
    return operation(call.tensor(0), call.tensor(1))


@handler(*_FOLDS)
def fold(call: Call) -> Tensor:
    return reduce(_FOLDS[call.op], call.tensors())


@handler("Mean")
def mean(call: Call) -> Tensor:
    return ops.div(reduce(ops.add, call.tensors()), len(call.inputs))


@handler("IsInf")
def is_inf(call: Call) -> Tensor:
    x = call.tensor(0)
    result = ops.isinf(x)
    if not call.flag("detect_negative", True):
        result = ops.logical_and(result, ops.greater(x, 0))
    if not call.flag("detect_positive", True):
        result = ops.logical_and(result, ops.less(x, 0))
    return result


@handler("Clip")
def clip_attributes(call: Call) -> Tensor:
    low = call.number("min") if "min" in call.attrs else None
    high = call.number("max") if "max" in call.attrs else None
    return ops.clip(call.tensor(0), low, high)


@handler("Clip", since=11)
def clip(call: Call) -> Tensor:
    return ops.clip(call.tensor(0), call.optional(1), call.optional(2))


@handler("Where")
def where(call: Call) -> Value:
    if any(isinstance(value, np.ndarray) for value in call.inputs):
        return np.where(call.array(0), call.array(1), call.array(2))
    return ops.where(call.tensor(0), call.tensor(1), call.tensor(2))
