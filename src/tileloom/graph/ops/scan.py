"""Running sums and products.

A scan is cut into blocks. Inside a block every element reduces those before it by itself, which
takes `_BLOCK` operations for each element but no turns; the totals of the blocks are scanned in the
same way and added. So a long scan takes few steps, each of which runs in parallel and in vectors,
and rounding errors grow with the number of steps, not with the length. (Blelloch 1990, "Prefix sums
and their applications", with reductions for trees.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..nodes import Tensor
from ..op import Array
from ..symbols import bounds_of
from . import reduce
from .binary import add, less, less_equal, mul
from .choose import where
from .common import Scalar, check_dtype, product
from .composite import composite
from .constants import iota
from .pad import pad
from .rearrange import flip
from .shape import reshape, strided_slice

_BLOCK = 16
_WHOLE = 32  # scans up to this length are one block

Combine = Callable[[Tensor, Tensor], Tensor]
Reduce = Callable[..., Tensor]


def _rows(x: Tensor, fold: Reduce, neutral: Scalar, exclusive: bool) -> Tensor:
    """The scan over axis 1 of x[outer, extent, inner], each element by itself."""
    outer, extent, inner = x.shape
    before = less if exclusive else less_equal
    seen = before(iota((1, 1, extent, 1), 2, "int32"), iota((1, extent, 1, 1), 1, "int32"))
    return fold(where(seen, reshape(x, [outer, 1, extent, inner]), neutral), 2)


def _scan(x: Tensor, fold: Reduce, combine: Combine, neutral: Scalar, exclusive: bool) -> Tensor:
    outer, extent, inner = x.shape
    if bounds_of(extent)[1] <= _WHOLE:
        return _rows(x, fold, neutral, exclusive)
    blocks = -(-extent // _BLOCK)
    rest = blocks * _BLOCK - extent
    whole = pad(x, [(0, 0), (0, rest), (0, 0)], value=neutral) if rest else x
    parts = reshape(whole, [outer * blocks, _BLOCK, inner])
    totals = reshape(fold(parts, 1), [outer, blocks, inner])
    before = reshape(_scan(totals, fold, combine, neutral, True), [outer * blocks, 1, inner])
    result = combine(_rows(parts, fold, neutral, exclusive), before)
    joined = reshape(result, [outer, blocks * _BLOCK, inner])
    return strided_slice(joined, [0], [extent], [1]) if rest else joined


def _scan_along(
    x: Tensor, axis: int, exclusive: bool, reverse: bool, fold: Reduce, combine: Combine,
    neutral: Scalar,
) -> Tensor:  # fmt: skip
    check_dtype(x.type, "number")
    if x.type.size == 0:
        return x
    given = flip(x, axis) if reverse else x
    shape = [product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])]
    result = reshape(_scan(reshape(given, shape), fold, combine, neutral, exclusive), x.shape)
    return flip(result, axis) if reverse else result


def _reference(function: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def evaluate(x: Array, axis: int, exclusive: bool, reverse: bool) -> Any:
        if reverse:
            x = np.flip(x, axis)
        if exclusive and x.shape[axis]:
            head = np.full_like(np.take(x, [0], axis), neutral)
            x = np.concatenate([head, np.take(x, range(x.shape[axis] - 1), axis)], axis)
        x = function(x, axis=axis, dtype=x.dtype)
        return np.flip(x, axis) if reverse else x

    return evaluate


@composite(_reference(np.cumsum, 0))
def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The running sum along an axis; `exclusive` leaves out the element itself."""
    return _scan_along(x, axis, exclusive, reverse, reduce.sum, add, 0)


@composite(_reference(np.cumprod, 1))
def cumprod(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The running product along an axis; `exclusive` leaves out the element itself."""
    return _scan_along(x, axis, exclusive, reverse, reduce.prod, mul, 1)
