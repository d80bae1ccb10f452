"""What `-fast-math` may make of a function's value: any number within the error that is stated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import DType
from ..target.approximations import APPROXIMATIONS
from .thread_batch import Array

Random = np.random.Generator


def perturbed(random: Random, op: str, kind: DType, values: list[Any], exact: Array) -> Array:
    """The values of an operation, off by at most what its approximation may be off.

    >>> from ..base import dtype
    >>> x = np.full(1000, 2, np.float32)
    >>> y = perturbed(np.random.default_rng(0), "tir.tanh", dtype("float32"), [x], np.tanh(x))
    >>> error = abs(y / np.tanh(x) - 1).max()
    >>> bool(2**-13 < error <= 2**-11 + 2**-23)
    True
    """
    found = APPROXIMATIONS.get((op, str(kind.element)))
    if found is None:
        return exact
    wide = exact.astype(np.float64)
    size = np.abs(np.asarray(values[0], np.float64))
    relative = found.relative + found.growth * np.where(np.isfinite(size), size, 0)
    off = relative * np.abs(wide) + found.absolute
    moved = wide + random.uniform(-1, 1, wide.shape) * off
    moved = np.where(np.isfinite(wide), moved, wide).astype(exact.dtype)
    return np.asarray(np.where(_flushed(exact, kind), np.copysign(0, exact), moved))


def _flushed(values: Array, kind: DType) -> Array:
    """Which values are subnormal numbers, as far as those become zero."""
    tiny = np.finfo(np.float32).tiny if kind.bits == 32 else 0.0
    return np.asarray(np.abs(values.astype(np.float64)) < tiny)
