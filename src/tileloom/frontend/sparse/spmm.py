"""Products of sparse matrices with dense ones, of arrays that people have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.aligned import LINE
from ...base.late import load
from ...sparse.arrays import Bsc, Bsr, Csr, DenseOperand, dense, dense_like, requires_grad, view
from .bsr import bsr_spmm, has_kernel
from .gpu.place import place_of
from .gpu.products import multiplied
from .operands import check_columns, promoted
from .repeated import RepeatedCall, prepare, run_again
from .results import converted, empty, given, refuse_out
from .rows import compressed_rows
from .spmm_plan import planned
from .structure import Structure

Array = np.ndarray[Any, Any]
_ndarray = np.ndarray


def spmm(a: Any, x: Any, out: Any = None, *, target: Any = None, device: str | None = None) -> Any:
    """The product `a @ x` of a sparse matrix and a dense one.

    Args:
        a: a sparse matrix of shape (m, n): of SciPy, PyTorch or pydata/sparse, or one of
            `tileloom.sparse.arrays`.
        x: a dense matrix of shape (n, k).
        out: a row-major array of shape (m, k) and of the result's type for the result.
        target, device: as `tileloom.build` has them; by default an operator runs where its arrays
            are. "cuda" and "emulator" run its kernels for GPUs on arrays in the CPU's memory.

    Returns:
        `out`, or a new array of shape (m, k): a tensor where `x` is one.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: there is no kernel for the types.
        UnsupportedError: the arrays are in different memories.

    The index arrays of `a` are checked when it is seen for the first time, and what suits its
    structure is decided then; changes of them in place are not noticed. For tensors that require
    gradients these are recorded: `a` gets a sparse one of its structure.

    >>> import numpy as np, scipy.sparse
    >>> a = scipy.sparse.csr_array(np.float32([[0, 1], [2, 0]]))
    >>> spmm(a, np.float32([[1, 2], [3, 4]]))
    array([[3., 4.],
           [2., 4.]], dtype=float32)
    """
    if type(x) is _ndarray and target is device is None:
        again = run_again(a, ("spmm", x.shape, x.dtype), (x,), out)
        if again is not None:
            return again
    parts = view(a, what="a")
    operand = dense(x, what="x")
    place = place_of(target, device, x, a=parts.data, x=operand.array)
    if operand.requires_grad or requires_grad(a):
        refuse_out(out)
        recorded: Any = load("tileloom.frontend.torch.sparse_gradients").spmm(a, x, target, device)
        return recorded
    check_columns(operand.array, parts.shape)
    if place is not None:
        found = multiplied(place, a, parts, operand.array, out)
        return out if out is not None else dense_like(found, x)
    if isinstance(parts, Bsr | Bsc) and has_kernel(parts):
        result = bsr_spmm(a, parts, operand, out)
    else:
        structure, values = compressed_rows(a, parts, "a")
        result = product(structure, values, operand, out)
        if type(parts) is Csr and operand.array is x and values.dtype == x.dtype == result.dtype:
            _prepare(a, parts, structure, x)
    return out if out is not None else dense_like(result, x)


def _prepare(a: Any, parts: Csr, structure: Structure, x: Array) -> None:
    """Let the next product of these run at once."""
    plan = structure.plans.get(("spmm", x.shape[1], x.dtype))
    if plan is None or plan.parts is not None or plan.blocks is not None or plan.later is not None:
        return
    index = structure.indptr, structure.indices
    call = RepeatedCall(
        plan.kernel, plan.streamed, (structure.shape[0], x.shape[1]), x.dtype, structure.nnz, True,
        (*index, *structure.shape, structure.nnz, plan.units),
    )  # fmt: skip
    prepare(a, parts, ("spmm", x.shape, x.dtype), call)


def product(structure: Structure, values: Array, operand: DenseOperand, out: Any = None) -> Array:
    """The product of a matrix by rows with a dense one."""
    values, columns, kind = promoted(values, operand, "a @ x")
    m, n = structure.shape
    features, found = columns.shape[1], columns.dtype
    key = ("spmm", features, found)
    plan = structure.plans.get(key)
    if plan is None:
        plan = structure.plans[key] = planned(structure, features, found)
    elif plan.later is not None and plan.later.is_due():
        plan = structure.plans[key] = plan.later.make()
    if out is None or kind != found:
        result, kernel = empty(m, features, found), plan.streamed
    else:
        result = given(out, (m, features), kind, x=columns, a=values)
        kernel = plan.kernel if result.ctypes.data % LINE else plan.streamed
    if plan.blocks is not None:
        if plan.blocks.multiply(values, columns, result):
            return result if kind == found else converted(result, kind, out)
        structure.plans[key] = plan.replace(format="rows", blocks=None)
    kernel(
        values, columns, result, structure.indptr, structure.indices, m, n, structure.nnz,
        plan.units, *plan.scratch(structure),
    )  # fmt: skip
    return result if kind == found else converted(result, kind, out)
