"""Linear algebra, for type checkers and editors.

Written by `tools/array_stubs.py` from the functions themselves; do not edit.
"""

import builtins

from numpy.typing import DTypeLike

from . import _Array, _ArrayLike, _Axis
from . import matmul as matmul
from . import matrix_transpose as matrix_transpose
from . import tensordot as tensordot
from . import vecdot as vecdot

def cross(x1: _ArrayLike, x2: _ArrayLike, /, *, axis: int = -1) -> _Array:
    """The product of vectors of three elements that is perpendicular to both."""

def diagonal(x: _ArrayLike, /, *, offset: int = 0) -> _Array:
    """The elements on a diagonal of each matrix, along the last axis."""

def matrix_norm(
    x: _ArrayLike, /, *, keepdims: builtins.bool = False, ord: float | str | None = "fro"
) -> _Array:
    """The norm of each matrix: "fro", 1 and -1 (sums of columns), inf and -inf (sums of rows)."""

def norm(
    x: _ArrayLike,
    ord: float | str | None = None,
    axis: _Axis = None,
    keepdims: builtins.bool = False,
) -> _Array:
    """`numpy.linalg.norm`: of vectors, or of matrices where there are two axes and an order."""

def outer(x1: _ArrayLike, x2: _ArrayLike, /) -> _Array:
    """The product of each element of a vector with each of another."""

def trace(x: _ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> _Array:
    """The sum of the elements on a diagonal of each matrix."""

def vector_norm(
    x: _ArrayLike, /, *, axis: _Axis = None, keepdims: builtins.bool = False, ord: float = 2
) -> _Array:
    """The p-norm of vectors: sum(|x|^ord)^(1 / ord) over axes, all of them unless told."""
