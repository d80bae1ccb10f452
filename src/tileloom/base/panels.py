"""Matrices laid out as panels, the order in which matrix products read them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def pack_panels(matrix: Array, transposed: bool, width: int) -> Array:
    """A matrix [depth, columns] as panels [ceil(columns / width), depth, width].

    Panel p holds columns `p * width` to `p * width + width - 1`; beyond the matrix it is zero.

    Args:
        matrix: [depth, columns], or [columns, depth] when `transposed`.
        width: the columns of a panel, at least 1.

    >>> pack_panels(np.arange(6).reshape(2, 3), False, 2).tolist()
    [[[0, 1], [3, 4]], [[2, 0], [5, 0]]]
    """
    rows = matrix if transposed else matrix.T
    columns, depth = rows.shape
    count = -(-columns // width)
    panels = np.zeros((count, depth, width), matrix.dtype)
    whole = columns // width
    panels[:whole] = rows[: whole * width].reshape(whole, width, depth).swapaxes(1, 2)
    if whole < count:
        panels[whole, :, : columns - whole * width] = rows[whole * width :].T
    return panels
