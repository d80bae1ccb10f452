"""A matrix of dense blocks, most of them absent, times a dense one: as blocks, as CSR, as dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ..harness import Call
from . import native, peers

Array = np.ndarray[Any, Any]
BLOCK = 32


def blocks(indptr: Array, indices: Array, data: Array, rows: int) -> Any:
    """SciPy's array of blocks [count, BLOCK, BLOCK]."""
    shape = ((len(indptr) - 1) * BLOCK, rows)
    return scipy.sparse.bsr_array((data, indices, indptr), shape=shape)


def _csr(indptr: Array, indices: Array, data: Array, rows: int) -> Any:
    matrix = blocks(indptr, indices, data, rows).tocsr()
    matrix.indptr, matrix.indices = (a.astype(np.int32) for a in (matrix.indptr, matrix.indices))
    return matrix


def in_tileloom(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """Blocks."""
    function, matrix = peers.tileloom("spmm"), blocks(indptr, indices, data, len(x))
    out = np.empty((matrix.shape[0], x.shape[1]), x.dtype)
    return lambda: function(matrix, x, out=out)


def dense(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """PyTorch's product with all the zeros."""
    library = peers.torch()
    matrix = library.from_numpy(blocks(indptr, indices, data, len(x)).toarray())
    tensor, out = library.from_numpy(x), library.empty(matrix.shape[0], x.shape[1])
    return lambda: library.mm(matrix, tensor, out=out)


def mkl_csr(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """MKL on single numbers."""
    library, matrix = peers.mkl(), _csr(indptr, indices, data, len(x))
    out = np.empty((matrix.shape[0], x.shape[1]), x.dtype)
    return lambda: peers.mkl_product(library, matrix, x, out)


def mkl_bsr(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """MKL on blocks."""
    library, matrix = peers.mkl(), blocks(indptr, indices, data, len(x))
    out = np.empty((matrix.shape[0], x.shape[1]), x.dtype)
    return lambda: peers.mkl_product(library, matrix, x, out)


def torch_bsr(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """PyTorch on blocks."""
    library, matrix = peers.torch(), blocks(indptr, indices, data, len(x))
    parts = map(library.from_numpy, (indptr, indices, data))
    tensor, sparse = library.from_numpy(x), library.sparse_bsr_tensor(*parts, matrix.shape)
    return lambda: sparse @ tensor


def scipy_bsr(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """SciPy on blocks, one thread."""
    matrix = blocks(indptr, indices, data, len(x))
    return lambda: matrix @ x


def c_csr(indptr: Array, indices: Array, data: Array, x: Array) -> Call:
    """C on single numbers."""
    m = _csr(indptr, indices, data, len(x))
    rows, width = m.shape[0], x.shape[1]
    out = np.empty((rows, width), x.dtype)
    run = native.prepare("spmm", rows, width, m.indptr, m.indices, m.data, x, out)

    def call() -> Array:
        run()
        return out

    return call


PEERS = {
    "tileloom": in_tileloom,
    "dense": dense,
    "mkl csr": mkl_csr,
    "mkl bsr": mkl_bsr,
    "torch bsr": torch_bsr,
    "scipy bsr": scipy_bsr,
    "c csr": c_csr,
}

__all__ = ["BLOCK", "PEERS", "blocks"]
