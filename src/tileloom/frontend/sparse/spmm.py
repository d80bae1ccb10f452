"""Products of sparse matrices with dense ones, of arrays that people have."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.errors import ShapeError, UnsupportedError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import dense, dense_like, view
from ...sparse.kernels.spmm import SpmmCase, spmm_rows
from ...sparse.kernels.spmm_parts import spmm_parts
from ...target.machine import cache_sizes
from .compiled import compiled, vector_bytes
from .kinds import KINDS, computed_as
from .results import STREAMED, empty, given
from .rows import compressed_rows
from .structure import Structure

Array = np.ndarray[Any, Any]

# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# Bytes of the dense matrix from which on its rows are fetched early.
_FETCHED = 1 << 20
# Bytes of the dense matrix by which one fetches ahead.
_AHEAD = 4096


class SpmmPlan(Record):
    """How a product is computed.

    Attributes:
        kernel: the compiled kernel.
        streamed: the one for results that begin with a cache line, or `kernel` again.
        units: into how many parts the rows are divided.
        extra: further arguments of the kernel.
    """

    kernel: Any
    streamed: Any
    units: int
    extra: tuple[Any, ...] = ()


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
        plan = structure.plans[key] = _planned(structure, features, columns.dtype)
    if out is None:
        result, kernel = empty(m, features, columns.dtype), plan.streamed
    elif kind != columns.dtype:
        return _into(out, spmm(a, x))
    else:
        result = given(out, (m, features), kind, x=columns, a=values)
        kernel = plan.kernel if result.ctypes.data % LINE else plan.streamed
    kernel(
        values, columns, result, structure.indptr, structure.indices, m, n, structure.nnz,
        plan.units, *plan.extra,
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


# ---------------------------------------------------------------------------- choice of a kernel


def _planned(structure: Structure, features: int, kind: np.dtype[Any]) -> SpmmPlan:
    dtype, idtype = str(kind), str(structure.indices.dtype)
    lanes = max(1, vector_bytes() // kind.itemsize)
    work = structure.nnz * features
    threads = get_num_threads()
    parts = _in_parts(structure, features, kind, lanes)
    if parts is not None:
        tile, long, width = parts
        case = SpmmCase(features, dtype, idtype, lanes, tile)
        row_bytes = features * kind.itemsize
        kernel = compiled(spmm_parts, case, tile * lanes < features and row_bytes >= 1024)
        scratch = np.empty(structure.shape[0], np.int64), np.empty(structure.shape[0], idtype)
        return SpmmPlan(kernel, kernel, 4 * threads, (long, width, *scratch))
    case = _by_rows(structure, features, dtype, idtype, lanes, kind.itemsize)
    units = 1 if work < _SERIAL else (4 if work < 5_000_000 else 16) * threads
    kernel = compiled(spmm_rows, case._replace(aligned=0))
    streamed = compiled(spmm_rows, case) if case.aligned else kernel
    return SpmmPlan(kernel, streamed, units)


def _by_rows(
    structure: Structure, features: int, dtype: str, idtype: str, lanes: int, item: int
) -> SpmmCase:
    count = max(1, ceil(features / lanes))
    most = 8 if count >= 32 else 4
    tile = ceil(count / ceil(count / most))
    fetched = structure.shape[1] * features * item > _FETCHED
    ahead = max(8, _AHEAD // (tile * lanes * item)) if fetched else 0
    sets = 4 if count <= 2 and structure.mean >= 64 else 1
    whole = features % lanes == 0 and lanes * item >= 16
    streamed = whole and structure.shape[0] * features * item > STREAMED
    return SpmmCase(features, dtype, idtype, lanes, tile, ahead, sets, LINE if streamed else 0)


def _in_parts(
    structure: Structure, features: int, kind: np.dtype[Any], lanes: int
) -> tuple[int, int, int] | None:
    """Tile, length of long rows and width of the parts, where parts of `x` pay."""
    if features % lanes or features < 4 * lanes or structure.mean < 64:
        return None
    tile = min(8, features // lanes)
    if features % (tile * lanes):
        return None
    near = 6 * cache_sizes()[1] // 10
    width = max(1, near // (tile * lanes * kind.itemsize))
    parts = ceil(structure.shape[1] / width)
    if parts < 2 or structure.share_of_rows_from(8 * parts) < 0.5 or not structure.is_sorted:
        return None
    return tile, max(64, 8 * parts), width
