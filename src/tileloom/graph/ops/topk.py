"""The largest or smallest elements of rows.

Few of them are found one after another, each as the first in order of those that come after the one
before: two reductions each. Short rows are ordered whole, by counting for each element those before
it. Everything else is sorted on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base import dtype
from ...base.errors import ShapeError
from ..nodes import Tensor, TensorType
from ..op import Array, Attrs, apply
from . import reduce
from .binary import equal, greater, less, logical_and, logical_or
from .choose import cast, where
from .common import Scalar, Types, builder, define, normalize_axis, product
from .constants import iota
from .host import order
from .shape import concat, reshape
from .unary import isnan, logical_not

_FEW = 8  # elements that are found one after another
_SHORT = 64  # the longest row that is ordered by counting


def _infer(types: Types, attrs: Attrs) -> list[TensorType]:
    shape, k, axis = list(types[0].shape), attrs["k"], attrs["axis"]
    shape[axis] = k
    return [TensorType(tuple(shape), types[0].dtype), TensorType(tuple(shape), dtype("int64"))]


def _reference(arrays: Sequence[Array], attrs: Attrs, types: Types) -> list[Array]:
    axis = attrs["axis"]
    picks = np.take(order(arrays[0], axis, attrs["largest"]), range(attrs["k"]), axis)
    return [np.take_along_axis(arrays[0], picks, axis), picks]


# ---------------------------------------------------------------------------- order


def _before(a: Tensor, b: Tensor, largest: bool) -> Tensor:
    """Whether a comes before b; NaN counts as the greatest value."""
    result = greater(a, b) if largest else less(a, b)
    if not a.dtype.is_float:
        return result
    first, second = (isnan(a), isnan(b)) if largest else (isnan(b), isnan(a))
    return logical_or(result, logical_and(first, logical_not(second)))


def _same(a: Tensor, b: Tensor) -> Tensor:
    result = equal(a, b)
    return logical_or(result, logical_and(isnan(a), isnan(b))) if a.dtype.is_float else result


def _counting(x: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first k of the rows along axis 1 of x[outer, extent, inner] and their places."""
    outer, extent, inner = x.shape
    each, others = reshape(x, [outer, extent, 1, inner]), reshape(x, [outer, 1, extent, inner])
    own = iota((1, extent, 1, 1), 1, "int32")
    place = iota((1, 1, extent, 1), 2, "int32")
    tie = logical_and(_same(others, each), less(place, own))
    ahead = logical_or(_before(others, each, largest), tie)
    rank = reshape(reduce.sum(cast(ahead, "int32"), 2), [outer, 1, extent, inner])
    chosen = equal(rank, iota((1, k, 1, 1), 1, "int32"))
    return reduce.sum(where(chosen, others, 0), 2), reduce.sum(where(chosen, place, 0), 2)


def _worst(x: Tensor, largest: bool) -> Scalar:
    if x.dtype.is_float:
        return -np.inf if largest else np.inf
    limits = np.iinfo(x.dtype.numpy)
    return int(limits.min if largest else limits.max)


def _first(x: Tensor, allowed: Tensor | None, largest: bool) -> Tensor:
    """The value that comes first among those allowed, along axis 1."""
    worst = _worst(x, largest)
    if largest:
        return reduce.max(x if allowed is None else where(allowed, x, worst), 1, keepdims=True)
    if not x.dtype.is_float:
        return reduce.min(x if allowed is None else where(allowed, x, worst), 1, keepdims=True)
    number = logical_not(isnan(x))
    numbers = number if allowed is None else logical_and(allowed, number)
    least = reduce.min(where(numbers, x, worst), 1, keepdims=True)
    return where(reduce.any(numbers, 1, keepdims=True), least, np.nan)


def _passes(x: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The same one by one."""
    extent = x.shape[1]
    line = iota((1, extent, 1), 1, "int32")
    found: list[tuple[Tensor, Tensor]] = []
    allowed: Tensor | None = None
    for _ in range(k):
        best = _first(x, allowed, largest)
        hit = _same(x, best)
        hit = hit if allowed is None else logical_and(allowed, hit)
        at = reduce.min(where(hit, line, extent), 1, keepdims=True)
        found.append((best, at))
        later = logical_and(_same(x, best), greater(line, at))
        allowed = logical_or(_before(best, x, largest), later)
    values, places = zip(*found, strict=True)
    return concat(values, 1), concat(places, 1)


def _expand(tensors: Sequence[Tensor], attrs: Attrs) -> list[Tensor]:
    (x,), k, axis = tensors, attrs["k"], attrs["axis"]
    kind = x.dtype
    narrow = kind.is_float and kind.bits < 32
    shape = [product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])]
    rows = reshape(cast(x, "float32") if narrow else x, shape)
    rule = _counting if x.shape[axis] <= _SHORT else _passes
    values, places = rule(rows, k, attrs["largest"])
    result = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    return [reshape(cast(values, kind), result), cast(reshape(places, result), "int64")]


define("topk", "opaque", _infer, _reference)
define("topk_few", "opaque", _infer, _reference, expand=_expand)


@builder
def topk(x: Tensor, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis in order, and their indices.

    Equal elements keep their order, and NaN counts as the greatest value.
    """
    place = normalize_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[place]:
        raise ShapeError(f"cannot take {k} elements along axis {place} of {x.type}")
    simple = not x.dtype.is_bool and k > 0 and x.type.size > 0
    few = simple and (k <= _FEW or x.shape[place] <= _SHORT)
    name = "topk_few" if few else "topk"
    values, indices = apply(name, (x,), k=int(k), axis=place, largest=bool(largest))
    return values, indices
