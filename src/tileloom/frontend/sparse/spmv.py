"""Products of sparse matrices with vectors, of arrays that people have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import ShapeError
from ...base.record import Record
from ...runtime import get_num_threads
from ...sparse.arrays import Csr, dense, dense_like, requires_grad, view
from ...sparse.kernels.spmv import SpmvCase, spmv_rows
from .compiled import compiled, vector_bytes
from .gpu.place import place_of
from .gpu.products import multiplied
from .operands import promoted
from .repeated import RepeatedCall, prepare, run_again
from .results import converted, given, refuse_out
from .rows import compressed_rows
from .spmm import spmm
from .structure import Structure

_ndarray = np.ndarray

# Multiplications below which threads would cost more than they save.
_SERIAL = 60_000
# Elements of a row, on average, from which on vectors are long ones, and several are summed.
_LONG = 16
# Vectors that gathers serve: their bytes, and those of their elements.
_WIDE, _ITEMS = 32, (4, 8)


class _Plan(Record):
    """The compiled kernel, and into how many parts of work the rows are divided."""

    kernel: Any
    units: int


def spmv(a: Any, x: Any, out: Any = None, *, target: Any = None, device: str | None = None) -> Any:
    """The product `a @ x` of a sparse matrix and a vector.

    Args:
        a: a sparse matrix of shape (m, n): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`.
        x: a dense vector of n elements.
        out: a contiguous array of m elements of the result's type for the result.
        target, device: see `spmm`.

    Returns:
        `out`, or a new array of shape (m,): a tensor where `x` is one.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.
        UnsupportedError: the arrays are in different memories.

    The index arrays of `a` are checked when it is seen for the first time; changes of them in place
    are not noticed. For tensors that require gradients these are recorded.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> spmv(a, np.float32([3, 4]))
    array([4., 6.], dtype=float32)
    """
    if type(x) is _ndarray and target is device is None:
        again = run_again(a, ("spmv", x.shape, x.dtype), (x,), out)
        if again is not None:
            return again
    parts = view(a, what="a")
    operand = dense(x, what="x")
    place = place_of(target, device, x, a=parts.data, x=operand.array)
    _check_vector(operand.array, parts.shape)
    if operand.requires_grad or requires_grad(a):
        refuse_out(out)
        vector = x if requires_grad(x) else operand.array
        return spmm(a, vector[:, None], target=target, device=device)[:, 0]
    if place is not None:
        product = multiplied(place, a, parts, operand.array, out)
        return out if out is not None else dense_like(product, x)
    structure, values = compressed_rows(a, parts, "a")
    values, vector, kind = promoted(values, operand, "a @ x")
    m, n = structure.shape
    found = vector.dtype
    plan = structure.plans.get(("spmv", found))
    if plan is None:
        plan = structure.plans["spmv", found] = _planned(structure, found)
    if out is None or kind != found:
        result = np.empty(m, found)
    else:
        result = given(out, (m,), kind, x=vector, a=values)
    rest = structure.indptr, structure.indices, m, n, structure.nnz, plan.units
    plan.kernel(values, vector, result, *rest)
    if type(parts) is Csr and vector is x and kind == found == parts.data.dtype:
        call = RepeatedCall(plan.kernel, plan.kernel, (m,), found, structure.nnz, True, rest)
        prepare(a, parts, ("spmv", x.shape, found), call)
    if kind != found:
        result = converted(result, kind, out)
    return out if out is not None else dense_like(result, x)


def _check_vector(x: Any, shape: tuple[int, ...]) -> None:
    if len(shape) == 2 and tuple(x.shape) != (shape[1],):
        raise ShapeError(
            f"a has shape {shape} and x has shape {tuple(x.shape)}: "
            f"x must be a vector of {shape[1]} elements",
            hint="a product with a matrix is spmm(a, x)" if x.ndim == 2 else None,
        )


def _planned(structure: Structure, kind: np.dtype[Any]) -> _Plan:
    item, width = kind.itemsize, vector_bytes()
    is_long = structure.mean >= _LONG
    if width < _WIDE or item not in _ITEMS:
        lanes, sets = 1, 4 if is_long else 1
    else:
        lanes, sets = (width if is_long else _WIDE) // item, 2 if is_long else 1
    case = SpmvCase(str(kind), str(structure.indices.dtype), lanes, item, sets)
    work, threads = structure.nnz + 2 * structure.shape[0], get_num_threads()
    units = 1 if work < _SERIAL else (4 if work < 5_000_000 else 16) * threads
    return _Plan(compiled(spmv_rows, case), units)
