"""What is measured: workloads with their references in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from ..harness import Workload
from . import attention, blocks, graphs, peers, products
from .graphs import Graph

Array = np.ndarray[Any, Any]
Load = Callable[[], Graph]
WIDTHS = (32, 128, 512)
ATTENTION_WIDTHS = (32, 64, 128)
#: Graphs that are multiplied with themselves.
SQUARED = ("cora", "citeseer", "pubmed", "ppi", "arxiv")
#: Rows, columns, and how many of the blocks are there.
BLOCKED = ((3072, 768, 0.07), (768, 768, 0.057))
#: Of a sum of n products of normal numbers in float32, per square root of n.
ERROR = 1e-5
_CHUNK = 1 << 16


def workloads() -> list[Workload]:
    """All of them, by table."""
    found = [spmm(name, graph(name), k) for name in graphs.GRAPHS for k in WIDTHS]
    found += [spmv(name, graph(name)) for name in graphs.GRAPHS]
    found += [sddmm(name, graph(name), k) for name in graphs.GRAPHS for k in WIDTHS]
    found += [attend(name, graph(name), k) for name in graphs.GRAPHS for k in ATTENTION_WIDTHS]
    found += [spgemm(name, graph(name)) for name in SQUARED]
    found += [blocked(*case) for case in BLOCKED]
    small = graphs.Law(100, 500, 3.0, 20)
    return [*found, *(call(kind, lambda: graphs.draw(small)) for kind in (spmm, sddmm))]


def graph(name: str) -> Load:
    """A graph of the list, when it is wanted."""
    return lambda: graphs.load(name)


def spmm(name: str, load: Load, width: int) -> Workload:
    """A graph's matrix times features."""
    edges, rows = _sizes(name)

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        g = load()
        return g.indptr, g.indices, g.data, _normal(rng, g.rows, width)

    return Workload(
        f"spmm_{name}_{width}", inputs, product, peers.SPMM, atol=_error(name),
        flops=2 * edges * width, moved=8 * edges + 4 * rows + 8 * rows * width,
    )  # fmt: skip


def spmv(name: str, load: Load) -> Workload:
    """A graph's matrix times a vector."""
    edges, rows = _sizes(name)

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        g = load()
        return g.indptr, g.indices, g.data, rng.standard_normal(g.rows, np.float32)

    return Workload(
        f"spmv_{name}", inputs, product, peers.SPMV, atol=_error(name),
        flops=2 * edges, moved=8 * edges + 12 * rows,
    )  # fmt: skip


def sddmm(name: str, load: Load, width: int) -> Workload:
    """Products of rows of features along the edges; the mask's values are ones."""
    edges, rows = _sizes(name)

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        g = load()
        features = (_normal(rng, g.rows, width) for _ in range(2))
        return g.indptr, g.indices, np.ones_like(g.data), *features

    return Workload(
        f"sddmm_{name}_{width}", inputs, _dots, peers.SDDMM, atol=ERROR * width**0.5,
        flops=2 * edges * width, moved=12 * edges + 4 * rows + 8 * rows * width,
    )  # fmt: skip


def attend(name: str, load: Load, width: int) -> Workload:
    """Attention of each row to its neighbours."""
    edges, rows = _sizes(name)

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        g = load()
        features = (_normal(rng, g.rows, width) for _ in range(3))
        return g.indptr, g.indices, np.ones_like(g.data), *features

    return Workload(
        f"attention_{name}_{width}", inputs, _attention, attention.PEERS, atol=1e-4,
        flops=4 * edges * width, moved=4 * edges + 4 * rows + 16 * rows * width,
    )  # fmt: skip


def spgemm(name: str, load: Load) -> Workload:
    """A graph's matrix times itself."""

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        g = load()
        return g.indptr, g.indices, g.data

    def reference(indptr: Array, indices: Array, data: Array) -> Array:
        rows = len(indptr) - 1
        wide = peers.csr(indptr, indices, data.astype(np.float64), rows)
        return np.asarray(wide @ (wide @ products.probes(rows)))

    atol = 10 * _error(name)  # rows of sums of sums
    return Workload(f"spgemm_{name}", inputs, reference, products.PEERS, atol=atol)


def blocked(rows: int, columns: int, kept: float, width: int = 512) -> Workload:
    """Blocks of 32 times 32."""
    size = blocks.BLOCK
    there = np.random.default_rng(1).random((rows // size, columns // size)) < kept
    mask = scipy.sparse.csr_array(there)
    count = mask.nnz

    def inputs(rng: np.random.Generator) -> tuple[Array, ...]:
        data = rng.standard_normal((count, size, size), np.float32)
        index = (a.astype(np.int32) for a in (mask.indptr, mask.indices))
        return *index, data, _normal(rng, columns, width)

    def reference(indptr: Array, indices: Array, data: Array, x: Array) -> Array:
        wide = blocks.blocks(indptr, indices, data.astype(np.float64), len(x))
        return np.asarray(wide @ x.astype(np.float64))

    return Workload(
        f"blocks_{rows}x{columns}_{kept:.1%}", inputs, reference, blocks.PEERS,
        atol=ERROR * columns**0.5, flops=2 * count * size**2 * width,
        moved=4 * count * size**2 + 4 * (rows + columns) * width,
    )  # fmt: skip


def call(kind: Callable[..., Workload], load: Load) -> Workload:
    """What a call costs: 100 rows, 500 edges, 16 features."""
    return kind("call", load, 16)


def _sizes(name: str) -> tuple[int, int]:
    law = graphs.GRAPHS.get(name)
    return (law.edges, law.rows) if law else (500, 100)


def _error(name: str) -> float:
    law = graphs.GRAPHS.get(name)
    return ERROR * float((law.most if law else 20) ** 0.5)


def _normal(rng: np.random.Generator, rows: int, width: int) -> Array:
    return rng.standard_normal((rows, width), np.float32)


def product(indptr: Array, indices: Array, data: Array, x: Array) -> Array:
    """Sparse times dense in float64."""
    wide = peers.csr(indptr, indices, data.astype(np.float64), len(x))
    return np.asarray(wide @ x.astype(np.float64))


def _dots(indptr: Array, indices: Array, data: Array, x: Array, y: Array) -> Array:
    row = np.repeat(np.arange(len(x)), np.diff(indptr))
    found = np.empty(len(indices))
    for begin in range(0, len(indices), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        left, right = (a[i[part]].astype(np.float64) for a, i in ((x, row), (y, indices)))
        found[part] = np.einsum("pk,pk->p", left, right) * data[part]
    return found


def _attention(indptr: Array, indices: Array, data: Array, q: Array, k: Array, v: Array) -> Array:
    scores = _dots(indptr, indices, data, q, k) * q.shape[1] ** -0.5
    full = np.flatnonzero(np.diff(indptr))
    counts, starts = np.diff(indptr)[full], indptr[full]
    powers = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), counts))
    weights = powers / np.repeat(np.add.reduceat(powers, starts), counts)
    return product(indptr, indices, weights, v)


__all__ = ["WIDTHS", "attend", "blocked", "call", "product", "sddmm", "spmm", "spmv", "workloads"]
