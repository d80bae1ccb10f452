"""Running sums and products; running extremes of short rows, each element computed by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....base.errors import UnsupportedError
from ....graph import ops
from ....graph.nodes import Tensor
from ....graph.ops.common import product
from ..call import Call, as_tensor
from ..registry import aten
from ..sizes import need_numbers

#: Longer rows are left to PyTorch: the work grows with the square of the length.
_LONGEST = 512


def _rows(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The rows along a dimension as [rows, 1, extent], and which elements count for which."""
    axis = dim % x.ndim
    extent = x.shape[axis]
    need_numbers([extent], "running extremes are for rows of one length")
    if extent > _LONGEST:
        raise UnsupportedError("running sums of long rows")
    last = ops.moveaxis(x, axis, x.ndim - 1)
    rows = ops.reshape(last, [product(last.shape[:-1]), 1, extent])
    shape = (1, extent, extent)
    return rows, ops.less_equal(ops.iota(shape, 2, "int32"), ops.iota(shape, 1, "int32"))


def _back(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """[rows, extent] in the shape of x."""
    axis = dim % x.ndim
    shape = [*x.shape[:axis], *x.shape[axis + 1 :], x.shape[axis]]
    return ops.moveaxis(ops.reshape(rows, shape), x.ndim - 1, axis)


def _scan(rule: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    def scan(call: Call, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        exact = call.cast(x)
        if x.ndim == 0:
            return exact
        need_numbers([x.shape[dim]], "running sums are for rows of one length")
        return rule(exact, dim)

    return scan


aten("cumsum.default")(_scan(ops.cumsum))
aten("cumprod.default")(_scan(ops.cumprod))


@aten("logcumsumexp.default")
def logcumsumexp(call: Call, x: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp(x)."""
    if x.ndim == 0 or not x.type.size:
        return x
    rows, seen = _rows(x, dim)
    return _back(ops.logsumexp(ops.where(seen, rows, -math.inf), 2), x, dim)


def _extreme(values: Callable[..., Tensor], worst: float) -> Callable[..., tuple[Tensor, Tensor]]:
    def scan(call: Call, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.ndim == 0 or not x.type.size:
            return x, ops.zeros(x.shape, "int64")
        if not x.dtype.is_float:
            raise UnsupportedError("running extremes of integers")
        rows, seen = _rows(x, dim)
        masked = ops.where(seen, rows, worst)
        # Of equal elements PyTorch takes the last; masked ones must not win among infinities.
        line = ops.iota((1, 1, rows.shape[2]), 2)
        best = values(masked, 2, True)
        tied = ops.logical_or(ops.equal(masked, best), ops.isnan(masked))
        last = ops.max(ops.where(ops.logical_and(seen, tied), line, -1), 2)
        return _back(ops.reshape(best, last.shape), x, dim), _back(last, x, dim)

    return scan


aten("cummax.default")(_extreme(ops.max, -math.inf))
aten("cummin.default")(_extreme(ops.min, math.inf))


@aten("bucketize.Tensor", "searchsorted.Tensor")
def bucketize(
    call: Call, first: Tensor, second: Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many of some sorted numbers lie before each value; few numbers."""
    values, sorted_ = (first, second) if "bucketize" in call.name else (second, first)
    if sorter is not None or sorted_.shape[-1] > _LONGEST or not values.type.size:
        raise UnsupportedError("searching long rows")
    if sorted_.ndim > 1 and sorted_.shape[:-1] != values.shape[:-1]:
        raise UnsupportedError("rows of other shapes")
    kind = call.promoted()
    shape = [*sorted_.shape[:-1], 1, sorted_.shape[-1]] if sorted_.ndim > 1 else sorted_.shape
    line = ops.reshape(as_tensor(sorted_, kind), shape)
    each = ops.expand_dims(as_tensor(values, kind), values.ndim)
    rule = ops.less_equal if right or side == "right" else ops.less
    before = rule(line, each)
    if kind.is_float:  # numbers that are not sort last
        before = ops.logical_or(before, ops.isnan(each))
    return ops.sum(as_tensor(before, call.dtype), -1)
