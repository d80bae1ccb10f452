"""Products of sparse matrices with dense ones, of arrays that people have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import ShapeError, UnsupportedError
from ...sparse.arrays import dense, dense_like, view
from .kinds import KINDS, computed_as
from .results import empty, given
from .rows import compressed_rows
from .spmm_plan import planned


def spmm(a: Any, x: Any, out: Any = None) -> Any:
    """The product `a @ x` of a sparse matrix and a dense one.

    Args:
        a: a sparse matrix of shape (m, n): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`.
        x: a dense matrix of shape (n, k).
        out: a row-major array of shape (m, k) and of the result's type for the result.

    Returns:
        `out`, or a new array of shape (m, k): a tensor where `x` is one.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.

    The index arrays of `a` are checked when it is seen for the first time, and what suits its
    structure is decided then; changes of them in place are not noticed.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> spmm(a, np.float32([[1, 2], [3, 4]]))
    array([[3., 4.],
           [2., 4.]], dtype=float32)
    """
    parts = view(a, what="a")
    operand = dense(x, what="x")
    structure, values = compressed_rows(a, parts, "a")
    columns = operand.array
    _check_operand(columns, parts.shape)
    kind = columns.dtype
    if values.dtype is not kind or not operand.is_row_major or kind not in KINDS:
        kind = np.result_type(values.dtype, columns.dtype)
        found = computed_as(kind, "a @ x")
        values = values.astype(found, copy=False)
        columns = np.ascontiguousarray(columns, dtype=found)
    m, n = parts.shape
    features = columns.shape[1]
    key = ("spmm", features, columns.dtype)
    plan = structure.plans.get(key)
    if plan is None:
        plan = structure.plans[key] = planned(structure, features, columns.dtype)
    if out is None:
        result, kernel = empty(m, features, columns.dtype), plan.streamed
    elif kind != columns.dtype:
        return _into(out, spmm(a, x))
    else:
        result = given(out, (m, features), kind, x=columns, a=values)
        kernel = plan.kernel if result.ctypes.data % LINE else plan.streamed
    kernel(
        values, columns, result, structure.indptr, structure.indices, m, n, structure.nnz,
        plan.units, *plan.scratch(structure),
    )  # fmt: skip
    if out is not None:
        return out
    return dense_like(result if kind == columns.dtype else result.astype(kind), x)


def _check_operand(x: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(x, np.ndarray):
        raise UnsupportedError("x is in a GPU's memory: there are kernels for CPUs only")
    if x.ndim != 2 or x.shape[0] != shape[1]:
        raise _misfit(shape, x.shape)


def _into(out: Any, result: Any) -> Any:
    """`out` with a result of another type in it."""
    array = dense(result, what="the result").array
    given(out, array.shape, array.dtype)[...] = array
    return out


def _misfit(a: tuple[int, ...], x: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"a has shape {a} and x has shape {x}: x must be a matrix of {a[1]} rows",
        hint="a product with a vector is spmv(a, x)",
    )
