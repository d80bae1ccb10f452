"""The functions that people write expressions with, beside the operators.

They take expressions or Python numbers, match types, and fold constants where the result is exact.
Several carry the name of a Python builtin (`min`, `all`, `round`, ...): import this module under a
name rather than its functions.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..base import DType, dtype
from ..base.errors import DTypeError, UserError
from ..base.late import package
from .bounds import type_range
from .build import as_expr, binary, bitwise, cast, const, match_types
from .evaluate import round_to
from .nodes import (
    And,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Or,
    Select,
    broadcast_to,
    match_lanes,
)
from .operators import ExprLike
from .ops import get_op

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = package("ml_dtypes")


def _need_float(name: str, x: Expr) -> None:
    if not x.dtype.is_float:
        raise DTypeError(
            f"{name} needs a floating-point value, got {x.dtype}", hint="cast it first"
        )


def _apply(op: str, args: tuple[Expr, ...], exact: bool) -> Expr:
    """The call, or its value when all arguments are constants and the result is exact."""
    kind = args[0].dtype
    info = get_op(op)
    result = dtype("bool").with_lanes(kind.lanes) if info.predicate else kind
    values = [arg.value for arg in args if isinstance(arg, FloatImm)]
    if exact and len(values) == len(args) and info.evaluate is not None:
        typed = [kind.numpy.type(value) for value in values]
        return const(round_to(info.evaluate(*typed), result), result)
    return Call(result, op, args)


def _float_unary(name: str, text: str, exact: bool = False) -> Callable[[ExprLike], Expr]:
    op = f"tir.{name}"

    def build(x: ExprLike) -> Expr:
        value = as_expr(x)
        _need_float(name, value)
        return _apply(op, (value,), exact)

    build.__name__, build.__doc__ = name, text
    return build


exp = _float_unary("exp", "e to the power of x.")
exp2 = _float_unary("exp2", "2 to the power of x.")
exp10 = _float_unary("exp10", "10 to the power of x.")
expm1 = _float_unary("expm1", "exp(x) - 1, exact near 0.")
log = _float_unary("log", "Natural logarithm.")
log2 = _float_unary("log2", "Logarithm to base 2.")
log10 = _float_unary("log10", "Logarithm to base 10.")
log1p = _float_unary("log1p", "log(1 + x), exact near 0.")
sqrt = _float_unary("sqrt", "Square root, correctly rounded.")
cbrt = _float_unary("cbrt", "Cube root, of negative numbers too.")
rsqrt = _float_unary("rsqrt", "1 / sqrt(x).")
sin = _float_unary("sin", "Sine.")
cos = _float_unary("cos", "Cosine.")
tan = _float_unary("tan", "Tangent.")
asin = _float_unary("asin", "Inverse sine.")
acos = _float_unary("acos", "Inverse cosine.")
atan = _float_unary("atan", "Inverse tangent.")
sinh = _float_unary("sinh", "Hyperbolic sine.")
cosh = _float_unary("cosh", "Hyperbolic cosine.")
tanh = _float_unary("tanh", "Hyperbolic tangent.")
asinh = _float_unary("asinh", "Inverse hyperbolic sine.")
acosh = _float_unary("acosh", "Inverse hyperbolic cosine.")
atanh = _float_unary("atanh", "Inverse hyperbolic tangent.")
erf = _float_unary("erf", "Error function.")
erfc = _float_unary("erfc", "1 - erf(x), exact for large x.")
sigmoid = _float_unary("sigmoid", "1 / (1 + exp(-x)).")
silu = _float_unary("silu", "x / (1 + exp(-x)).")
gelu = _float_unary("gelu", "x times the probability that a normal variable is below x.")
gelu_tanh = _float_unary("gelu_tanh", "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))).")
fabs = _float_unary("fabs", "Absolute value of a float.", exact=True)


def _rounding(name: str, text: str) -> Callable[[ExprLike], Expr]:
    def build(x: ExprLike) -> Expr:
        value = as_expr(x)
        return _apply(f"tir.{name}", (value,), True) if value.dtype.is_float else value

    build.__name__, build.__doc__ = name, text
    return build


floor = _rounding("floor", "The largest integer that is not above x; an integer as it is.")
ceil = _rounding("ceil", "The smallest integer that is not below x; an integer as it is.")
trunc = _rounding("trunc", "x without its fraction; an integer as it is.")
round = _rounding("round", "The nearest integer, half to even; an integer as it is.")
nearbyint = _rounding("nearbyint", "The nearest integer, half to even; an integer as it is.")
rint = _rounding("rint", "The nearest integer, half to even; an integer as it is.")


def _classification(name: str, of_integers: bool, text: str) -> Callable[[ExprLike], Expr]:
    def build(x: ExprLike) -> Expr:
        value = as_expr(x)
        if value.dtype.is_float:
            return _apply(f"tir.{name}", (value,), True)
        return const(of_integers, dtype("bool").with_lanes(value.dtype.lanes))

    build.__name__, build.__doc__ = name, text
    return build


isnan = _classification("isnan", False, "Whether x is NaN.")
isinf = _classification("isinf", False, "Whether x is infinite.")
isfinite = _classification("isfinite", True, "Whether x is neither infinite nor NaN.")


def _float_binary(
    name: str, text: str, exact: bool = False
) -> Callable[[ExprLike, ExprLike], Expr]:
    def build(a: ExprLike, b: ExprLike) -> Expr:
        x, y = match_types(a, b)
        _need_float(name, x)
        return _apply(f"tir.{name}", (x, y), exact)

    build.__name__, build.__doc__ = name, text
    return build


atan2 = _float_binary("atan2", "The angle of the point (b, a).")
hypot = _float_binary("hypot", "sqrt(a * a + b * b).")
fmod = _float_binary("fmod", "The remainder of truncated division of floats.", exact=True)
copysign = _float_binary("copysign", "a with the sign of b.", exact=True)
nextafter = _float_binary("nextafter", "The float after a in the direction of b.", exact=True)


def power(a: ExprLike, b: ExprLike) -> Expr:
    """a to the power of b; of integers as well.

    >>> power(const(3), 4), power(const(2.0), 0.5)
    (81, T.pow(T.float32(2.0), T.float32(0.5)))
    """
    x, y = match_types(a, b)
    if isinstance(x, IntImm) and isinstance(y, IntImm) and y.value >= 0:
        return const(pow(x.value, y.value, 1 << 64) if y.value > 64 else x.value**y.value, x.dtype)
    return Call(x.dtype, "tir.pow", (x, y))


def ldexp(a: ExprLike, b: ExprLike) -> Expr:
    """a * 2**b, for an integer b."""
    x, y = match_lanes(as_expr(a), as_expr(b, "int32"))
    _need_float("ldexp", x)
    return Call(x.dtype, "tir.ldexp", (x, y))


def fma(a: ExprLike, b: ExprLike, c: ExprLike) -> Expr:
    """a * b + c, rounded once."""
    x, y = match_types(a, b)
    x, z = match_types(x, c)
    x, y = match_types(x, y)
    _need_float("fma", x)
    return Call(x.dtype, "tir.fma", (x, y, z))


def abs(x: ExprLike) -> Expr:
    """Absolute value; the most negative integer stays as it is."""
    value = as_expr(x)
    if value.dtype.is_float:
        return fabs(value)
    if isinstance(value, IntImm):
        size = builtins.abs(value.value)
        return value if size == 1 << (value.dtype.bits - 1) else const(size, value.dtype)
    return value if value.dtype.is_unsigned else Call(value.dtype, "tir.abs", (value,))


# ---------------------------------------------------------------------------- integers


def _integer_division(kind: type[Any], a: ExprLike, b: ExprLike) -> Expr:
    x, y = match_types(a, b)
    if x.dtype.is_float:
        raise DTypeError(f"{kind.__name__} needs integers, got {x.dtype}", hint="use `/`")
    return binary(kind, x, y)


def truncdiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounded toward zero.

    >>> truncdiv(const(-7), 2), floordiv(const(-7), 2), ceildiv(const(7), 2)
    (-3, -4, 4)
    """
    return _integer_division(Div, a, b)


def truncmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of `truncdiv`, with the sign of `a`."""
    return _integer_division(Mod, a, b)


def floordiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounded down."""
    return binary(FloorDiv, a, b)


def floormod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of `floordiv`, with the sign of `b`."""
    return binary(FloorMod, a, b)


def ceildiv(a: ExprLike, b: ExprLike) -> Expr:
    """Integer division rounded up, for b > 0."""
    x, y = match_types(a, b)
    return binary(FloorDiv, x + (y - 1), y)


def _integer_unary(name: str, x: ExprLike, function: Callable[[int, int], int]) -> Expr:
    value = as_expr(x)
    if not value.dtype.is_int:
        raise DTypeError(f"{name} needs an integer, got {value.dtype}")
    if isinstance(value, IntImm):
        bits = value.dtype.bits
        return const(function(value.value & ((1 << bits) - 1), bits), value.dtype)
    return Call(value.dtype, f"tir.{name}", (value,))


def popcount(x: ExprLike) -> Expr:
    """The number of bits that are set."""
    return _integer_unary("popcount", x, lambda v, _: v.bit_count())


def clz(x: ExprLike) -> Expr:
    """The number of leading zero bits."""
    return _integer_unary("clz", x, lambda v, bits: bits - v.bit_length())


def bitwise_and(a: ExprLike, b: ExprLike) -> Expr:
    """Bit by bit and; logical for bools."""
    return bitwise("tir.bitwise_and", a, b)


def bitwise_or(a: ExprLike, b: ExprLike) -> Expr:
    """Bit by bit or; logical for bools."""
    return bitwise("tir.bitwise_or", a, b)


def bitwise_xor(a: ExprLike, b: ExprLike) -> Expr:
    """Bit by bit exclusive or; logical for bools."""
    return bitwise("tir.bitwise_xor", a, b)


def bitwise_not(a: ExprLike) -> Expr:
    """Every bit flipped; logical for bools."""
    return ~as_expr(a)  # type: ignore[no-any-return]


def shift_left(a: ExprLike, b: ExprLike) -> Expr:
    """a * 2**b, wrapped around."""
    return bitwise("tir.shift_left", a, b)


def shift_right(a: ExprLike, b: ExprLike) -> Expr:
    """a // 2**b."""
    return bitwise("tir.shift_right", a, b)


# ---------------------------------------------------------------------------- choices, limits


def min(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller value; NaN if either is NaN."""
    return binary(Min, a, b)


def max(a: ExprLike, b: ExprLike) -> Expr:
    """The larger value; NaN if either is NaN."""
    return binary(Max, a, b)


def _condition(value: ExprLike) -> Expr:
    condition = as_expr(value)
    if not condition.dtype.is_bool:
        raise DTypeError(f"a condition must be bool, got {condition.dtype}: {condition}")
    return condition


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values; the other is not evaluated, so a load there may be out of bounds.

    >>> if_then_else(const(True), 1, 2)
    1
    """
    test = _condition(condition)
    yes, no = match_types(true_value, false_value)
    if isinstance(test, IntImm):
        return yes if test.value else no
    return Call(yes.dtype, "tir.if_then_else", (test, yes, no))


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values; both may be evaluated."""
    test = _condition(condition)
    yes, no = match_types(true_value, false_value)
    if isinstance(test, IntImm):
        return yes if test.value else no
    lanes = builtins.max(test.dtype.lanes, yes.dtype.lanes)
    if test.dtype.lanes > 1:
        test = broadcast_to(test, lanes)
    return Select(test, broadcast_to(yes, lanes), broadcast_to(no, lanes))


def likely(condition: ExprLike) -> Expr:
    """The condition, with the hint that it nearly always holds."""
    test = _condition(condition)
    return test if isinstance(test, IntImm) else Call(test.dtype, "tir.likely", (test,))


def all(*conditions: ExprLike) -> Expr:
    """Whether all conditions hold; true of none.

    >>> from .nodes import Var
    >>> i = Var("i"); all(i < 3, i > 0, True)
    i < 3 and i > 0
    """
    parts = builtins.map(_condition, conditions)
    return reduce(lambda a, b: binary(And, a, b), parts, const(True))


def any(*conditions: ExprLike) -> Expr:
    """Whether one condition holds; false of none."""
    parts = builtins.map(_condition, conditions)
    return reduce(lambda a, b: binary(Or, a, b), parts, const(False))


def _float_info(kind: DType) -> Any:
    return ml_dtypes.finfo(kind.element.numpy)


def min_value(dtype_: str) -> Expr:
    """The smallest finite value of a type.

    >>> min_value("int8"), max_value("uint8"), max_value("float16")
    (T.int8(-128), T.uint8(255), T.float16(65504.0))
    """
    kind = dtype(dtype_)
    if kind.is_float:
        return const(float(_float_info(kind).min), kind)
    return const(type_range(kind.element)[0], kind)


def max_value(dtype_: str) -> Expr:
    """The largest finite value of a type."""
    kind = dtype(dtype_)
    if kind.is_float:
        return const(float(_float_info(kind).max), kind)
    return const(type_range(kind.element)[1], kind)


def infinity(dtype_: str) -> Expr:
    """Positive infinity of a floating-point type."""
    kind = dtype(dtype_)
    if not kind.is_float:
        raise DTypeError(f"{kind} has no infinity", hint="use max_value")
    return const(math.inf, kind)


def nan(dtype_: str) -> Expr:
    """Not a number, of a floating-point type."""
    kind = dtype(dtype_)
    if not kind.is_float:
        raise DTypeError(f"{kind} has no NaN")
    return const(math.nan, kind)


def negative(x: ExprLike) -> Expr:
    """-x; of a float the sign bit is flipped, so that -(0.0) is -0.0."""
    return -as_expr(x)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------------- calls


def reinterpret(dtype_: str, value: ExprLike) -> Expr:
    """The bits of the value as another type of the same size."""
    source, kind = as_expr(value), dtype(dtype_)
    if source.dtype is kind:
        return source
    if source.dtype.bits * source.dtype.lanes != kind.bits * kind.lanes:
        raise DTypeError(f"reinterpret needs types of one size, got {source.dtype} and {kind}")
    return Call(kind, "tir.reinterpret", (source,))


def call_intrin(dtype_: str, name: str, *args: ExprLike) -> Expr:
    """A call of a registered operation, as it is.

    Raises:
        UserError: when the operation is not registered or takes another number of arguments.
    """
    info = get_op(name)
    if info.arity is not None and info.arity != len(args):
        raise UserError(f"{name} takes {info.arity} arguments, got {len(args)}")
    return Call(dtype_, name, [as_expr(arg) for arg in args])


def call_extern(dtype_: str, name: str, *args: ExprLike) -> Expr:
    """A call of a C function that may do anything."""
    return Call(dtype_, "tir.call_extern", [as_expr(name), *(as_expr(arg) for arg in args)])


def call_pure_extern(dtype_: str, name: str, *args: ExprLike) -> Expr:
    """A call of a C function whose result depends on its arguments alone."""
    return Call(dtype_, "tir.call_pure_extern", [as_expr(name), *(as_expr(arg) for arg in args)])


__all__ = [
    "abs", "acos", "acosh", "all", "any", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "call_extern", "call_intrin", "call_pure_extern",
    "cast", "cbrt", "ceil", "ceildiv", "clz", "copysign", "cos", "cosh", "erf", "erfc", "exp",
    "exp10", "exp2", "expm1", "fabs", "floor", "floordiv", "floormod", "fma", "fmod", "gelu",
    "gelu_tanh", "hypot",
    "if_then_else", "infinity", "isfinite", "isinf", "isnan", "ldexp", "likely", "log", "log10",
    "log1p", "log2", "max", "max_value", "min", "min_value", "nan", "nearbyint", "negative",
    "nextafter", "popcount", "power", "reinterpret", "rint", "round", "rsqrt", "select",
    "shift_left", "shift_right", "sigmoid", "silu", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "truncdiv", "truncmod",
]  # fmt: skip
