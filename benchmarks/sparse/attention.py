"""Attention along the edges of a graph, against a product, a softmax and a product by libraries.

Ours is one call; each of the others is three, with the scores of all edges in memory between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..harness import Call
from . import native, peers

Array = np.ndarray[Any, Any]


def in_tileloom(indptr: Array, indices: Array, data: Array, q: Array, k: Array, v: Array) -> Call:
    """One call, into an array that is there."""
    function, mask = peers.tileloom("graph_attention"), peers.csr(indptr, indices, data, len(k))
    out = np.empty_like(q)
    return lambda: function(mask, q, k, v, out=out)


def by_torch_and_mkl(
    indptr: Array, indices: Array, data: Array, q: Array, k: Array, v: Array
) -> Call:
    """The fastest that libraries have: `sampled_addmm`, segments of PyTorch, MKL's product."""
    library, mkl = peers.torch(), peers.mkl()
    weights, out = peers.csr(indptr, indices, data.copy(), len(k)), np.empty_like(q)
    mask = peers.torch_csr(library, peers.csr(indptr, indices, data, len(k)))
    left, right = library.from_numpy(q), library.from_numpy(k).t()
    offsets = library.from_numpy(indptr.astype(np.int64))
    row = library.repeat_interleave(library.arange(len(q)), offsets.diff())
    scale = q.shape[1] ** -0.5

    def call() -> Array:
        scores = library.sparse.sampled_addmm(mask, left, right, beta=0.0, alpha=scale).values()
        most = library.segment_reduce(scores, "max", offsets=offsets)
        powers = library.exp(scores - most[row])
        total = library.segment_reduce(powers, "sum", offsets=offsets)
        weights.data = (powers / total[row]).numpy()
        return peers.mkl_product(mkl, weights, v, out)

    return call


def by_numba(indptr: Array, indices: Array, data: Array, q: Array, k: Array, v: Array) -> Call:
    """Three loops in Numba."""
    from . import numba_kernels as kernels

    scores, out, scale = np.empty_like(data), np.empty_like(q), np.float32(q.shape[1] ** -0.5)

    def call() -> Array:
        kernels.sddmm(indptr, indices, data, q, k, scores)
        kernels.softmax(indptr, scale, scores)
        kernels.spmm(indptr, indices, scores, v, out)
        return out

    return call


def by_c(indptr: Array, indices: Array, data: Array, q: Array, k: Array, v: Array) -> Call:
    """Three functions in C."""
    scores, out, (rows, width) = np.empty_like(data), np.empty_like(q), q.shape

    steps = (
        native.prepare("sddmm", rows, width, indptr, indices, data, q, k, scores),
        native.prepare("softmax", rows, indptr, width**-0.5, scores),
        native.prepare("spmm", rows, width, indptr, indices, scores, v, out),
    )

    def call() -> Array:
        for step in steps:
            step()
        return out

    return call


PEERS = {
    "tileloom": in_tileloom,
    "torch and mkl": by_torch_and_mkl,
    "numba": by_numba,
    "c": by_c,
}

__all__ = ["PEERS"]
