"""NumPy's statistics on traced arrays: those that ignore NaN, medians, weighted means."""

from __future__ import annotations

import math
from typing import Any

from ...base.errors import ArgumentError, ShapeError
from ...graph import ops
from ...graph.ops.common import normalize_axes
from .array import Array, ArrayLike, Axis, floats, lift
from .numpy_functions import array_of, only_numpys
from .public import PUBLIC, named


@only_numpys
def cumulative_sum(
    a: ArrayLike, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sums along an axis; without one, of all elements in a row."""
    return _running("cumulative_sum", a, axis, dtype, include_initial)


@only_numpys
def cumulative_prod(
    a: ArrayLike, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running products along an axis; without one, of all elements in a row."""
    return _running("cumulative_prod", a, axis, dtype, include_initial)


def _running(name: str, a: Any, axis: int | None, kind: Any, include_initial: bool) -> Array:
    array = lift(a)
    if axis is None:
        array, axis = PUBLIC["reshape"](array, (-1,)), 0
    function = PUBLIC[name]
    return array_of(function(array, axis=axis, dtype=kind, include_initial=include_initial))


# ---------------------------------------------------------------------------- without NaN


def _numbers(a: Any) -> tuple[Array, Any]:
    """An array, and which of its elements are numbers: None says all."""
    array = lift(a)
    tensor = array.tensor
    if not tensor.dtype.is_float:
        return array, None
    return array, Array(ops.logical_not(ops.isnan(tensor)))


def _sum_without_nan(name: str) -> None:
    @only_numpys
    @named(f"nan{name}", f"`{name}` of the elements that are not NaN.")
    def ignoring(
        a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False
    ) -> Array:
        array, numbers = _numbers(a)
        return array_of(
            PUBLIC[name](array, axis=axis, dtype=dtype, keepdims=keepdims, where=numbers)
        )


def _spread_without_nan(name: str) -> None:
    @only_numpys
    @named(f"nan{name}", f"`{name}` of the elements that are not NaN.")
    def ignoring(
        a: ArrayLike, axis: Axis = None, dtype: Any = None, *, correction: float = 0.0,
        keepdims: bool = False,
    ) -> Array:  # fmt: skip
        array, numbers = _numbers(a)
        options = {"correction": correction, "keepdims": keepdims, "where": numbers}
        return array_of(PUBLIC[name](array, axis=axis, dtype=dtype, **options))


for _name in ("sum", "prod", "mean"):
    _sum_without_nan(_name)
for _name in ("var", "std"):
    _spread_without_nan(_name)


def _extreme_without_nan(name: str, worst: float) -> None:
    @only_numpys
    @named(f"nan{name}", f"`{name}` of the elements that are not NaN.")
    def ignoring(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
        array, numbers = _numbers(a)
        if numbers is None:
            return array_of(PUBLIC[name](array, axis=axis, keepdims=keepdims))
        kept = Array(ops.where(numbers.tensor, array.tensor, worst))
        result = PUBLIC[name](kept, axis=axis, keepdims=keepdims).tensor
        known = PUBLIC["any"](numbers, axis=axis, keepdims=keepdims).tensor
        return Array(ops.where(known, result, math.nan))


_extreme_without_nan("max", -math.inf)
_extreme_without_nan("min", math.inf)


# ---------------------------------------------------------------------------- middle


@only_numpys
def median(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """The middle of the elements in order, or the mean of the two in the middle; NaN if any is."""
    array = lift(a)
    tensor = floats(array)
    axes = normalize_axes(axis, array.ndim)
    others = [k for k in range(array.ndim) if k not in axes]
    kept = [tensor.shape[k] for k in others]
    rows = ops.reshape(ops.transpose(tensor, (*others, *axes)), (*kept, -1))
    size = rows.shape[-1]
    if size == 0:
        raise ShapeError(f"the median of no elements: {array.tensor.type}")
    ordered = ops.sort(rows, -1)
    middle = ops.strided_slice(ordered, ((size - 1) // 2,), (size // 2 + 1,), (len(kept),))
    result = ops.mean(middle, (len(kept),), False)
    result = ops.where(ops.any(ops.isnan(rows), (len(kept),), False), math.nan, result)
    if keepdims:
        result = ops.reshape(result, [1 if k in axes else n for k, n in enumerate(array.shape)])
    return Array(result)


@only_numpys
def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """The mean with weights, for each element or along one axis."""
    array = lift(a)
    if weights is None:
        return array_of(PUBLIC["mean"](array, axis=axis, keepdims=keepdims))
    scale = lift(weights)
    if scale.shape != array.shape:
        axes = normalize_axes(axis, array.ndim)
        if axis is None or len(axes) != 1 or scale.shape != (array.shape[axes[0]],):
            raise ArgumentError(
                f"weights {scale.tensor.type} belong neither to each element of "
                f"{array.tensor.type} nor to one axis"
            )
        scale = PUBLIC["reshape"](scale, [-1 if k == axes[0] else 1 for k in range(array.ndim)])
        scale = PUBLIC["broadcast_to"](scale, array.shape)
    total = PUBLIC["sum"](PUBLIC["multiply"](array, scale), axis=axis, keepdims=keepdims)
    return array_of(PUBLIC["divide"](total, PUBLIC["sum"](scale, axis=axis, keepdims=keepdims)))
