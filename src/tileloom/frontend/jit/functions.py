"""Elementwise functions on traced arrays, under the array API's names (see `public`)."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from operator import index
from typing import Any

from ...base import dtype
from ...base.errors import UnsupportedError
from ...graph import ops
from .array import Array, ArrayLike, as_type, beyond, element_type, floating, floats, lift, promote
from .inplace import share
from .powers import power
from .public import PUBLIC, named, public


def _unary(name: str, build: Callable[..., Any], *, real: bool, same: bool = True) -> None:
    @public
    @named(name, f"Elementwise `{name}`; the type of the result is NumPy's.")
    def function(x: ArrayLike, /) -> Array:
        array = lift(x)
        kind = floating(array) if real else array.tensor.dtype
        return Array(build(as_type(array, kind)), weak=array.weak and same)


_REAL = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2",
    "expm1", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh", "silu", "mish", "softplus", "softsign", "selu", "celu", "hard_sigmoid",
    "hard_swish", "relu6", "log_sigmoid", "erfc",
)  # fmt: skip
for _name in _REAL:
    _unary(_name, getattr(ops, _name), real=True)
for _name in ("abs", "sign", "square", "relu", "bitwise_invert"):
    _unary(_name, getattr(ops, _name), real=False)
_unary("negative", ops.neg, real=False)
for _name in ("isfinite", "isinf", "isnan"):
    _unary(_name, getattr(ops, _name), real=True, same=False)


def _integral(name: str) -> None:
    build = getattr(ops, name)
    _unary(name, lambda t: build(t) if t.dtype.is_float else t, real=False)


for _name in ("ceil", "floor", "trunc"):
    _integral(_name)


@public
def round(x: ArrayLike, /, decimals: int = 0) -> Array:
    """Elements rounded to so many decimals, ties to even; negative: to tens, hundreds, ..."""
    array, places = lift(x), index(decimals)
    tensor = array.tensor
    if not tensor.dtype.is_float:
        if places >= 0:
            return Array(tensor, weak=array.weak)
        whole = PUBLIC["round"](astype(array, "float64"), places)
        return Array(as_type(whole, tensor.dtype))
    if places == 0:
        return Array(ops.round(tensor), weak=array.weak)
    first, second = (ops.mul, ops.div) if places > 0 else (ops.div, ops.mul)
    by = 10.0 ** builtins.abs(places)
    return Array(second(ops.round(first(tensor, by)), by), weak=array.weak)


@public
def positive(x: ArrayLike, /) -> Array:
    """The array itself."""
    return lift(x)


@public
def logical_not(x: ArrayLike, /) -> Array:
    """Whether elements are zero."""
    return Array(ops.logical_not(as_type(lift(x), dtype("bool"))))


@public
def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set, of -0.0 and NaN too."""
    return Array(ops.signbit(floats(x)))


#: What NumPy computes of truth values under the names of arithmetic.
_OF_TRUTH = {
    "add": ops.logical_or, "multiply": ops.logical_and, "maximum": ops.logical_or,
    "minimum": ops.logical_and,
}  # fmt: skip
#: These take truth values for numbers.
_OF_SMALL_NUMBERS = frozenset({"pow", "remainder", "floor_divide", "fmod"})


def _binary(name: str, build: Callable[..., Any], *, real: bool = False) -> None:
    @public
    @named(name, f"Elementwise `{name}` with broadcasting; types are promoted as in NumPy.")
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        a, b = lift(x1), lift(x2)
        kind, compute = promote(a, b), build
        if real and not kind.is_float:
            kind = dtype("float64")
        elif kind.is_bool and name in _OF_SMALL_NUMBERS:
            kind = dtype("int8")
        elif kind.is_bool:
            compute = _OF_TRUTH.get(name, build)
        return Array(compute(as_type(a, kind), as_type(b, kind)), weak=a.weak and b.weak)


for _name, _build in {
    "add": ops.add, "subtract": ops.sub, "multiply": ops.mul, "pow": power,
    "maximum": ops.maximum, "minimum": ops.minimum, "remainder": ops.mod,
    "floor_divide": ops.floor_divide, "fmod": ops.fmod,
    "bitwise_and": ops.bitwise_and, "bitwise_or": ops.bitwise_or, "bitwise_xor": ops.bitwise_xor,
    "bitwise_left_shift": ops.shift_left, "bitwise_right_shift": ops.shift_right,
}.items():  # fmt: skip
    _binary(_name, _build)
_binary("divide", ops.div, real=True)
_binary("atan2", ops.atan2, real=True)


def _comparison(name: str) -> None:
    build = getattr(ops, name)

    @public
    @named(name, f"Elementwise `{name}` with broadcasting, as bool.")
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        a, b = lift(x1), lift(x2)
        kind = promote(a, b)
        for number, other, order in ((a, b, 1), (b, a, -1)):
            side = beyond(number, kind)
            if side:  # all elements of the other lie on one side of it
                truth = _COMPARE[name](order * side, 0)
                return Array(ops.full(other.shape, truth, "bool"))
        return Array(build(as_type(a, kind), as_type(b, kind)))


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt,
    "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
}  # fmt: skip
for _name in _COMPARE:
    _comparison(_name)


def _logical(name: str) -> None:
    build = getattr(ops, name)

    @public
    @named(name, f"Elementwise `{name}` of truth values.")
    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        truth = dtype("bool")
        return Array(build(as_type(lift(x1), truth), as_type(lift(x2), truth)))


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logical(_name)


for _name in ("hypot", "copysign", "logaddexp"):
    _binary(_name, getattr(ops, _name), real=True)


@public
def where(
    condition: ArrayLike, x1: ArrayLike | None = None, x2: ArrayLike | None = None, /
) -> Array:
    """`x1` where the condition holds, else `x2`."""
    if x1 is None or x2 is None:
        raise UnsupportedError(
            "where() of a condition alone has a shape that depends on the data",
            hint="give both choices: where(condition, a, b)",
        )
    a, b = lift(x1), lift(x2)
    kind = promote(a, b)
    test = as_type(lift(condition), dtype("bool"))
    return Array(ops.where(test, as_type(a, kind), as_type(b, kind)))


@public
def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Elements kept between two bounds."""
    array = lift(x)
    kind = array.tensor.dtype
    # A bound that no element of the type reaches bounds nothing.
    if min is not None and beyond(lift(min), kind) >= 0:
        array = PUBLIC["maximum"](array, min)
    if max is not None and beyond(lift(max), kind) <= 0:
        array = PUBLIC["minimum"](array, max)
    return array


@public
def astype(x: ArrayLike, dtype_: Any, /, *, copy: bool = True) -> Array:
    """The elements converted as C does; without `copy` the array itself, if it has the type."""
    array = lift(x)
    result = Array(as_type(array, element_type(dtype_)))
    if not copy and result.tensor is array.tensor:
        share(result, array)
    return result
