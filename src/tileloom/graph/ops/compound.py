"""Small compositions of arithmetic and reductions: what fused ops of other systems compute.

Sources: MindSpore's graph-kernel expanders; Cody 1969, "Rational Chebyshev approximations for the
error function" (erfc).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce as fold_left

from ...base.errors import ArgumentError
from ..nodes import Tensor
from . import reduce
from .binary import add, div, equal, greater, less, maximum, minimum, mul, not_equal, pow, sub
from .choose import cast, where
from .common import Operand, builder, normalize_axes, normalize_axis
from .composite import build, build_all, composite
from .matmul import matmul
from .shape import reshape
from .unary import abs as absolute
from .unary import exp, isfinite, logical_not, neg, reciprocal, sqrt, square, trunc

Axes = int | Sequence[int] | None

# ---------------------------------------------------------------------------- arithmetic


def _lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """From the nearer end, so that both ends are met exactly."""
    way = sub(y, x)
    near = less(absolute(weight), 0.5)
    return where(near, add(x, mul(weight, way)), sub(y, mul(way, sub(1.0, weight))))


composite("squared_difference", lambda a, b: square(sub(a, b)), levels={"": 0})
composite("add_n", lambda *xs: fold_left(add, xs), levels={"": 0})
composite("fused_mul_add", lambda a, b, c: add(mul(a, b), c), levels={"": 0})
composite("lerp", _lerp, levels={"": 0})
composite("addmm", lambda x, a, b, alpha, beta: (
    add(scaled(x, beta), scaled(matmul(a, b), alpha))), levels={"": 2})  # fmt: skip
composite("float_status", lambda x: cast(
    reduce.any(logical_not(isfinite(x))), "float32"))  # fmt: skip


def scaled(x: Tensor, factor: float) -> Tensor:
    """A tensor times a number, itself for 1."""
    return x if factor == 1 else mul(x, factor)


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


# ---------------------------------------------------------------------------- erfc

_NEAR = (
    (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02,
     3.20937758913846947e03, 1.85777706184603153e-1),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03,
     2.84423683343917062e03),
)  # fmt: skip
_MIDDLE = (
    (5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e01,
     2.98635138197400131e02, 8.81952221241769090e02, 1.71204761263407058e03,
     2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8),
    (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02,
     1.62138957456669019e03, 3.29079923573345963e03, 4.36261909014324716e03,
     3.43936767414372164e03, 1.23033935480374942e03),
)  # fmt: skip
_FAR = (
    (3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4, 1.63153871373020978e-2),
    (2.56852019228982242e00, 1.87295284992346725e00, 5.27905102951428412e-1,
     6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip


def _rational(x: Tensor, pair: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    """Cody's form: the last coefficient above belongs to the highest power."""
    over, under = pair
    p, q = mul(x, over[-1]), x
    for a, b in zip(over[:-2], under[:-1], strict=True):
        p, q = mul(add(p, a), x), mul(add(q, b), x)
    return div(add(p, over[-2]), add(q, under[-1]))


def _erfc(x: Tensor) -> Tensor:
    y = absolute(x)
    near = sub(1.0, mul(x, _rational(square(minimum(y, 0.5)), _NEAR)))
    # Beyond 27 the result is 0 in any type, and 1 / y² of the other form stays finite.
    far = minimum(maximum(y, 0.46875), 27.0)
    inverse = reciprocal(square(far))
    series = mul(inverse, _rational(inverse, _FAR))
    tail = where(
        less(far, 4.0),
        _rational(far, _MIDDLE),
        div(sub(1 / math.sqrt(math.pi), series), far),
    )
    # exp(-y²) in two factors, the first of which has an exact argument.
    coarse = div(trunc(mul(far, 16.0)), 16.0)
    rest = mul(sub(far, coarse), add(far, coarse))
    tail = mul(mul(exp(neg(square(coarse))), exp(neg(rest))), tail)
    tail = where(greater(y, 26.9), 0.0, tail)
    tail = where(less(x, 0.0), sub(2.0, tail), tail)
    result = where(greater(y, 0.46875), tail, near)
    return where(not_equal(x, x), x, result)


composite("erfc", _erfc, levels={"": 0})


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), with all digits where that is tiny."""
    return build("erfc", x)


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
    reduce.argmax(x, axis, keepdims), reduce.max(x, axis, keepdims)), levels={"": 2})  # fmt: skip
composite("argmin_with_value", lambda x, axis, keepdims: (
    reduce.argmin(x, axis, keepdims), reduce.min(x, axis, keepdims)), levels={"": 2})  # fmt: skip


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
