"""The exact meaning of an expression: its value under an environment, one element at a time.

Integers wrap around as two's complement, floats are rounded to their type after every operation.
It is the oracle of the tests; the reference interpreter of tensor IR works on whole arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..base import DType
from ..base.dtype import wrap_int
from ..base.errors import UnsupportedError, UserError
from ..base.late import package
from .build import shifted_left, shifted_right, trunc_div
from .nodes import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from .ops import get_op

if TYPE_CHECKING:
    import numpy as np
else:
    np = package("numpy")

Value = Any  # int (also for bool), float, or a list of them for a vector
Environment = Mapping[Var, Value]


def evaluate(expr: Expr, env: Environment | None = None) -> Value:
    """The value of `expr` where variables have the values of `env`; a vector gives a list.

    Raises:
        UserError: for a variable without value and for integer division by zero.
        UnsupportedError: for a node or call without a meaning on plain values.

    >>> x = Var("x", "int8")
    >>> evaluate(x + 100, {x: 100}), evaluate(x // 3, {x: -7})
    (-56, -3)
    >>> evaluate(Ramp(x, IntImm("int8", 2), 3), {x: 1})
    [1, 3, 5]
    """
    return _evaluate(expr, {} if env is None else env)


def _evaluate(expr: Expr, env: Environment) -> Value:
    rule = _RULES.get(type(expr))
    if rule is not None:
        return rule(expr, env)
    for kind in (BinaryOp, Var):
        if isinstance(expr, kind):
            return _RULES[kind](expr, env)
    raise UnsupportedError(f"cannot evaluate {type(expr).__name__}: {expr}")


def round_to(value: Any, kind: DType) -> Value:
    """`value` as an element of the type: integers wrapped, floats rounded."""
    if not kind.is_float:
        return wrap_int(int(value), kind.element)
    with np.errstate(all="ignore"):
        return float(kind.element.numpy.type(value))


def _lanes(function: Callable[..., Value], *args: Value) -> Value:
    """The function on scalars, or lane by lane if there is a vector."""
    if not any(isinstance(arg, list) for arg in args):
        return function(*args)
    count = max(len(arg) for arg in args if isinstance(arg, list))
    rows = (arg if isinstance(arg, list) else [arg] * count for arg in args)
    return [function(*row) for row in zip(*rows, strict=True)]


def _variable(expr: Any, env: Environment) -> Value:
    if expr not in env:
        raise UserError(f"no value for the variable {expr.name!r}")
    value = env[expr]
    if isinstance(value, (list, tuple)):
        return [round_to(v, expr.dtype) for v in value]
    return round_to(value, expr.dtype)


def _binary(expr: Any, env: Environment) -> Value:
    kind = type(expr)
    a = _evaluate(expr.a, env)
    if kind in (And, Or) and not isinstance(a, list) and bool(a) is (kind is Or):
        return int(kind is Or)
    b = _evaluate(expr.b, env)
    operand = expr.a.dtype
    table = _FLOATS if operand.is_float else _INTEGERS
    function = table.get(kind) or _COMPARE[kind]
    if issubclass(kind, CompareOp):
        return _lanes(lambda x, y: int(function(x, y)), a, b)
    return _lanes(lambda x, y: round_to(function(x, y), operand), a, b)


def _nonzero(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def divide(a: int, b: int) -> int:
        if b == 0:
            raise UserError(f"integer division of {a} by zero")
        return function(a, b)

    return divide


def _float_op(name: str) -> Callable[[float, float], float]:
    def evaluate(a: float, b: float) -> float:
        with np.errstate(all="ignore"):
            return float(getattr(np, name)(np.float64(a), np.float64(b)))

    return evaluate


_COMPARE: dict[type[Expr], Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: bool(a) and bool(b),
    Or: lambda a, b: bool(a) or bool(b),
}
_INTEGERS: dict[type[Expr], Callable[[int, int], int]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _nonzero(trunc_div),
    Mod: _nonzero(lambda a, b: a - b * trunc_div(a, b)),
    FloorDiv: _nonzero(lambda a, b: a // b),
    FloorMod: _nonzero(lambda a, b: a % b),
    Min: min,
    Max: max,
}
# A double holds the exact sum, product or quotient of narrower floats closely enough that rounding
# it again gives the correctly rounded result (2p + 2 bits suffice).
_FLOATS: dict[type[Expr], Callable[[float, float], float]] = {
    Add: _float_op("add"),
    Sub: _float_op("subtract"),
    Mul: _float_op("multiply"),
    Div: _float_op("divide"),
    Mod: _float_op("fmod"),
    FloorDiv: _float_op("floor_divide"),
    FloorMod: _float_op("mod"),
    Min: _float_op("minimum"),
    Max: _float_op("maximum"),
}


def convert(value: Any, source: DType, target: DType) -> Value:
    """One element converted as C does; NaN and what is out of range saturate.

    >>> from tileloom.base import dtype
    >>> convert(-1.9, dtype("float32"), dtype("int32")), convert(300, dtype("int32"), dtype("int8"))
    (-1, 44)
    """
    if target.is_bool:
        return int(value != 0)
    if not source.is_float or target.is_float:
        return round_to(value, target)
    if math.isnan(value):
        return 0
    high = (1 << (target.bits - (not target.is_unsigned))) - 1
    low = 0 if target.is_unsigned else -high - 1
    if math.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, math.trunc(value)))


def _cast(expr: Any, env: Environment) -> Value:
    source, target = expr.value.dtype.element, expr.dtype.element
    return _lanes(lambda v: convert(v, source, target), _evaluate(expr.value, env))


def _select(expr: Any, env: Environment) -> Value:
    condition = _evaluate(expr.condition, env)
    if not isinstance(condition, list):
        return _evaluate(expr.true_value if condition else expr.false_value, env)
    yes, no = _evaluate(expr.true_value, env), _evaluate(expr.false_value, env)
    return _lanes(lambda c, a, b: a if c else b, condition, yes, no)


def _ramp(expr: Any, env: Environment) -> Value:
    base, stride = _evaluate(expr.base, env), _evaluate(expr.stride, env)
    kind = expr.dtype.element
    steps = [
        _lanes(lambda b, s, i=i: round_to(b + i * s, kind), base, stride) for i in range(expr.lanes)
    ]
    return [v for step in steps for v in step] if isinstance(steps[0], list) else steps


def _broadcast(expr: Any, env: Environment) -> Value:
    value = _evaluate(expr.value, env)
    return (value if isinstance(value, list) else [value]) * expr.lanes


def _shuffle(expr: Any, env: Environment) -> Value:
    flat: list[Value] = []
    for vector in expr.vectors:
        value = _evaluate(vector, env)
        flat.extend(value if isinstance(value, list) else [value])
    picked = [flat[i] for i in expr.indices]
    return picked if expr.dtype.lanes > 1 else picked[0]


def _let(expr: Any, env: Environment) -> Value:
    return _evaluate(expr.body, {**env, expr.var: _evaluate(expr.value, env)})


def _call(expr: Any, env: Environment) -> Value:
    if expr.op == "tir.if_then_else":
        condition = _evaluate(expr.args[0], env)
        return _evaluate(expr.args[1] if condition else expr.args[2], env)
    args = [_evaluate(arg, env) for arg in expr.args]
    if expr.op == "tir.reinterpret":
        return _reinterpret(args[0], expr.args[0].dtype.element, expr.dtype.element)
    op = get_op(expr.op)
    if op.evaluate is None:
        raise UnsupportedError(f"the call {expr.op!r} has no meaning on plain values")
    kinds = [arg.dtype.element for arg in expr.args]
    if kinds[0].is_int:
        meaning = _BITS.get(expr.op)
        if meaning is not None:
            return _lanes(lambda *v: round_to(meaning(*v), expr.dtype), *args)

    def apply(*values: Any) -> Value:
        typed = [_typed(value, kind) for value, kind in zip(values, kinds, strict=True)]
        return round_to(op.evaluate(*typed), expr.dtype)  # type: ignore[misc]

    return _lanes(apply, *args)


# NumPy has no 1- and 4-bit arithmetic, and shifts by the width or more are undefined there.
_BITS: dict[str, Callable[..., int]] = {
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
    "tir.bitwise_not": lambda a: ~a,
    "tir.shift_left": shifted_left,
    "tir.shift_right": shifted_right,
    "tir.abs": abs,
    "tir.pow": lambda a, b: a**b,
}


def _typed(value: Any, kind: DType) -> Any:
    return bool(value) if kind.is_bool else kind.numpy.type(value)


def _reinterpret(value: Value, source: DType, target: DType) -> Value:
    def one(v: Any) -> Value:
        raw = np.array(_typed(v, source), dtype=source.numpy)
        result = raw.view(target.numpy)[()]
        return float(result) if target.is_float else int(result)

    return _lanes(one, value)


_RULES: dict[type[Expr], Callable[[Any, Environment], Value]] = {
    IntImm: lambda e, _: e.value,
    FloatImm: lambda e, _: round_to(e.value, e.dtype),
    StringImm: lambda e, _: e.value,
    Var: _variable,
    BinaryOp: _binary,
    Not: lambda e, env: _lanes(lambda v: int(not v), _evaluate(e.a, env)),
    Cast: _cast,
    Select: _select,
    Ramp: _ramp,
    Broadcast: _broadcast,
    Shuffle: _shuffle,
    Let: _let,
    Call: _call,
}
