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
from .common import Operand, operands
from .composite import build, composite, define_composite
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


def scaled(x: Tensor, factor: float) -> Tensor:
    """A tensor times a number, itself for 1."""
    return x if factor == 1 else mul(x, factor)


@composite(np.hypot)
def hypot(a: Operand, b: Operand) -> Tensor:
    """sqrt(a² + b²), without avoidable overflow; infinite if an operand is."""
    x, y = map(absolute, operands(a, b))
    high = maximum(x, y)
    ratio = div(minimum(x, y), where(equal(high, 0.0), 1.0, high))
    length = mul(high, sqrt(add(square(ratio), 1.0)))
    return where(logical_or(isinf(x), isinf(y)), math.inf, length)


@composite(np.logaddexp)
def logaddexp(a: Operand, b: Operand) -> Tensor:
    """log(exp(a) + exp(b)), without overflow."""
    # The larger and a correction; equal ones, infinities too, have no distance.
    top = maximum(a, b)
    beyond = log1p(exp(neg(absolute(sub(a, b)))))
    return add(top, where(equal(a, b), math.log(2.0), beyond))


@composite()
def signbit(x: Tensor) -> Tensor:
    """Whether the sign is that of negative numbers, of -0.0 and NaN too."""
    return less(copysign(full_like(x, 1.0), x) if x.dtype.is_float else x, 0)


@composite()
def squared_difference(a: Operand, b: Operand) -> Tensor:
    """(a - b)²."""
    return square(sub(a, b))


define_composite("add_n", lambda *xs: fold_left(add, xs))


def add_n(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of one or more tensors, from the first to the last."""
    if not tensors:
        raise ArgumentError("add_n: needs at least one tensor")
    return build("add_n", *tensors)


@composite()
def fused_mul_add(a: Tensor, b: Operand, c: Operand) -> Tensor:
    """a * b + c."""
    return add(mul(a, b), c)


@composite()
def lerp(x: Tensor, y: Tensor, weight: Operand) -> Tensor:
    """x + weight * (y - x), exact for the weights 0 and 1."""
    way = sub(y, x)
    # From the nearer end, so that both ends are met exactly.
    near = less(absolute(*operands(weight)), 0.5)
    return where(near, add(x, mul(weight, way)), sub(y, mul(way, sub(1.0, weight))))


@composite()
def addmm(x: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """beta * x + alpha * a b."""
    return add(scaled(x, beta), scaled(matmul(a, b), alpha))


@composite()
def float_status(x: Tensor) -> Tensor:
    """1 if an element is NaN or infinite, else 0, as float32."""
    return cast(reduce.any(logical_not(isfinite(x))), "float32")


# ---------------------------------------------------------------------------- norms


def _p_norm(x: Tensor, p: float, axis: Axes, keepdims: bool) -> Tensor:
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


@composite()
def p_norm(x: Tensor, p: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """(sum |x|^p)^(1 / p) over axes; of p 0 the number of elements that are not 0."""
    return _p_norm(x, p, axis, keepdims)


@composite()
def clip_by_norm(x: Tensor, limit: Operand, axis: Axes = None) -> Tensor:
    """x scaled so that its norm over axes is at most a limit."""
    norm = _p_norm(x, 2.0, axis, True)
    return div(mul(x, limit), maximum(norm, limit))


@composite()
def clip_by_norm_no_div_sum(x: Tensor, least: Operand, one: Operand, floor: Operand) -> Tensor:
    """A norm from its square x: the root where x > least, else x itself; not below the floor."""
    positive = greater(x, least)
    return maximum(where(positive, sqrt(where(positive, x, one)), x), floor)


@composite()
def square_sum(x: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum of squares over axes."""
    return reduce.sum(square(x), axis, keepdims)


@composite(like=(0, 1))
def square_sum_all(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of all squares of two tensors."""
    return reduce.sum(square(a)), reduce.sum(square(b))


# ---------------------------------------------------------------------------- comparisons


@composite()
def equal_count(a: Tensor, b: Tensor) -> Tensor:
    """How many elements are equal, as int64[1]."""
    return reshape(reduce.sum(cast(equal(a, b), "int64")), [1])


@composite()
def argmax_with_value(x: Tensor, axis: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The index of the first maximum along an axis as int64, and the maximum."""
    return reduce.argmax(x, axis, keepdims), reduce.max(x, axis, keepdims)


@composite()
def argmin_with_value(x: Tensor, axis: int = 0, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The index of the first minimum along an axis as int64, and the minimum."""
    return reduce.argmin(x, axis, keepdims), reduce.min(x, axis, keepdims)
