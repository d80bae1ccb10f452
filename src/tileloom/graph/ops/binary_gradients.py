"""Gradients of functions of two tensors, as compositions; operands may have been broadcast.

Each takes the gradient by the result, then both operands, and gives a gradient for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.errors import ShapeError
from ..nodes import Tensor
from . import reduce
from .binary import div, equal, greater_equal, less_equal, logical_and, mul, pow, sub
from .choose import cast, where
from .common import broadcast_shapes, normalize_axes
from .composite import build_all, composite, define_composite
from .matmul import matmul
from .rearrange import swapaxes
from .shape import broadcast_to, reshape
from .unary import log, neg

Pair = tuple[Tensor, Tensor]


def _reduce_as(x: Tensor, shape: Sequence[int]) -> Tensor:
    if broadcast_shapes(shape, x.shape) != x.shape:
        raise ShapeError(f"shape {list(shape)} does not broadcast to {x.type}")
    skip = x.ndim - len(shape)
    axes = [k for k in range(x.ndim) if k < skip or (shape[k - skip] == 1 != x.shape[k])]
    return reshape(reduce.sum(x, axes) if axes else x, shape)


def _add(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    return dy, dy


def _sub(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    return dy, neg(dy)


def _mul(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    return mul(dy, b), mul(dy, a)


def _div(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    by_a = div(dy, b)
    return by_a, neg(mul(by_a, div(a, b)))


def _pow(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    """b a^(b - 1) and a^b log a, where 0 * inf at the edges means 0."""
    zero = equal(b, 0.0)
    by_a = where(zero, 0.0, mul(mul(dy, b), pow(a, sub(b, 1.0))))
    flat = logical_and(equal(a, 0.0), greater_equal(b, 0.0))
    by_b = where(flat, 0.0, mul(mul(dy, pow(a, b)), log(a)))
    return by_a, by_b


def _choice(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Pair]:
    """The first of equal ones has all of the gradient, as in MindSpore."""

    def gradient(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
        first = where(rule(a, b), dy, 0.0)
        return first, sub(dy, first)

    return gradient


def _define(name: str, doc: str, rule: Callable[[Tensor, Tensor, Tensor], Pair]) -> Callable[
    [Tensor, Tensor, Tensor], Pair
]:  # fmt: skip
    def expansion(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
        by_a, by_b = rule(dy, a, b)
        return _reduce_as(by_a, a.shape), _reduce_as(by_b, b.shape)

    define_composite(name, expansion, like=(1, 2))

    def gradient(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
        by_a, by_b = build_all(name, dy, a, b)
        return by_a, by_b

    gradient.__name__ = gradient.__qualname__ = name
    gradient.__doc__ = doc
    return gradient


add_grad = _define("add_grad", "dy and dy, summed over what was broadcast.", _add)
sub_grad = _define("sub_grad", "dy and -dy, summed over what was broadcast.", _sub)
mul_grad = _define("mul_grad", "dy * b and dy * a, summed over what was broadcast.", _mul)
div_grad = _define("div_grad", "dy / b and -dy * a / b², summed over what was broadcast.", _div)
pow_grad = _define("pow_grad", "The gradients of `pow` by base and exponent.", _pow)
maximum_grad = _define(
    "maximum_grad", "dy for the operand that was the larger, the first of equal ones.",
    _choice(greater_equal),
)  # fmt: skip
minimum_grad = _define(
    "minimum_grad", "dy for the operand that was the smaller, the first of equal ones.",
    _choice(less_equal),
)  # fmt: skip


@composite()
def reduce_as(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` summed over the dimensions along which a tensor of this shape is broadcast to it."""
    return _reduce_as(x, shape)


# ---------------------------------------------------------------------------- products, reductions


@composite(like=(1, 2))
def matmul_grad(dy: Tensor, a: Tensor, b: Tensor) -> Pair:
    """dy b^T and a^T dy, summed over what was broadcast."""
    # Vectors as matrices, so that one rule serves all.
    left = reshape(a, [1, *a.shape]) if a.ndim == 1 else a
    right = reshape(b, [*b.shape, 1]) if b.ndim == 1 else b
    shape = broadcast_shapes(left.shape[:-2], right.shape[:-2])
    whole = reshape(dy, [*shape, left.shape[-2], right.shape[-1]])
    by_a = _reduce_as(matmul(whole, right, transpose_b=True), left.shape)
    by_b = _reduce_as(matmul(swapaxes(left, -1, -2), whole), right.shape)
    return reshape(by_a, a.shape), reshape(by_b, b.shape)


def _kept(shape: Sequence[int], axis: int | Sequence[int] | None) -> list[int]:
    axes = normalize_axes(axis, len(shape))
    return [1 if k in axes else extent for k, extent in enumerate(shape)]


@composite()
def max_grad(
    dy: Tensor, x: Tensor, y: Tensor, axis: int | Sequence[int] | None = None, share: bool = True
) -> Tensor:
    """dy where x is the maximum y (or minimum) over axes; equal ones share it, or all have it."""
    kept = _kept(x.shape, axis)
    chosen = equal(x, reshape(y, kept))
    given = reshape(dy, kept)
    if share:
        given = div(given, reduce.sum(cast(chosen, dy.dtype), axis, keepdims=True))
    return where(chosen, broadcast_to(given, x.shape), 0.0)


def reduce_sum_grad(dy: Tensor, shape: Sequence[int], axis: int | Sequence[int] | None) -> Tensor:
    """dy repeated along the axes that a sum over a tensor of this shape has removed."""
    return broadcast_to(reshape(dy, _kept(shape, axis)), shape)
