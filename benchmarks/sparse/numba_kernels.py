"""Kernels in Numba: rows in parallel as they come, or cut where the edges are halved."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange

compiled = numba.njit(parallel=True, fastmath=True)


@numba.njit(fastmath=True)
def _row(i: Any, indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    out[i, :] = 0
    for p in range(indptr[i], indptr[i + 1]):
        value, row = data[p], indices[p]
        for k in range(x.shape[1]):
            out[i, k] += value * x[row, k]


@compiled
def spmm(indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    """A loop over the rows, scheduled by Numba."""
    for i in prange(len(indptr) - 1):
        _row(i, indptr, indices, data, x, out)


@compiled
def spmm_balanced(cuts: Any, indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    """A loop over ranges of rows of about as many edges each; see `balance`."""
    for part in prange(len(cuts) - 1):
        for i in range(cuts[part], cuts[part + 1]):
            _row(i, indptr, indices, data, x, out)


@compiled
def spmv(indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    """A loop over the rows."""
    for i in prange(len(indptr) - 1):
        total = np.float32(0)
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * x[indices[p]]
        out[i] = total


@compiled
def sddmm(indptr: Any, indices: Any, data: Any, x: Any, y: Any, out: Any) -> None:
    """A loop over the rows."""
    for i in prange(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            row, total = indices[p], np.float32(0)
            for k in range(x.shape[1]):
                total += x[i, k] * y[row, k]
            out[p] = data[p] * total


@compiled
def softmax(indptr: Any, scale: Any, values: Any) -> None:
    """Of the values of each row, in place."""
    for i in prange(len(indptr) - 1):
        begin, end = indptr[i], indptr[i + 1]
        if begin == end:
            continue
        most, total = np.max(values[begin:end]), np.float32(0)
        for p in range(begin, end):
            values[p] = np.exp(scale * (values[p] - most))
            total += values[p]
        for p in range(begin, end):
            values[p] /= total


def balance(indptr: np.ndarray[Any, Any], parts: int) -> np.ndarray[Any, Any]:
    """Rows at which to cut for parts of about as many edges and rows."""
    work = indptr + np.arange(len(indptr))
    return np.searchsorted(work, np.linspace(0, work[-1], parts + 1)).astype(np.int64)


__all__ = ["balance", "sddmm", "softmax", "spmm", "spmm_balanced", "spmv"]
