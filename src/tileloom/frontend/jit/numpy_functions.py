"""Functions that NumPy has and the array API has not, on traced arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base import dtype
from ...base.errors import ArgumentError, ShapeError
from ...graph import ops
from ...graph.ops.common import normalize_axis
from .array import Array, ArrayLike, as_type, floats, lift, promote
from .inplace import share, write
from .public import PUBLIC, named

#: By NumPy's names, or the array API's where NumPy's function can more.
OWN: dict[str, Callable[..., Any]] = {}


def only_numpys(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function under its name."""
    OWN[function.__name__] = function
    return function


def array_of(value: Any) -> Array:
    """The value, which is an array as it is made of traced ones."""
    return value  # type: ignore[no-any-return]


def _real(x: Any) -> tuple[Array, Any]:
    """An array, and its tensor in the type of floats that NumPy computes it in."""
    array = lift(x)
    return array, floats(array)


# ---------------------------------------------------------------------------- elementwise


def _elementwise(name: str, compute: Callable[[Any], Any], what: str) -> None:
    @only_numpys
    @named(name, what)
    def function(x: ArrayLike) -> Array:
        array, tensor = _real(x)
        return Array(compute(tensor), weak=array.weak)


_elementwise("cbrt", ops.cbrt, "The number whose third power an element is.")
_elementwise("deg2rad", lambda t: ops.mul(t, math.pi / 180), "Degrees as radians.")
_elementwise("rad2deg", lambda t: ops.mul(t, 180 / math.pi), "Radians as degrees.")
OWN["radians"], OWN["degrees"] = OWN["deg2rad"], OWN["rad2deg"]


@only_numpys
def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), 1 at 0."""
    array, tensor = _real(x)
    angle = ops.mul(ops.where(ops.equal(tensor, 0.0), 1e-20, tensor), math.pi)
    return Array(ops.div(ops.sin(angle), angle), weak=array.weak)


@only_numpys
def fix(x: ArrayLike) -> Array:
    """The next integer toward zero."""
    return array_of(PUBLIC["trunc"](lift(x)))


@only_numpys
def heaviside(x1: ArrayLike, x2: ArrayLike) -> Array:
    """0 below zero, 1 above, the other operand at zero."""
    a, b = lift(x1), lift(x2)
    kind = promote(a, b)
    kind = kind if kind.is_float else dtype("float64")
    x, y = ops.broadcast_arrays(as_type(a, kind), as_type(b, kind))
    return Array(ops.heaviside(x, y), weak=a.weak and b.weak)


def _extreme_number(name: str, best: str, what: str) -> None:
    @only_numpys
    @named(name, f"The {what} of two elements; a number where one of them is NaN.")
    def function(x1: ArrayLike, x2: ArrayLike) -> Array:
        a, b = lift(x1), lift(x2)
        found = array_of(PUBLIC[best](a, b))
        if not found.tensor.dtype.is_float:
            return found
        x, y = (as_type(side, found.tensor.dtype) for side in (a, b))
        return Array(ops.where(ops.isnan(x), y, ops.where(ops.isnan(y), x, found.tensor)))


_extreme_number("fmax", "maximum", "larger")
_extreme_number("fmin", "minimum", "smaller")


@only_numpys
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol |b|, or both are the same infinity."""
    x, y = lift(a), lift(b)
    kind = promote(x, y)
    kind = kind if kind.is_float else dtype("float64")
    p, q = as_type(x, kind), as_type(y, kind)
    bound = ops.add(ops.mul(ops.abs(q), rtol), atol)
    near = ops.less_equal(ops.abs(ops.sub(p, q)), bound)
    close = ops.logical_or(ops.logical_and(near, ops.isfinite(q)), ops.equal(p, q))
    if equal_nan:
        close = ops.logical_or(close, ops.logical_and(ops.isnan(p), ops.isnan(q)))
    return Array(close)


@only_numpys
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close."""
    return array_of(PUBLIC["all"](isclose(a, b, rtol, atol, equal_nan)))


@only_numpys
def array_equal(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether shapes and all elements are the same."""
    x, y = lift(a1), lift(a2)
    if x.shape != y.shape:
        return Array(ops.constant(np.False_))
    return array_of(PUBLIC["all"](PUBLIC["equal"](x, y)))


@only_numpys
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """NaN and infinities replaced by numbers, the largest unless told; `copy=False` in place."""
    array = lift(x)
    tensor = array.tensor
    if not tensor.dtype.is_float:
        return Array(tensor) if copy else array
    largest = float(np.finfo(tensor.dtype.numpy).max)
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    result = ops.where(ops.isnan(tensor), nan, tensor)
    result = ops.where(ops.equal(tensor, math.inf), high, result)
    made = Array(ops.where(ops.equal(tensor, -math.inf), low, result))
    return made if copy else write(array, made, "nan_to_num(copy=False)")


@only_numpys
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """For each element the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError("numpy.select needs as many choices as conditions, and one at least")
    result = lift(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = array_of(PUBLIC["where"](condition, choice, result))
    return result


@only_numpys
def real(val: ArrayLike) -> Array:
    """The array itself: there are no complex numbers."""
    return lift(val)


@only_numpys
def imag(val: ArrayLike) -> Array:
    """Zeros: there are no complex numbers."""
    return array_of(PUBLIC["zeros_like"](lift(val)))


@only_numpys
def conj(x: ArrayLike) -> Array:
    """The array itself: there are no complex numbers."""
    return array_of(PUBLIC["positive"](lift(x)))


OWN["conjugate"] = conj


# ---------------------------------------------------------------------------- products


@only_numpys
def dot(a: ArrayLike, b: ArrayLike) -> Array:
    """A product of numbers, rows or matrices."""
    x, y = lift(a), lift(b)
    if x.ndim == 0 or y.ndim == 0:
        return array_of(PUBLIC["multiply"](x, y))
    if y.ndim <= 2:
        return array_of(PUBLIC["matmul"](x, y))
    return array_of(PUBLIC["tensordot"](x, y, axes=([x.ndim - 1], [y.ndim - 2])))


@only_numpys
def divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    """The quotients rounded down, and the remainders."""
    return PUBLIC["floor_divide"](x1, x2), PUBLIC["remainder"](x1, x2)


@only_numpys
def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """The product of each element with each."""
    column = PUBLIC["reshape"](lift(a), (-1, 1))
    return array_of(PUBLIC["multiply"](column, PUBLIC["reshape"](lift(b), (1, -1))))


@only_numpys
def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """The sum of products along the last axes."""
    x, y = lift(a), lift(b)
    if x.ndim == 0 or y.ndim == 0:
        return array_of(PUBLIC["multiply"](x, y))
    return array_of(PUBLIC["tensordot"](x, y, axes=([x.ndim - 1], [y.ndim - 1])))


@only_numpys
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """The sum of products of all elements."""
    x, y = (PUBLIC["reshape"](lift(side), (-1,)) for side in (a, b))
    return array_of(PUBLIC["matmul"](x, y))


@only_numpys
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: each element of one times the whole other."""
    x, y = lift(a), lift(b)
    rank = max(x.ndim, y.ndim)
    rows, columns = ((1,) * (rank - side.ndim) + side.shape for side in (x, y))
    left = PUBLIC["reshape"](x, tuple(n for extent in rows for n in (extent, 1)))
    right = PUBLIC["reshape"](y, tuple(n for extent in columns for n in (1, extent)))
    shape = tuple(m * n for m, n in zip(rows, columns, strict=True))
    return array_of(PUBLIC["reshape"](PUBLIC["multiply"](left, right), shape))


@only_numpys
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """The product of vectors of three elements that is perpendicular to both."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = (PUBLIC["moveaxis"](lift(v), n, -1) for v, n in ((a, axisa), (b, axisb)))
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(f"cross needs vectors of 3 elements, got {x.shape[-1]}, {y.shape[-1]}")
    parts = [
        x[..., (k + 1) % 3] * y[..., (k + 2) % 3] - x[..., (k + 2) % 3] * y[..., (k + 1) % 3]
        for k in range(3)
    ]
    return array_of(PUBLIC["moveaxis"](PUBLIC["stack"](parts, axis=-1), -1, axisc))


# ---------------------------------------------------------------------------- moving


@only_numpys
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements on a diagonal of two axes, along a new last axis."""
    array = lift(a)
    if array.ndim < 2:
        raise ShapeError(f"a diagonal needs two dimensions, got {array.tensor.type}")
    pair = [normalize_axis(axis, array.ndim) for axis in (axis1, axis2)]
    if pair[0] == pair[1]:
        raise ShapeError("a diagonal needs two axes, got one twice")
    others = [k for k in range(array.ndim) if k not in pair]
    tensor = ops.transpose(array.tensor, (*others, *pair))
    rows, columns = tensor.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    places = np.arange(length) * (columns + 1) + max(offset, 0) - min(offset, 0) * columns
    flat = ops.reshape(tensor, (*tensor.shape[:-2], rows * columns))
    result = Array(ops.gather(flat, ops.constant(places), len(others)))
    share(result, array)
    return result


@only_numpys
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None
) -> Array:
    """The sum of the elements on a diagonal."""
    return array_of(PUBLIC["sum"](diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype))


@only_numpys
def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with these elements on a diagonal, or the diagonal of a matrix."""
    array = lift(v)
    if array.ndim != 1:
        return array_of(diagonal(array, k))
    size = array.shape[0] + abs(k)
    row = ops.pad(array.tensor, [(max(k, 0), max(-k, 0))])
    on = ops.eye(size, size, k, "bool")
    return Array(ops.where(on, ops.reshape(row, (1, size)), 0))


@only_numpys
def copy(a: ArrayLike, order: str = "K") -> Array:
    """Another array with these elements; how they lie in memory is ours to choose."""
    return Array(lift(a).tensor)


@only_numpys
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """The values after the elements; without an axis all in a row."""
    return array_of(PUBLIC["concat"]([lift(arr), lift(values)], axis=axis))


@only_numpys
def empty_like(prototype: ArrayLike, dtype: Any = None) -> Array:
    """An array of this shape, to be written to: its elements are zeros."""
    return array_of(PUBLIC["zeros_like"](lift(prototype), dtype=dtype))


@only_numpys
def vstack(tup: Sequence[ArrayLike]) -> Array:
    """Rows one below the other."""
    rows = [PUBLIC["reshape"](a, (1, -1)) if a.ndim < 2 else a for a in map(lift, tup)]
    return array_of(PUBLIC["concat"](rows, axis=0))


@only_numpys
def hstack(tup: Sequence[ArrayLike]) -> Array:
    """Arrays side by side."""
    parts = [PUBLIC["reshape"](a, (1,)) if a.ndim == 0 else a for a in map(lift, tup)]
    return array_of(PUBLIC["concat"](parts, axis=0 if parts[0].ndim == 1 else 1))


@only_numpys
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements in a row."""
    return array_of(PUBLIC["reshape"](lift(a), (-1,), order=order))


@only_numpys
def shape(a: ArrayLike) -> tuple[int, ...]:
    """The extents."""
    return lift(a).shape


@only_numpys
def ndim(a: ArrayLike) -> int:
    """The number of dimensions."""
    return lift(a).ndim


@only_numpys
def size(a: ArrayLike) -> int:
    """The number of elements."""
    return lift(a).size


@only_numpys
def ptp(a: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest element less the smallest."""
    ends = [PUBLIC[name](a, axis=axis, keepdims=keepdims) for name in ("max", "min")]
    return array_of(PUBLIC["subtract"](*ends))
