"""Work in chunks that stay in a core's cache, by threads where there is enough of it.

NumPy releases the interpreter's lock in what is called here: takes, sorts, comparisons, arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tileloom.base.settings import settings

from .index_arrays import Array

#: Elements in a chunk: some arrays of so many are in the second level cache together.
CHUNK = 1 << 17
#: With fewer chunks, threads cost more than they bring.
LEAST_CHUNKS = 4


def for_chunks(work: Callable[[int, int], object], bounds: Array) -> None:
    """Call `work(begin, end)` for every two neighbours in `bounds`, in any order.

    >>> for_chunks(lambda begin, end: print(begin, end), np.array([0, 3, 4]))
    0 3
    3 4
    """
    chunks = list(zip(bounds[:-1].tolist(), bounds[1:].tolist()))
    threads = min(_threads(), len(chunks))
    if threads < 2 or len(chunks) < LEAST_CHUNKS:
        for begin, end in chunks:
            work(begin, end)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda chunk: work(*chunk), chunks):
            pass  # what a chunk raised is raised here


def _threads() -> int:
    if settings().num_threads:
        return settings().num_threads
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def even_chunks(count: int, each: int = 1) -> Array:
    """Bounds of chunks of things that have `each` elements.

    >>> even_chunks(5, CHUNK // 2), even_chunks(0)
    (array([0, 2, 4, 5]), array([0]))
    """
    size = max(1, CHUNK // max(1, each))
    return np.append(np.arange(0, count, size), count) if count else np.zeros(1, np.int64)


def row_chunks(indptr: Array) -> Array:
    """Bounds of chunks of whole rows, each with about `CHUNK` elements or rows.

    >>> row_chunks(np.array([0, 1, 2, 2 + CHUNK, 3 + CHUNK]))
    array([0, 3, 4])
    """
    rows = len(indptr) - 1
    steps = np.arange(CHUNK, int(indptr[-1]), CHUNK, dtype=indptr.dtype)
    by_elements = np.searchsorted(indptr, steps)
    return np.unique(np.concatenate((by_elements, even_chunks(rows))))
