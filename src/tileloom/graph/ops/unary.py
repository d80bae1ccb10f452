"""Functions of one number: arithmetic, transcendental, rounding, classification, logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compute as te
from ...base import dtype
from ...expr import EQ, GT, LT, Call, Expr, Max, Mul, Sub, binary, cast, const
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, Infer, apply1
from .common import (
    ComputeBody,
    DTypeClass,
    Types,
    check_dtype,
    define,
    elementwise,
    widen,
    wrapping,
)

_BOOL = dtype("bool")


def _infer(accepted: DTypeClass, makes_bool: bool = False) -> Infer:
    def infer(types: Types, attrs: Attrs) -> list[TensorType]:
        check_dtype(types[0], accepted)
        return [TensorType(types[0].shape, _BOOL if makes_bool else types[0].dtype)]

    return infer


def _unary(
    name: str,
    accepted: DTypeClass,
    reference: Callable[[Array], Any],
    body: ComputeBody,
    makes_bool: bool = False,
) -> None:
    def evaluate(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Any]:
        return [reference(widen(arrays[0]))]

    infer = _infer(accepted, makes_bool)
    define(name, "elementwise", infer, evaluate, elementwise(body, name))


def in_float32(body: ComputeBody) -> ComputeBody:
    """The rule computed in float32 where the operands are narrower floats."""

    def widened(*args: Expr) -> Expr:
        kind = args[0].dtype
        wide = te.accumulator(kind)
        return cast(kind, body(*(cast(wide, arg) for arg in args)))

    return widened


def _intrinsic(name: str) -> ComputeBody:
    return in_float32(lambda x: te.call(name, x))


def _rounding(name: str) -> ComputeBody:
    exact = _intrinsic(name)
    return lambda x: exact(x) if x.dtype.is_float else x


def _classify(name: str, of_integers: bool) -> ComputeBody:
    def body(x: Expr) -> Expr:
        if not x.dtype.is_float:
            return const(of_integers)
        return te.call(name, cast(te.accumulator(x.dtype), x), kind="bool")

    return body


def _sign(x: Expr) -> Expr:
    one, zero = const(1, x.dtype), const(0, x.dtype)
    positive = te.select(binary(GT, x, zero), one, te.select(binary(EQ, x, zero), zero, x))
    if x.dtype.is_unsigned:
        return positive
    return te.select(binary(LT, x, zero), const(-1, x.dtype), positive)


def _each(function: Callable[[float], float], x: Array) -> Array:
    values = np.array([function(v) for v in x.reshape(-1).tolist()], np.float64)
    return values.reshape(x.shape).astype(x.dtype)


def _erf(x: Array) -> Array:
    return _each(math.erf, x)


def _erfc(x: Array) -> Array:
    return _each(math.erfc, x)


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x.astype(np.float64)))
    return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay))


def _rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _absolute(x: Expr) -> Expr:
    return x if x.dtype.is_unsigned else Call(x.dtype, "tir.abs", (x,))


def _negate(x: Expr) -> Expr:
    if x.dtype.is_float:
        return x * const(-1, x.dtype)  # type: ignore[no-any-return]
    return wrapping(Sub, const(0, x.dtype), x)


_unary("neg", "number", np.negative, _negate)
_unary("abs", "number", np.abs, _absolute)
_unary("sign", "number", np.sign, _sign)
_unary("square", "number", np.square, lambda x: wrapping(Mul, x, x))
_unary("relu", "number", lambda x: np.maximum(x, x.dtype.type(0)),
       lambda x: binary(Max, x, const(0, x.dtype)))  # fmt: skip
_unary("reciprocal", "float", lambda x: 1 / x, lambda x: const(1.0, x.dtype) / x)
_unary("rsqrt", "float", lambda x: 1 / np.sqrt(x), _intrinsic("rsqrt"))
_unary("erf", "float", _erf, _intrinsic("erf"))
_unary("erfc", "float", _erfc, _intrinsic("erfc"))
_unary("sigmoid", "float", _sigmoid, _intrinsic("sigmoid"))
_unary("logical_not", "bool", np.logical_not, te.logical_not)
_unary("bitwise_invert", "bits", np.invert, lambda x: ~x)
_unary("isnan", "number", np.isnan, _classify("isnan", False), makes_bool=True)
_unary("isinf", "number", np.isinf, _classify("isinf", False), makes_bool=True)
_unary("isfinite", "number", np.isfinite, _classify("isfinite", True), makes_bool=True)
for _name, _function in {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh,
}.items():  # fmt: skip
    _unary(_name, "float", _function, _intrinsic(_name))
for _name, _function in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}.items():
    _unary(_name, "number", _rounded(_function), _rounding(_name))
_unary("round", "number", _rounded(np.rint), _rounding("nearbyint"))


def _builder(name: str, doc: str) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        return apply1(name, (x,))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


neg = _builder("neg", "-x; integers wrap around.")
abs = _builder("abs", "The absolute value.")
sign = _builder("sign", "-1, 0 or 1; NaN of NaN.")
square = _builder("square", "x * x.")
relu = _builder("relu", "max(x, 0); NaN of NaN.")
reciprocal = _builder("reciprocal", "1 / x.")
rsqrt = _builder("rsqrt", "1 / sqrt(x).")
sqrt = _builder("sqrt", "The square root.")
cbrt = _builder("cbrt", "The cube root, of negative numbers too.")
exp = _builder("exp", "e to the power x.")
exp2 = _builder("exp2", "2 to the power x.")
expm1 = _builder("expm1", "exp(x) - 1, exact near 0.")
log = _builder("log", "The natural logarithm.")
log2 = _builder("log2", "The logarithm to base 2.")
log10 = _builder("log10", "The logarithm to base 10.")
log1p = _builder("log1p", "log(1 + x), exact near 0.")
sin = _builder("sin", "The sine.")
cos = _builder("cos", "The cosine.")
tan = _builder("tan", "The tangent.")
asin = _builder("asin", "The inverse sine.")
acos = _builder("acos", "The inverse cosine.")
atan = _builder("atan", "The inverse tangent.")
sinh = _builder("sinh", "The hyperbolic sine.")
cosh = _builder("cosh", "The hyperbolic cosine.")
tanh = _builder("tanh", "The hyperbolic tangent.")
asinh = _builder("asinh", "The inverse hyperbolic sine.")
acosh = _builder("acosh", "The inverse hyperbolic cosine.")
atanh = _builder("atanh", "The inverse hyperbolic tangent.")
erf = _builder("erf", "The error function.")
erfc = _builder("erfc", "1 - erf(x), with all digits where that is tiny.")
sigmoid = _builder("sigmoid", "1 / (1 + exp(-x)).")
floor = _builder("floor", "The next integer below; integers stay.")
ceil = _builder("ceil", "The next integer above; integers stay.")
round = _builder("round", "The nearest integer, half to even; integers stay.")
trunc = _builder("trunc", "The next integer toward zero; integers stay.")
isnan = _builder("isnan", "Whether x is NaN.")
isinf = _builder("isinf", "Whether x is infinite.")
isfinite = _builder("isfinite", "Whether x is neither infinite nor NaN.")
logical_not = _builder("logical_not", "The negation of a bool.")
bitwise_invert = _builder("bitwise_invert", "All bits flipped.")
