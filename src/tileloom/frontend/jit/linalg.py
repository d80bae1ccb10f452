"""Linear algebra on traced arrays: norms, products of vectors, diagonals of stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import ArgumentError, ShapeError, UnsupportedError
from ...graph.ops.common import normalize_axis
from . import numpy_functions
from .array import Array, ArrayLike, Axis, floats, lift
from .numpy_functions import array_of, only_numpys
from .public import PUBLIC, eager

_PRODUCTS = {name: PUBLIC[name] for name in ("matmul", "matrix_transpose", "tensordot", "vecdot")}
#: The functions of `numpy.linalg` by name, for traced arrays.
LINALG: dict[str, Callable[..., Any]] = {**_PRODUCTS}
#: The same as users call them.
FUNCTIONS: dict[str, Callable[..., Any]] = {**_PRODUCTS}


def _linear(function: Callable[..., Any]) -> Callable[..., Any]:
    LINALG[function.__name__] = function
    FUNCTIONS[function.__name__] = eager(function, module="numpy.linalg")
    return function


@_linear
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The product of vectors of three elements that is perpendicular to both."""
    return array_of(numpy_functions.cross(x1, x2, axis=axis))


@_linear
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The product of each element of a vector with each of another."""
    a, b = lift(x1), lift(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"two vectors are needed, got {a.tensor.type} and {b.tensor.type}")
    return array_of(numpy_functions.outer(a, b))


@_linear
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The elements on a diagonal of each matrix, along the last axis."""
    return array_of(numpy_functions.diagonal(x, offset, -2, -1))


@_linear
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of the elements on a diagonal of each matrix."""
    return array_of(numpy_functions.trace(x, offset, -2, -1, dtype))


# ---------------------------------------------------------------------------- norms


@_linear
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2
) -> Array:
    """The p-norm of vectors: sum(|x|^ord)^(1 / ord) over axes, all of them unless told.

    Args:
        ord: any number; infinity is the largest element, 0 how many are not zero.
    """
    array, over = lift(x), {"axis": axis, "keepdims": keepdims}
    sizes = PUBLIC["abs"](Array(floats(array)))
    if math.isinf(ord):
        return array_of(PUBLIC["max" if ord > 0 else "min"](sizes, **over))
    if ord == 0:
        return array_of(PUBLIC["astype"](PUBLIC["count_nonzero"](sizes, **over), sizes.dtype))
    if ord == 1:
        return array_of(PUBLIC["sum"](sizes, **over))
    if ord == 2:
        return array_of(PUBLIC["sqrt"](PUBLIC["sum"](PUBLIC["square"](sizes), **over)))
    total = PUBLIC["sum"](PUBLIC["pow"](sizes, float(ord)), **over)
    return array_of(PUBLIC["pow"](total, 1.0 / ord))


@_linear
def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro"
) -> Array:
    """The norm of each matrix: "fro", 1 and -1 (sums of columns), inf and -inf (sums of rows)."""
    array = lift(x)
    if array.ndim < 2:
        raise ShapeError(f"matrices are needed, got {array.tensor.type}")
    return _matrix_norm(array, ord, (array.ndim - 2, array.ndim - 1), keepdims)


def _matrix_norm(array: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Array:
    if ord in ("fro", None):
        return array_of(vector_norm(array, axis=axes, keepdims=keepdims))
    if ord in ("nuc", 2, -2):
        raise UnsupportedError(f"a matrix norm of order {ord!r} needs singular values")
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(f"matrices have no norm of order {ord!r}")
    along, across = axes if abs(ord) == 1 else axes[::-1]
    sums = vector_norm(array, axis=along, keepdims=True, ord=1)
    result = PUBLIC["max" if ord > 0 else "min"](sums, axis=across, keepdims=True)
    return array_of(result if keepdims else PUBLIC["squeeze"](result, axes))


@_linear
@only_numpys
def norm(
    x: ArrayLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """`numpy.linalg.norm`: of vectors, or of matrices where there are two axes and an order."""
    array = lift(x)
    if ord is None:
        return array_of(vector_norm(array, axis=axis, keepdims=keepdims))
    given = axis if isinstance(axis, Sequence) else range(array.ndim) if axis is None else (axis,)
    axes = tuple(normalize_axis(k, array.ndim) for k in given)
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"an axis is given twice: {axis}")
    if len(axes) == 2:
        return _matrix_norm(array, ord, axes, keepdims)
    if len(axes) != 1 or isinstance(ord, str):
        raise ArgumentError(f"{len(axes)} axes have no norm of order {ord!r}")
    return array_of(vector_norm(array, axis=axes, keepdims=keepdims, ord=ord))
