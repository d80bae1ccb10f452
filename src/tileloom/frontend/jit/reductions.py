"""Array-API reductions over axes, and running sums, with NumPy's `initial` and `where`."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

from ...base import DType, dtype
from ...base.errors import ArgumentError, DTypeError, ShapeError
from ...graph import ops
from ...graph.nodes import Tensor
from .array import Array, ArrayLike, Axis, as_type, element_type, floats, lift
from .public import named, public


def _axes(axis: Axis) -> tuple[int, ...] | None:
    if axis is None:
        return None
    return (index(axis),) if hasattr(axis, "__index__") else tuple(map(index, axis))


def _sum_type(array: Array, wanted: Any) -> DType:
    if wanted is not None:
        return element_type(wanted)
    kind = array.tensor.dtype
    if kind.is_float:
        return kind
    return dtype("uint64" if kind.is_unsigned else "int64")


def _mean_type(array: Array, wanted: Any) -> DType:
    if wanted is not None:
        return element_type(wanted)
    return array.tensor.dtype if array.tensor.dtype.is_float else dtype("float64")


# ---------------------------------------------------------------------------- initial, where


def _mask(where: Any, shape: tuple[int, ...]) -> Tensor | None:
    """Which elements take part, or None for all of them."""
    if where is None or where is True:
        return None
    return ops.broadcast_to(as_type(lift(where), dtype("bool")), shape)


def _start(initial: Any, kind: DType) -> Tensor:
    """What a reduction begins with, which must be of its type."""
    array = lift(initial)
    if array.tensor.dtype.is_float and not kind.is_float:
        raise DTypeError(f"initial={initial!r} is no value of {kind}", hint="give a dtype as well")
    if array.ndim:
        raise ShapeError(f"initial is one number, got {array.tensor.type}")
    return as_type(array, kind)


def _fold(
    tensor: Tensor,
    build: Callable[..., Tensor],
    combine: Callable[[Tensor, Tensor], Tensor],
    neutral: float | bool | None,
    options: tuple[Axis, bool, Any, Any],
) -> Array:
    """A reduction of the elements that take part, and of what it begins with."""
    axis, keepdims, initial, where = options
    mask = _mask(where, tensor.shape)
    start = None if initial is None else _start(initial, tensor.dtype)
    if mask is not None:
        if neutral is None and start is None:
            raise ArgumentError("the extreme of chosen elements needs a value to begin with",
                                hint="give initial=")  # fmt: skip
        tensor = ops.where(mask, tensor, start if neutral is None else neutral)  # type: ignore[arg-type]
    result = build(tensor, _axes(axis), keepdims)
    return Array(result if start is None else combine(result, start))


# ---------------------------------------------------------------------------- reductions


@public
def sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The sum over axes of the elements chosen, and `initial`; integers are summed in 64 bits."""
    array = lift(x)
    tensor = as_type(array, _sum_type(array, dtype))
    return _fold(tensor, ops.sum, ops.add, 0, (axis, keepdims, initial, where))


@public
def prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The product over axes, as `sum`; integers are multiplied in 64 bits."""
    array = lift(x)
    tensor = as_type(array, _sum_type(array, dtype))
    return _fold(tensor, ops.prod, ops.mul, 1, (axis, keepdims, initial, where))


def _extreme(name: str, combine: Callable[[Tensor, Tensor], Tensor], what: str) -> None:
    reduce = getattr(ops, name)

    @public
    @named(name, f"The {what} element over axes, and `initial`; NaN if there is one.")
    def function(
        x: ArrayLike,
        /,
        *,
        axis: Axis = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        def build(tensor: Tensor, axes: Any, keep: bool) -> Tensor:
            found: Tensor = reduce(tensor, axes, keep, empty_ok=initial is not None)
            return found

        return _fold(lift(x).tensor, build, combine, None, (axis, keepdims, initial, where))


_extreme("max", ops.maximum, "largest")
_extreme("min", ops.minimum, "smallest")


@public
def mean(
    x: ArrayLike,
    /,
    *,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The arithmetic mean over axes of the elements chosen."""
    array = lift(x)
    tensor = as_type(array, _mean_type(array, dtype))
    mask = _mask(where, tensor.shape)
    if mask is None:
        return Array(ops.mean(tensor, _axes(axis), keepdims))
    return Array(_mean_where(tensor, mask, _axes(axis), keepdims, 0.0))


def _mean_where(tensor: Tensor, mask: Tensor, axes: Any, keepdims: bool, less: float) -> Tensor:
    """The sum of the elements chosen, divided by their number less something."""
    kind = tensor.dtype
    wide = ops.cast(tensor, "float32") if kind.bits < 32 else tensor
    total = ops.sum(ops.where(mask, wide, 0.0), axes, keepdims)
    count = ops.cast(ops.sum(ops.cast(mask, "int64"), axes, keepdims), wide.dtype)
    return ops.cast(ops.div(total, ops.maximum(ops.sub(count, less), 0.0)), kind)


def _variance(tensor: Tensor, axis: Axis, correction: float, keepdims: bool, where: Any) -> Tensor:
    mask = _mask(where, tensor.shape)
    if mask is None:
        return ops.var(tensor, _axes(axis), keepdims, correction)
    wide = ops.cast(tensor, "float32") if tensor.dtype.bits < 32 else tensor
    middle = _mean_where(wide, mask, _axes(axis), True, 0.0)
    distance = ops.square(ops.sub(wide, middle))
    return _mean_where(distance, mask, _axes(axis), keepdims, correction)


@public
def var(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False,
    dtype: Any = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The variance over axes of the elements chosen."""
    array = lift(x)
    kind = _mean_type(array, dtype)
    result = _variance(as_type(array, kind), axis, correction, keepdims, where)
    return Array(ops.cast(result, kind))


@public
def std(
    x: ArrayLike, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False,
    dtype: Any = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The standard deviation over axes of the elements chosen."""
    array = lift(x)
    kind = _mean_type(array, dtype)
    tensor = as_type(array, kind)
    if where is None or where is True:
        return Array(ops.std(tensor, _axes(axis), keepdims, correction))
    root = ops.sqrt(_variance(tensor, axis, correction, keepdims, where))
    return Array(ops.cast(root, kind))


@public
def all(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, where: ArrayLike | None = None
) -> Array:
    """Whether all elements chosen are true."""
    truth = as_type(lift(x), dtype("bool"))
    return _fold(truth, ops.all, ops.logical_and, True, (axis, keepdims, None, where))


def any_(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, where: ArrayLike | None = None
) -> Array:
    """Whether any element chosen is true."""
    truth = as_type(lift(x), dtype("bool"))
    return _fold(truth, ops.any, ops.logical_or, False, (axis, keepdims, None, where))


any_.__name__ = "any"  # the builtin is used above
public(any_)


@public
def count_nonzero(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements are not zero."""
    true = as_type(lift(x), dtype("bool"))
    return Array(ops.sum(ops.cast(true, "int64"), _axes(axis), keepdims))


def _arg(name: str) -> None:
    build = getattr(ops, name)

    @public
    @named(name, f"The index of the first `{name[3:]}` along an axis (of all elements: None).")
    def function(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
        tensor = lift(x).tensor
        if axis is None:
            flat = build(ops.reshape(tensor, (tensor.type.size,)), axis=0)
            return Array(ops.reshape(flat, (1,) * tensor.ndim if keepdims else ()))
        return Array(build(tensor, axis=axis, keepdims=keepdims))


_arg("argmax")
_arg("argmin")


# ---------------------------------------------------------------------------- running


def _running(name: str, build: Callable[..., Tensor], neutral: int, what: str) -> None:
    @public
    @named(name, f"Running {what} along an axis; `include_initial` puts {neutral} first.")
    def function(
        x: ArrayLike,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        include_initial: bool = False,
    ) -> Array:
        array = lift(x)
        tensor = as_type(array, _sum_type(array, dtype))
        if axis is None and tensor.ndim != 1:
            raise ShapeError(f"{name} of several dimensions needs an axis")
        result = build(tensor, axis or 0)
        if include_initial:
            shape = list(result.shape)
            shape[axis or 0] = 1
            first = ops.full(shape, neutral, result.dtype)
            result = ops.concat([first, result], axis or 0)
        return Array(result)


_running("cumulative_sum", ops.cumsum, 0, "sums")
_running("cumulative_prod", ops.cumprod, 1, "products")


# ---------------------------------------------------------------------------- softmax


@public
def softmax(x: ArrayLike, /, *, axis: int = -1) -> Array:
    """exp(x) / sum(exp(x)) along an axis, without overflow."""
    return Array(ops.softmax(floats(x), axis))


@public
def log_softmax(x: ArrayLike, /, *, axis: int = -1) -> Array:
    """The logarithm of the softmax."""
    return Array(ops.log_softmax(floats(x), axis))
