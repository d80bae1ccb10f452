"""Sums, differences and products of sparse matrices, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ArgumentError, ShapeError, UnsupportedError
from ...runtime import get_num_threads
from ...sparse.arrays import Csr, dense, view, wrap
from ...sparse.kernels.elementwise import MergeCase, merge_count, merge_fill, scale_by_dense
from .canonical import canonical
from .compiled import compiled
from .kinds import computed_as
from .operands import refuse_gradient
from .pairs import promoted_pair, starts_of, unit_bounds
from .rows import compressed_rows
from .structure import Structure

Array = np.ndarray[Any, Any]
_Parts = tuple[Array, Array, Array]  # indptr, indices, values

_FUNCTIONS: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply}
# Elements below which threads would cost more than they save; those that a row is worth.
_SERIAL, _ROW = 20_000, 4


def add(a: Any, b: Any) -> Any:
    """The sum of two sparse matrices of one shape.

    Args:
        a, b: sparse matrices: of SciPy, PyTorch or pydata/sparse, or of `tileloom.sparse.arrays`.

    Returns:
        A matrix in compressed rows, of the library of `a`. It stores each element that `a` or `b`
        stores, even where the sum is zero, which SciPy leaves out; what one of them does not store
        counts as zero. Columns ascend, and index arrays are int32 unless they must count beyond
        that; but where the index arrays of `a` and `b` are the same ones the result has them, too.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: there is no kernel for the types.

    Elements that are stored several times count as their sum.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> b = scipy.sparse.csr_array(np.float32([[0, 3], [0, 4]]))
    >>> add(a, b).toarray().tolist()
    [[0.0, 4.0], [2.0, 4.0]]
    """
    return _merged(a, b, "+")


def subtract(a: Any, b: Any) -> Any:
    """The difference of two sparse matrices of one shape; all that `add` says holds.

    Of matrices of bools it is where they differ, as in SciPy.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> b = scipy.sparse.csr_array(np.float32([[0, 3], [0, 4]]))
    >>> subtract(a, b).toarray().tolist()
    [[0.0, -2.0], [2.0, -4.0]]
    """
    return _merged(a, b, "-")


def multiply(a: Any, b: Any) -> Any:
    """The product of a sparse matrix with a sparse or dense one, element by element.

    Args:
        a: a sparse matrix of shape (m, n), as in `add`.
        b: a sparse matrix of the same shape; or a dense array of a shape that NumPy broadcasts to
            that, such as (m, n), (n,), (m, 1) or that of a number.

    Returns:
        A matrix in compressed rows, of the library of `a`. Of two sparse matrices it stores the
        elements that both store, even where the product is zero, and also NaN where one matrix has
        NaN or infinity and the other stores nothing, as in SciPy. With a dense array it stores what
        `a` does: nothing else is multiplied.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> multiply(a, np.float32([10, 20])).toarray().tolist()
    [[0.0, 20.0], [20.0, 0.0]]
    >>> multiply(a, a).data.tolist()
    [1.0, 4.0]
    """
    if _is_sparse(b):
        return _merged(a, b, "*")
    _refuse_gradients(a, b, "multiply")
    return _scaled(a, b)


def _is_sparse(b: Any) -> bool:
    if isinstance(b, np.ndarray | np.generic | int | float):
        return False
    try:
        view(b, what="b")
    except ArgumentError:
        return False
    return True


def _refuse_gradients(a: Any, b: Any, name: str) -> None:
    for array, what in ((a, "a"), (b, "b")):
        refuse_gradient(array, what, name)


# ---------------------------------------------------------------------------- sparse with sparse


def _merged(a: Any, b: Any, operator: str) -> Any:
    _refuse_gradients(a, b, _FUNCTIONS[operator].__name__)
    left, left_values = compressed_rows(a, view(a, what="a"), "a")
    right, right_values = compressed_rows(b, view(b, what="b"), "b")
    if left.shape != right.shape:
        raise ShapeError(f"a has shape {left.shape} and b has shape {right.shape}: they differ")
    x, y, kind = promoted_pair(left_values, right_values, f"a {operator} b")
    (left, x), (right, y) = canonical(left, x), canonical(right, y)
    if _is_same(left.indptr, right.indptr) and _is_same(left.indices, right.indices):
        with np.errstate(all="ignore"):
            values = _FUNCTIONS[operator](x, y)
        parts = left.indptr, left.indices, values
    elif operator == "*" and not (_is_finite(x) and _is_finite(y)):
        parts = _product_with_nan(left, x, right, y)
    else:
        parts = _merge(left, x, right, y, operator, both=operator == "*")
    indptr, indices, values = parts
    return wrap(Csr(indptr, indices, values.astype(kind, copy=False), left.shape), a)


def _is_same(x: Array, y: Array) -> bool:
    """Whether two index arrays are one."""
    if x is y:
        return True
    return x.dtype == y.dtype and x.shape == y.shape and bool(x.ctypes.data == y.ctypes.data)


def _is_finite(values: Array) -> bool:
    if values.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _merge(
    left: Structure, x: Array, right: Structure, y: Array, operator: str, both: bool
) -> _Parts:
    m = left.shape[0]
    index = (left.indptr, left.indices, right.indptr, right.indices)
    sizes = (m, m, left.nnz, right.nnz)
    types = str(left.indices.dtype), str(right.indices.dtype)
    counts = np.empty(m, np.int64)
    rows = np.arange(1, m + 1, dtype=np.int64) * _ROW
    bounds = unit_bounds(left.indptr[1:] + rows + right.indptr[1:], _SERIAL)
    units = len(bounds) - 1
    compiled(merge_count, *types, both)(*index, counts, bounds, *sizes, units)
    indptr = starts_of(counts, left.shape[1])
    nnz = int(indptr[-1])
    indices, values = np.empty(nnz, indptr.dtype), np.empty(nnz, x.dtype)
    case = MergeCase(*types, str(indptr.dtype), str(x.dtype), operator, both)
    compiled(merge_fill, case)(*index, x, y, indptr, indices, values, bounds, *sizes, nnz, units)
    return indptr, indices, values


def _product_with_nan(left: Structure, x: Array, right: Structure, y: Array) -> _Parts:
    """The elements that both store, and those that are NaN."""
    _, _, stored = _merge(left, np.ones_like(x), right, np.ones_like(y), "*", both=False)
    indptr, indices, values = _merge(left, x, right, y, "*", both=False)
    kept = (stored != 0) | np.isnan(values)
    before = np.concatenate([[0], np.cumsum(kept)]).astype(indptr.dtype)
    return before[indptr], indices[kept], values[kept]


# ---------------------------------------------------------------------------- sparse with dense


def _scaled(a: Any, b: Any) -> Any:
    structure, values = compressed_rows(a, view(a, what="a"), "a")
    x = dense(b, what="b").array
    if not isinstance(x, np.ndarray):
        raise UnsupportedError("b is in a GPU's memory: there are kernels for CPUs only")
    extents = (1,) * (2 - x.ndim) + x.shape
    pairs = zip(extents, structure.shape, strict=False)
    if len(extents) != 2 or any(extent not in (1, wanted) for extent, wanted in pairs):
        raise ShapeError(
            f"b has shape {x.shape}, which is not broadcast to that of a, {structure.shape}"
        )
    # A plain number takes on the type of the matrix, as in NumPy.
    kind = np.result_type(values.dtype, b if type(b) in (int, float, bool) else x.dtype)
    found = computed_as(kind, "a * b")
    x = np.ascontiguousarray(x, dtype=found).reshape(extents)
    scaled = _scale(structure, np.ascontiguousarray(values, dtype=found), x)
    parts = structure.indptr, structure.indices, scaled.astype(kind, copy=False)
    return wrap(Csr(*parts, structure.shape), a)


def _scale(structure: Structure, values: Array, x: Array) -> Array:
    m, n = structure.shape
    row, column = (0 if x.shape[0] == 1 else x.shape[1]), (0 if x.shape[1] == 1 else 1)
    nnz, out = structure.nnz, np.empty_like(values)
    units = 1 if nnz < _SERIAL else 8 * get_num_threads()
    kernel = compiled(scale_by_dense, str(values.dtype), str(structure.indices.dtype))
    index = structure.indptr, structure.indices
    kernel(values, x.reshape(-1), out, *index, m, n, nnz, units, x.size, row, column)
    return out
