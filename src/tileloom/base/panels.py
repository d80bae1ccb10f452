"""Matrices laid out as panels, the order in which matrix products read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .aligned import aligned_zeros

Array = np.ndarray[Any, Any]


def pack_panels(
    matrix: Array, transposed: bool, width: int, parts: int = 1, unit: int = 1
) -> Array:
    """A matrix [depth, columns] as panels [ceil(columns / width), depth, width].

    Panel p holds columns `p * width` to `p * width + width - 1`; beyond the matrix it is zero.

    Args:
        matrix: [depth, columns], or [columns, depth] when `transposed`.
        width: the columns of a panel, at least 1.
        parts: where there are several, so many neighbours along the depth become an int32 word, the
            first in its lowest bits; panels are [..., words, width].
        unit: of words along the depth there is a multiple of so many.

    >>> pack_panels(np.arange(6).reshape(2, 3), False, 2).tolist()
    [[[0, 1], [3, 4]], [[2, 0], [5, 0]]]
    >>> pack_panels(np.array([[1], [2], [3]], "int8"), False, 1, parts=4, unit=2).tolist()
    [[[197121], [0]]]
    """
    rows = matrix if transposed else matrix.T
    if parts > 1:
        rows = _words(rows, parts, unit)
    columns, depth = rows.shape
    count = -(-columns // width)
    panels = aligned_zeros((count, depth, width), rows.dtype)
    whole = columns // width
    panels[:whole] = rows[: whole * width].reshape(whole, width, depth).swapaxes(1, 2)
    if whole < count:
        panels[whole, :, : columns - whole * width] = rows[whole * width :].T
    return panels


def pack_words(weight: Array, parts: int) -> Array:
    """Weights [outputs, channels, window...] with so many channels at a time in int32 words.

    >>> pack_words(np.array([[[1], [2], [3]]], "int8"), 4).tolist()
    [[[197121]]]
    """
    last = np.moveaxis(weight, 1, -1)
    words = _words(last.reshape(-1, last.shape[-1]), parts, 1)
    return np.ascontiguousarray(np.moveaxis(words.reshape(*last.shape[:-1], -1), -1, 1))


def _words(rows: Array, parts: int, unit: int) -> Array:
    """Neighbours in a row as words, filled up with zeros."""
    count, depth = rows.shape
    filled = np.zeros((count, -(-depth // (parts * unit)) * unit * parts), rows.dtype)
    filled[:, :depth] = rows
    return filled.view("<i4")
