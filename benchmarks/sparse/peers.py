"""How others and we multiply: builders of calls, by operands as NumPy arrays.

Who can write into an array that is there does so, all others return a new one, as they do for their
users. PyTorch's own SpMM takes int32 indices; its reductions want int64.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..harness import Call, Skip
from . import native

Array = np.ndarray[Any, Any]
#: Parts per thread of the balanced loops.
PARTS = 8


def threads() -> int:
    """How many each peer may use."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def csr(indptr: Array, indices: Array, data: Array, columns: int) -> Any:
    """SciPy's array over these, without a copy."""
    return scipy.sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns))


def tileloom(name: str) -> Callable[..., Any]:
    """A function of `tileloom.sparse`."""
    from tileloom import sparse

    function = getattr(sparse, name, None)
    if function is None:
        raise Skip(f"tileloom.sparse has no {name}")
    return function  # type: ignore[no-any-return]


def torch() -> Any:
    """PyTorch with as many threads as the others."""
    import torch as library

    library.set_num_threads(threads())
    warnings.filterwarnings("ignore", message="Sparse .* (beta|implicitly disabled)")
    return library


def torch_csr(library: Any, matrix: Any, index: type[np.signedinteger[Any]] = np.int32) -> Any:
    """A CSR tensor; over the same memory where the indices are of this type."""
    indptr, indices = (a.astype(index, copy=False) for a in (matrix.indptr, matrix.indices))
    parts = map(library.from_numpy, (indptr, indices, matrix.data))
    return library.sparse_csr_tensor(*parts, matrix.shape)


def mkl() -> Any:
    """sparse_dot_mkl, which does not look for MKL where pip puts it."""
    found = sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))
    if found:
        os.environ.setdefault("MKL_RT", str(found[0]))
    import sparse_dot_mkl

    return sparse_dot_mkl


def mkl_product(library: Any, matrix: Any, x: Array, out: Array) -> Array:
    """The product into `out`, to which MKL would add by default."""
    library.dot_product_mkl(matrix, x, out=out, out_scalar=0.0)
    return out


def spmm_tileloom(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Ours, into an array that is there."""
    function, matrix = tileloom("spmm"), csr(indptr, indices, data, len(x))
    out = np.empty((len(indptr) - 1, x.shape[1]), x.dtype)
    return lambda: function(matrix, x, out=out)


def spmm_chosen(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """As `spmm_tileloom`, once what was chosen is there: blocks are made after some calls."""
    from tileloom.frontend.sparse.structure import structure_of
    from tileloom.sparse.arrays import view

    function, matrix = tileloom("spmm"), csr(indptr, indices, data, len(x))
    out = np.empty((len(indptr) - 1, x.shape[1]), x.dtype)
    key = ("spmm", x.shape[1], x.dtype)
    plans: dict[Any, Any] = {}
    while key not in plans or plans[key].later is not None:
        function(matrix, x, out=out)
        parts: Any = view(matrix)
        plans = structure_of(matrix, parts).plans
    return lambda: function(matrix, x, out=out)


def spmm_rows(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Ours, row by row whatever the matrix is like."""
    from tileloom.frontend.sparse.results import empty
    from tileloom.frontend.sparse.spmm_plan import planned
    from tileloom.frontend.sparse.structure import Structure

    m, n = len(indptr) - 1, len(x)
    structure = Structure(indptr, indices, (m, n))
    plan = planned(structure, x.shape[1], x.dtype, "rows")
    out = empty(m, x.shape[1], x.dtype)
    return _returning(
        (out,),
        lambda: plan.streamed(data, x, out, indptr, indices, m, n, structure.nnz, plan.units),
    )


def spmm_scipy(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """One thread, by design."""
    matrix = csr(indptr, indices, data, len(x))
    return lambda: matrix @ x


def spmm_torch(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """`torch.sparse.mm`."""
    library = torch()
    matrix = torch_csr(library, csr(indptr, indices, data, len(x)))
    tensor = library.from_numpy(x)
    return lambda: library.sparse.mm(matrix, tensor)


def spmm_torch_sum(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """`torch.sparse.mm(..., "sum")`, the way of PyTorch Geometric."""
    library = torch()
    matrix = torch_csr(library, csr(indptr, indices, data, len(x)), np.int64)
    tensor = library.from_numpy(x)
    return lambda: library.sparse.mm(matrix, tensor, "sum")


def spmm_mkl(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """MKL, into an array that is there."""
    library, matrix = mkl(), csr(indptr, indices, data, len(x))
    out = np.empty((len(indptr) - 1, x.shape[1]), x.dtype)
    return lambda: mkl_product(library, matrix, x, out)


def spmm_numba(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Rows as they come."""
    from . import numba_kernels

    out = np.empty((len(indptr) - 1, x.shape[1]), x.dtype)
    return _running(numba_kernels.spmm, indptr, indices, data, x, out)


def spmm_numba_balanced(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Ranges of rows with as many edges."""
    from . import numba_kernels

    cuts = numba_kernels.balance(indptr, PARTS * threads())
    out = np.empty((len(indptr) - 1, x.shape[1]), x.dtype)
    return _running(numba_kernels.spmm_balanced, cuts, indptr, indices, data, x, out)


def spmm_c(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """By hand."""
    rows, width = len(indptr) - 1, x.shape[1]
    out = np.empty((rows, width), x.dtype)
    arguments = (rows, width, indptr, indices, data, x, out)
    return _returning(arguments, native.prepare("spmm", *arguments))


def spmv_tileloom(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Ours, into an array that is there."""
    function, matrix = tileloom("spmv"), csr(indptr, indices, data, len(x))
    out = np.empty(len(indptr) - 1, x.dtype)
    return lambda: function(matrix, x, out=out)


def spmv_torch(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """`torch.mv`."""
    library = torch()
    matrix = torch_csr(library, csr(indptr, indices, data, len(x)))
    tensor = library.from_numpy(x)
    return lambda: library.mv(matrix, tensor)


def spmv_mkl(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """MKL, into an array that is there."""
    library, matrix = mkl(), csr(indptr, indices, data, len(x))
    out = np.empty(len(indptr) - 1, x.dtype)
    return lambda: mkl_product(library, matrix, x, out)


def spmv_numba(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Rows as they come."""
    from . import numba_kernels

    out = np.empty(len(indptr) - 1, x.dtype)
    return _running(numba_kernels.spmv, indptr, indices, data, x, out)


def sddmm_tileloom(indptr: Array, indices: Array, data: Array, x: Array, y: Array) -> Call:
    """Ours, into an array that is there."""
    function, matrix = tileloom("sddmm"), csr(indptr, indices, data, len(y))
    out = np.empty_like(data)
    return lambda: function(matrix, x, y, out).data


def sddmm_torch(indptr: Array, indices: Array, data: Array, x: Array, y: Array) -> Call:
    """`torch.sparse.sampled_addmm`, which does not take the values: they are ones here."""
    library = torch()
    matrix = torch_csr(library, csr(indptr, indices, data, len(y)))
    left, right = library.from_numpy(x), library.from_numpy(y).t()
    return lambda: library.sparse.sampled_addmm(matrix, left, right, beta=0.0).values()


def sddmm_numba(indptr: Array, indices: Array, data: Array, x: Array, y: Array) -> Call:
    """Rows as they come."""
    from . import numba_kernels

    out = np.empty_like(data)
    return _running(numba_kernels.sddmm, indptr, indices, data, x, y, out)


def sddmm_c(indptr: Array, indices: Array, data: Array, x: Array, y: Array) -> Call:
    """By hand."""
    rows, width = x.shape
    out = np.empty_like(data)
    arguments = (rows, width, indptr, indices, data, x, y, out)
    return _returning(arguments, native.prepare("sddmm", *arguments))


def _running(function: Callable[..., Any], *arguments: Array) -> Call:
    """A call of a function that writes into its last argument."""
    return _returning(arguments, lambda: function(*arguments))


def _returning(arguments: Sequence[Any], run: Call) -> Call:
    """A call that also returns the last argument."""

    def call() -> Any:
        run()
        return arguments[-1]

    return call


SPMM = {
    "tileloom": spmm_tileloom,
    "mkl": spmm_mkl,
    "torch": spmm_torch,
    "torch sum": spmm_torch_sum,
    "scipy": spmm_scipy,
    "numba": spmm_numba,
    "numba balanced": spmm_numba_balanced,
    "c": spmm_c,
}
CHOICE = {"tileloom": spmm_chosen, "rows": spmm_rows}
SPMV = {
    "tileloom": spmv_tileloom,
    "mkl": spmv_mkl,
    "torch": spmv_torch,
    "scipy": spmm_scipy,
    "numba": spmv_numba,
}
SDDMM = {
    "tileloom": sddmm_tileloom,
    "torch": sddmm_torch,
    "numba": sddmm_numba,
    "c": sddmm_c,
}

__all__ = [
    "CHOICE",
    "SDDMM",
    "SPMM",
    "SPMV",
    "csr",
    "mkl",
    "mkl_product",
    "threads",
    "tileloom",
    "torch",
    "torch_csr",
]
