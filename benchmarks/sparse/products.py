"""A sparse matrix times itself: builders of calls, by the arrays of the matrix.

The results of SciPy, and of MKL unless it is asked for them, are not sorted by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..harness import Call
from . import peers

Array = np.ndarray[Any, Any]
_PROBES = 4


class Product:
    """A sparse result, which is compared by what it makes of some vectors."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        matrix = self.matrix
        if hasattr(matrix, "crow_indices"):
            starts, columns = matrix.crow_indices().numpy(), matrix.col_indices().numpy()
            matrix = peers.csr(starts, columns, matrix.values().numpy(), matrix.shape[1])
        wide = matrix.astype(np.float64) @ probes(matrix.shape[1])
        return np.asarray(wide, dtype=dtype)


def probes(rows: int) -> Array:
    """The vectors."""
    return np.random.default_rng(7).standard_normal((rows, _PROBES))


def in_tileloom(indptr: Array, indices: Array, data: Array) -> Call:
    """Ours."""
    function, matrix = peers.tileloom("spgemm"), peers.csr(indptr, indices, data, len(indptr) - 1)
    return lambda: Product(function(matrix, matrix))


def in_scipy(indptr: Array, indices: Array, data: Array) -> Call:
    """One thread, not sorted."""
    matrix = peers.csr(indptr, indices, data, len(indptr) - 1)
    return lambda: Product(matrix @ matrix)


def in_mkl(indptr: Array, indices: Array, data: Array) -> Call:
    """MKL, not sorted."""
    library, matrix = peers.mkl(), peers.csr(indptr, indices, data, len(indptr) - 1)
    return lambda: Product(library.dot_product_mkl(matrix, matrix))


def in_mkl_sorted(indptr: Array, indices: Array, data: Array) -> Call:
    """MKL, sorted as ours is."""
    library, matrix = peers.mkl(), peers.csr(indptr, indices, data, len(indptr) - 1)
    return lambda: Product(library.dot_product_mkl(matrix, matrix, reorder_output=True))


def in_torch(indptr: Array, indices: Array, data: Array) -> Call:
    """PyTorch."""
    library = peers.torch()
    matrix = peers.torch_csr(library, peers.csr(indptr, indices, data, len(indptr) - 1))
    return lambda: Product(matrix @ matrix)


PEERS = {
    "tileloom": in_tileloom,
    "mkl sorted": in_mkl_sorted,
    "mkl": in_mkl,
    "torch": in_torch,
    "scipy": in_scipy,
}

__all__ = ["PEERS", "Product", "probes"]
