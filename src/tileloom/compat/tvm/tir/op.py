"""`tvm.tir.op`: functions that make expressions, and the reducers among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import compute
from ....expr import Call, Expr, ExprLike, IterVar, as_expr, binary, const, intrin, nodes
from ....expr.intrin import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    call_extern,
    call_pure_extern,
    ceil,
    ceildiv,
    clz,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    floor,
    floordiv,
    floormod,
    fmod,
    hypot,
    if_then_else,
    infinity,
    isfinite,
    isinf,
    isnan,
    ldexp,
    likely,
    log,
    log1p,
    log2,
    log10,
    max_value,
    min_value,
    nan,
    nearbyint,
    nextafter,
    popcount,
    power,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)  # fmt: skip
from ....script import builders
from ....script.intrinsics import is_intrinsic
from .._names import missing

pow = power
indexdiv, indexmod = floordiv, floormod
comm_reducer = compute.comm_reducer
ret = builders.ret
tvm_access_ptr = builders.tvm_access_ptr
type_annotation = builders.type_annotation


def div(a: ExprLike, b: ExprLike) -> Expr:
    """`a / b` as C has it: true division of floats, truncated division of integers."""
    return binary(nodes.Div, a, b)


def call_intrin(dtype: str, func_name: Any, *args: ExprLike) -> Expr:
    """A call of an intrinsic by its full name."""
    return Call(dtype, str(func_name), [as_expr(arg) for arg in args])


def multiply(a: ExprLike, b: ExprLike) -> Expr:
    """a * b."""
    return binary(nodes.Mul, a, b)


def add(a: ExprLike, b: ExprLike) -> Expr:
    """a + b."""
    return binary(nodes.Add, a, b)


def subtract(a: ExprLike, b: ExprLike) -> Expr:
    """a - b."""
    return binary(nodes.Sub, a, b)


def _reducer(
    fcombine: Callable[[Any, Any], Expr], fidentity: Callable[[str], Expr], name: str
) -> Callable[..., Any]:
    """A reduction over an axis; of several values, when no axis follows the first, what combines
    them.
    """
    reducer = compute.comm_reducer(fcombine, fidentity, name)

    def reduce(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any:
        if isinstance(axis, (IterVar, list, tuple)):
            return reducer(expr, axis, where, init)
        result = expr
        for value in (axis, where, init, *args):
            result = result if value is None else fcombine(result, value)
        return result

    reduce.__name__, reduce.__doc__ = name, f"The {name} over axes, or of the given values."
    return reduce


# The identities are TVM's: of floats the largest finite numbers, where `tileloom.compute` has
# infinities.
sum = _reducer(add, lambda kind: const(0, kind), "sum")
min = _reducer(intrin.min, max_value, "min")
max = _reducer(intrin.max, min_value, "max")

__all__ = [
    "abs", "acos", "acosh", "add", "all", "any", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call_extern", "call_intrin",
    "call_pure_extern", "ceil", "ceildiv", "clz", "comm_reducer", "const", "copysign", "cos",
    "cosh", "div", "erf", "exp", "exp10", "exp2", "floor", "floordiv", "floormod", "fmod", "hypot",
    "if_then_else", "indexdiv", "indexmod", "infinity", "isfinite", "isinf", "isnan", "ldexp",
    "likely", "log", "log10", "log1p", "log2", "max", "max_value", "min", "min_value", "multiply",
    "nan", "nearbyint", "nextafter", "popcount", "pow", "power", "reinterpret", "ret", "round",
    "rsqrt", "shift_left", "shift_right", "sigmoid", "sin", "sinh", "sqrt", "subtract", "sum",
    "tan", "tanh", "trunc", "truncdiv", "truncmod", "tvm_access_ptr", "type_annotation",
]  # fmt: skip
_missing = missing(__name__)


def __getattr__(name: str) -> Any:
    """Intrinsics that have no function of their own: the call as a script writes it."""
    return builders.lookup(name) if is_intrinsic(name) else _missing(name)
