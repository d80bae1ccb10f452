"""Two sparse operands: in which type they are computed, and the index arrays of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import get_num_threads
from .kinds import computed_as

Array = np.ndarray[Any, Any]
_SHORT = np.dtype(np.int32)
_MOST = np.iinfo(_SHORT).max


def promoted_pair(x: Array, y: Array, what: str) -> tuple[Array, Array, np.dtype[Any]]:
    """The values of two matrices in the type that they are computed in.

    Returns:
        Both, and the type of the result, which may be another one.

    Raises:
        DTypeError: there is no kernel for the types.
    """
    kind = np.result_type(x.dtype, y.dtype)
    found = computed_as(kind, what)
    return x.astype(found, copy=False), y.astype(found, copy=False), kind


def starts_of(counts: Array, columns: int) -> Array:
    """Where rows of so many elements start: int32, unless elements or columns are too many."""
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found.astype(_SHORT) if max(int(found[-1]), columns) <= _MOST else found


def unit_bounds(ends: Array, serial: int, least: int = 1) -> Array:
    """The first row of each unit of about as much work, and the end of the last.

    Args:
        ends: the work of each row and all before it.
        serial: work below which threads would cost more than they save.
        least: the work for which it is worth to have more units than threads.
    """
    total, threads = int(ends[-1]) if len(ends) else 0, get_num_threads()
    many = min(16 * threads, max(threads, total // max(1, least)))
    units = 1 if total < serial else many
    shares = np.arange(1, units) * (total / units)
    return np.concatenate([[0], np.searchsorted(ends, shares), [len(ends)]]).astype(np.int64)
