"""Synthetic twins of seven graphs of the literature: their rows, edges, degrees and locality.

The degrees of rows follow a Zipf-Mandelbrot law P(d) ~ (d + q)^-alpha, with q such that the mean is
the graph's. A column is, with probability one half, near its row (a community), and else drawn by
rank^-1 over a random permutation (hubs). Columns of a row are distinct and sorted, the number of
edges is exact. `alpha` was set so that padding to powers of two costs what the paper of SparseTIR
(Ye et al., ASPLOS 2023) lists for each graph. The two largest are cut down at the same mean degree.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LOCAL = 0.5
#: Mean distance of a near column from its row: this fraction of all rows.
NEAR = 1 / 64
#: How often columns are drawn by their law before what is missing is taken from the free ones.
DRAWS = 6
VERSION = 1


@dataclass(frozen=True)
class Law:
    """What a graph is drawn by.

    Attributes:
        rows, edges: the sizes; as many columns as rows.
        alpha: the exponent of the degrees, which are at most `most`.
        empty: the fraction of rows without edges.
        local: the fraction of edges that are near their row.
    """

    rows: int
    edges: int
    alpha: float
    most: int
    empty: float = 0.0
    local: float = LOCAL


@dataclass(frozen=True)
class Graph:
    """A square matrix in CSR: int32 indices, sorted in each row, and float32 values."""

    indptr: Array
    indices: Array
    data: Array

    @property
    def rows(self) -> int:
        """The number of rows, which is that of columns."""
        return len(self.indptr) - 1


GRAPHS = {
    "cora": Law(2_708, 10_556, 9.0, 168),
    "citeseer": Law(3_327, 9_228, 5.0, 99),
    "pubmed": Law(19_717, 88_651, 4.0, 171),
    "ppi": Law(44_906, 1_271_274, 6.0, 721),
    "arxiv": Law(169_343, 1_166_243, 2.35, 13_155, empty=0.2),
    "proteins/4": Law(132_534 // 4, 39_561_252 // 4, 2.2, 7_750),
    "reddit/16": Law(232_965 // 16, 114_615_892 // 16, 2.2, 10_000),
}


def load(name: str) -> Graph:
    """A graph of the list; see `kept`."""
    return kept(name, GRAPHS[name])


def kept(name: str, law: Law) -> Graph:
    """A graph from the user's cache, drawn at first (a minute for the largest ones)."""
    path = _folder() / f"{name.replace('/', '_')}-{VERSION}.npz"
    if not path.exists():
        graph = draw(law)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, indptr=graph.indptr, indices=graph.indices, data=graph.data)
        part.replace(path)
    with np.load(path) as arrays:
        return Graph(arrays["indptr"], arrays["indices"], arrays["data"])


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tileloom-benchmarks" / "graphs"


def draw(law: Law, seed: int = 2023) -> Graph:
    """A graph by a law; the same for the same seed."""
    rng = np.random.default_rng(seed)
    wanted = degrees(rng, law)
    keys = _edges(rng, wanted, law.local)
    indptr = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int32)
    values = rng.standard_normal(law.edges, np.float32)
    return Graph(indptr, (keys % law.rows).astype(np.int32), values)


def degrees(rng: np.random.Generator, law: Law) -> Array:
    """The degree of each row; their sum is exact."""
    full = law.rows - int(law.rows * law.empty)
    sizes = np.arange(1, law.most + 1, dtype=np.float64)
    law_of = _shifted(sizes, law.alpha, law.edges / full)
    drawn = np.searchsorted(np.cumsum(law_of), rng.random(full))
    found = np.minimum(drawn + 1, law.most).astype(np.int64)
    while gap := law.edges - int(found.sum()):
        step = 1 if gap > 0 else -1
        able = np.flatnonzero((found + step >= 1) & (found + step <= law.most))
        found[rng.choice(able, min(abs(gap), len(able)), replace=False)] += step
    result = np.zeros(law.rows, np.int64)
    result[np.sort(rng.choice(law.rows, full, replace=False))] = found
    return result


def _shifted(sizes: Array, alpha: float, mean: float) -> Array:
    """The law whose mean is this one: it grows with the shift, which is bisected."""

    def law(shift: float) -> Array:
        weight = (sizes + shift) ** -alpha
        return np.asarray(weight / weight.sum())

    low, high = 1e-6, 1e8  # of shift + 1
    for _ in range(100):
        middle = (low * high) ** 0.5
        if (law(middle - 1) * sizes).sum() < mean:
            low = middle
        else:
            high = middle
    return law(high - 1)


def _edges(rng: np.random.Generator, wanted: Array, local: float) -> Array:
    """The sorted keys row * rows + column of distinct edges, as many in each row as wanted."""
    rows = len(wanted)
    columns = _column_law(rng, rows, local)
    keys, missing = np.empty(0, np.int64), wanted
    for _ in range(DRAWS):
        row = np.repeat(np.arange(rows), missing)
        keys = np.unique(np.concatenate([keys, row * rows + columns(row)]))
        missing = wanted - np.bincount(keys // rows, minlength=rows)
    return np.sort(np.concatenate([keys, *_free(rng, keys, missing)]))


def _column_law(rng: np.random.Generator, rows: int, local: float) -> Callable[[Array], Array]:
    ranked = rng.permutation(rows)

    def columns(row: Array) -> Array:
        count = len(row)
        away = rng.geometric(min(1.0, 1 / (NEAR * rows)), count) * rng.choice((-1, 1), count)
        rank = np.minimum((rows + 1) ** rng.random(count) - 1, rows - 1).astype(np.int64)
        return np.where(rng.random(count) < local, (row + away) % rows, ranked[rank])

    return columns


def _free(rng: np.random.Generator, keys: Array, missing: Array) -> list[Array]:
    """For each row that lacks edges, that many of the columns it has not."""
    rows = len(missing)
    starts = np.searchsorted(keys, np.arange(rows + 1) * rows)
    found = []
    for row in np.flatnonzero(missing):
        free = np.ones(rows, bool)
        free[keys[starts[row] : starts[row + 1]] - row * rows] = False
        chosen = rng.choice(np.flatnonzero(free), missing[row], replace=False)
        found.append(row * rows + chosen)
    return found


__all__ = ["GRAPHS", "Graph", "Law", "degrees", "draw", "kept", "load"]
