"""Floats to integers as GPUs and CPUs' code convert them."""

from __future__ import annotations

import numpy as np

from ..base import DType
from .thread_batch import Array


def to_integers(values: Array, kind: DType) -> Array:
    """Floats without their fractions; what is out of range saturates, NaN becomes 0.

    >>> from tileloom.base import dtype
    >>> to_integers(np.array([1.9, -1.9, 3e9, -np.inf, np.nan]), dtype("int32")).tolist()
    [1, -1, 2147483647, -2147483648, 0]
    """
    whole = np.trunc(np.asarray(values, np.float64))
    limits = np.iinfo(kind.numpy)
    low, high, zero = kind.numpy.type(limits.min), kind.numpy.type(limits.max), kind.numpy.type(0)
    inside = (whole >= float(low)) & (whole < int(high) + 1.0)
    result = np.where(whole > 0, high, np.where(whole < 0, low, zero))
    return np.where(inside, np.where(inside, whole, 0).astype(kind.numpy), result)
