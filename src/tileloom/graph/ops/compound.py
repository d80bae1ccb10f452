"""Small compositions of arithmetic and reductions: what fused ops of other systems compute.

Source of most: MindSpore's graph-kernel expanders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce as fold_left

import numpy as np

from ...base.errors import ArgumentError
from ..nodes import Tensor
from . import reduce
from .binary import (
    add,
    copysign,
    div,
    equal,
    greater,
    less,
    logical_or,
    maximum,
    minimum,
    mul,
    not_equal,
    pow,
    sub,
)
from .choose import cast, where
from .common import Operand, builder, normalize_axes, normalize_axis
from .composite import build, build_all, composite
from .constants import full_like
from .matmul import matmul
from .shape import reshape
from .unary import abs as absolute
from .unary import (
    exp,
    isfinite,
    isinf,
    log1p,
    logical_not,
    neg,
    sqrt,
    square,
)

Axes = int | Sequence[int] | None

# ---------------------------------------------------------------------------- arithmetic


def _lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """From the nearer end, so that both ends are met exactly."""
    way = sub(y, x)
    near = less(absolute(weight), 0.5)
    return where(near, add(x, mul(weight, way)), sub(y, mul(way, sub(1.0, weight))))


composite("squared_difference", lambda a, b: square(sub(a, b)))
composite("add_n", lambda *xs: fold_left(add, xs))
composite("fused_mul_add", lambda a, b, c: add(mul(a, b), c))
composite("lerp", _lerp)
composite("addmm", lambda x, a, b, alpha, beta: (
    add(scaled(x, beta), scaled(matmul(a, b), alpha))))  # fmt: skip
composite("float_status", lambda x: cast(
    reduce.any(logical_not(isfinite(x))), "float32"))  # fmt: skip


def scaled(x: Tensor, factor: float) -> Tensor:
    """A tensor times a number, itself for 1."""
    return x if factor == 1 else mul(x, factor)


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    x, y = absolute(a), absolute(b)
    high = maximum(x, y)
    ratio = div(minimum(x, y), where(equal(high, 0.0), 1.0, high))
    length = mul(high, sqrt(add(square(ratio), 1.0)))
    return where(logical_or(isinf(x), isinf(y)), math.inf, length)


def _logaddexp(a: Tensor, b: Tensor) -> Tensor:
    """The larger and a correction; equal ones, infinities too, have no distance."""
    top = maximum(a, b)
    beyond = log1p(exp(neg(absolute(sub(a, b)))))
    return add(top, where(equal(a, b), math.log(2.0), beyond))


def _signbit(x: Tensor) -> Tensor:
    return less(copysign(full_like(x, 1.0), x) if x.dtype.is_float else x, 0)


composite("hypot", _hypot, np.hypot)
composite("logaddexp", _logaddexp, np.logaddexp)
composite("signbit", _signbit)


def hypot(a: Operand, b: Operand) -> Tensor:
    """sqrt(a² + b²), without avoidable overflow; infinite if an operand is."""
    return build("hypot", a, b)


def logaddexp(a: Operand, b: Operand) -> Tensor:
    """log(exp(a) + exp(b)), without overflow."""
    return build("logaddexp", a, b)


def signbit(x: Tensor) -> Tensor:
    """Whether the sign is that of negative numbers, of -0.0 and NaN too."""
    return build("signbit", x)


def squared_difference(a: Operand, b: Operand) -> Tensor:
    """(a - b)²."""
    return build("squared_difference", a, b)


def add_n(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of one or more tensors, from the first to the last."""
    if not tensors:
        raise ArgumentError("add_n: needs at least one tensor")
    return build("add_n", *tensors)


def fused_mul_add(a: Tensor, b: Operand, c: Operand) -> Tensor:
    """a * b + c."""
    return build("fused_mul_add", a, b, c)


def lerp(x: Tensor, y: Tensor, weight: Operand) -> Tensor:
    """x + weight * (y - x), exact for the weights 0 and 1."""
    return build("lerp", x, y, weight)


def addmm(x: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """beta * x + alpha * a b."""
    return build("addmm", x, a, b, alpha=float(alpha), beta=float(beta))


def float_status(x: Tensor) -> Tensor:
    """1 if an element is NaN or infinite, else 0, as float32."""
    return build("float_status", x)


# ---------------------------------------------------------------------------- norms


def _p_norm(x: Tensor, p: float, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    size = absolute(x)
    if p == 0:
        return reduce.sum(cast(not_equal(x, 0.0), x.dtype), axis, keepdims)
    if p == math.inf:
        return reduce.max(size, axis, keepdims)
    if p == -math.inf:
        return reduce.min(size, axis, keepdims)
    if p == 1:
        return reduce.sum(size, axis, keepdims)
    if p == 2:
        return sqrt(reduce.sum(square(x), axis, keepdims))
    return pow(reduce.sum(pow(size, p), axis, keepdims), 1 / p)


def _clip_by_norm(x: Tensor, limit: Tensor, axis: tuple[int, ...]) -> Tensor:
    norm = _p_norm(x, 2.0, axis, True)
    return div(mul(x, limit), maximum(norm, limit))


def _clip_by_norm_no_div_sum(x: Tensor, least: Tensor, one: Tensor, floor: Tensor) -> Tensor:
    positive = greater(x, least)
    return maximum(where(positive, sqrt(where(positive, x, one)), x), floor)


composite("p_norm", _p_norm)
composite("clip_by_norm", _clip_by_norm)
composite("clip_by_norm_no_div_sum", _clip_by_norm_no_div_sum)
composite("square_sum", lambda x, axis, keepdims: reduce.sum(square(x), axis, keepdims))
composite("square_sum_all", lambda a, b: (reduce.sum(square(a)), reduce.sum(square(b))),
          like=(0, 1))  # fmt: skip


@builder
def p_norm(x: Tensor, p: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """(sum |x|^p)^(1 / p) over axes; of p 0 the number of elements that are not 0."""
    axes = normalize_axes(axis, x.ndim)
    return build("p_norm", x, p=float(p), axis=axes, keepdims=bool(keepdims))


@builder
def clip_by_norm(x: Tensor, limit: Operand, axis: Axes = None) -> Tensor:
    """x scaled so that its norm over axes is at most a limit."""
    return build("clip_by_norm", x, limit, axis=normalize_axes(axis, x.ndim))


def clip_by_norm_no_div_sum(x: Tensor, least: Operand, one: Operand, floor: Operand) -> Tensor:
    """A norm from its square x: the root where x > least, else x itself; not below the floor."""
    return build("clip_by_norm_no_div_sum", x, least, one, floor)


@builder
def square_sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum of squares over axes."""
    return build("square_sum", x, axis=normalize_axes(axis, x.ndim), keepdims=bool(keepdims))


def square_sum_all(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of all squares of two tensors."""
    first, second = build_all("square_sum_all", a, b)
    return first, second


# ---------------------------------------------------------------------------- comparisons


def _equal_count(a: Tensor, b: Tensor) -> Tensor:
    return reshape(reduce.sum(cast(equal(a, b), "int64")), [1])


composite("equal_count", _equal_count)
composite("argmax_with_value", lambda x, axis, keepdims: (
    reduce.argmax(x, axis, keepdims), reduce.max(x, axis, keepdims)))  # fmt: skip
composite("argmin_with_value", lambda x, axis, keepdims: (
    reduce.argmin(x, axis, keepdims), reduce.min(x, axis, keepdims)))  # fmt: skip


def equal_count(a: Tensor, b: Tensor) -> Tensor:
    """How many elements are equal, as int64[1]."""
    return build("equal_count", a, b)


def _arg(name: str, x: Tensor, axis: int, keepdims: bool) -> tuple[Tensor, Tensor]:
    index, value = build_all(name, x, axis=normalize_axis(axis, x.ndim), keepdims=bool(keepdims))
    return index, value


@builder
def argmax_with_value(x: Tensor, axis: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The index of the first maximum along an axis as int64, and the maximum."""
    return _arg("argmax_with_value", x, axis, keepdims)


@builder
def argmin_with_value(x: Tensor, axis: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The index of the first minimum along an axis as int64, and the minimum."""
    return _arg("argmin_with_value", x, axis, keepdims)
