"""Products of two sparse matrices, of arrays that people have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Csr, view, wrap
from ...sparse.kernels.bitmap import WIDE
from ...sparse.kernels.spgemm import SpgemmCase, spgemm_count, spgemm_fill, spgemm_work
from .compiled import compiled
from .operands import refuse_gradient
from .pairs import promoted_pair, starts_of, unit_bounds
from .rows import compressed_rows
from .structure import Structure

Array = np.ndarray[Any, Any]

# Multiplications below which threads would cost more than they save; those that a row is worth.
_SERIAL, _ROW = 20_000, 8
# Multiplications for each column that a unit makes ready at least.
_FOR_COLUMN = 2
# Columns for each stored element from which on those without any are left out.
_SPARSE = 4


def spgemm(a: Any, b: Any) -> Any:
    """The product `a @ b` of two sparse matrices, which is sparse.

    Args:
        a: a sparse matrix of shape (m, k): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`.
        b: a sparse matrix of shape (k, n), of any of these.

    Returns:
        A matrix of shape (m, n) in compressed rows, of the library of `a`. The columns of each row
        ascend. Its index arrays are int32, unless they must count beyond that.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.

    An element is stored wherever an element of `a` meets one of `b`, even where the sum is zero,
    which SciPy leaves out: the structure follows from that of `a` and `b`. What is not stored is
    multiplied with nothing, as in SciPy, infinity and NaN included. Elements that are stored
    several times add up. The algorithm is Gustavson's (ACM TOMS 4(3), 1978), row by row in two
    phases, over bitmaps of columns.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> product = spgemm(a, a)
    >>> product.indices.tolist(), product.data.tolist()
    ([0, 1], [2.0, 2.0])
    """
    left_parts, right_parts = view(a, what="a"), view(b, what="b")
    for array, what in ((a, "a"), (b, "b")):
        refuse_gradient(array, what, "spgemm")
    left, left_values = compressed_rows(a, left_parts, "a")
    right, right_values = compressed_rows(b, right_parts, "b")
    if left.shape[1] != right.shape[0]:
        raise ShapeError(
            f"a has shape {left.shape} and b has shape {right.shape}: "
            f"b must have {left.shape[1]} rows"
        )
    x, y, kind = promoted_pair(left_values, right_values, "a @ b")
    indptr, indices, values = _product(left, x, right, y)
    shape = (left.shape[0], right.shape[1])
    return wrap(Csr(indptr, indices, values.astype(kind, copy=False), shape), a)


class _Columns(Record):
    """The second matrix with columns that are all in use.

    Attributes:
        indices: the columns by their numbers among those in use.
        used: those in use, ascending; None where these are all.
        count: how many there are.
    """

    indices: Array
    used: Array | None
    count: int


def _columns(structure: Structure) -> _Columns:
    n = structure.shape[1]
    if n <= max(1024, _SPARSE * structure.nnz):
        return _Columns(structure.indices, None, n)
    found: _Columns | None = structure.plans.get("columns")
    if found is None:
        used, numbers = np.unique(structure.indices, return_inverse=True)
        indices = numbers.astype(structure.indices.dtype)
        found = structure.plans["columns"] = _Columns(indices, used, len(used))
    return found


def _product(left: Structure, x: Array, right: Structure, y: Array) -> tuple[Array, Array, Array]:
    """The index arrays and values of a product."""
    columns = _columns(right)
    index = (left.indptr, left.indices, right.indptr, columns.indices)
    sizes = (*left.shape, left.nnz, right.nnz)
    types = str(left.indices.dtype), str(right.indices.dtype)
    work = np.empty(left.shape[0], np.int64)
    units = 1 if left.nnz < _SERIAL else 4 * get_num_threads()
    compiled(spgemm_work, *types)(*index, work, *sizes, units)
    bounds = unit_bounds(np.cumsum(work + _ROW), _SERIAL, _FOR_COLUMN * columns.count)
    units = len(bounds) - 1
    case = SpgemmCase(*types)
    counts = work  # which has served
    compiled(spgemm_count, case)(*index, counts, bounds, *sizes, columns.count, units)
    indptr = starts_of(counts, right.shape[1])
    nnz = int(indptr[-1])
    indices, values = np.empty(nnz, indptr.dtype), np.empty(nnz, x.dtype)
    levels = 3 if columns.count > WIDE else 2
    case = SpgemmCase(*types, str(indptr.dtype), str(x.dtype), levels, right.is_sorted)
    arrays = (x, y, indptr, indices, values, bounds)
    compiled(spgemm_fill, case)(*index, *arrays, *sizes, columns.count, nnz, units)
    if columns.used is not None:
        indices = columns.used[indices].astype(indptr.dtype, copy=False)
    return indptr, indices, values
