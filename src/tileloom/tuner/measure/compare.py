"""How far a result is from what it should be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: The greatest errors that another order of operations explains, by the type of the result. Sums
#: of products have none at all, as inputs are (see `inputs`); these are for functions and chains.
_TOLERANCES = {
    "float64": 1e-9,
    "float32": 2e-4,
    "float16": 2e-2,
    "bfloat16": 6e-2,
}
_COARSE = 0.25  # of floats of eight bits
_ROUNDINGS = {"float64": 2.0**-53, "float32": 2.0**-24}
_BLOCK = 1 << 15  # elements that are compared at a time
_GROWTH = 0.1  # of the worst case: errors of additions are of both signs


def tolerance(dtype: str, terms: int = 1) -> float:
    """The greatest error that a right result of this element type may have.

    Args:
        terms: of its longest sum, which is added up one after another in one order or another: of
            terms of one sign the error grows with their number.

    >>> tolerance("float32"), tolerance("float32", 1 << 18), tolerance("int8")
    (0.0002, 0.0015625, 0.0)
    """
    known = _TOLERANCES.get(dtype, _COARSE if dtype.startswith("float8") else 0.0)
    return max(known, _GROWTH * terms * _ROUNDINGS.get(dtype, 0.0))


def greatest_error(expected: Array, found: Array) -> float:
    """The greatest difference of two results; of floats, as a part of what is expected.

    That is each element itself, or the mean of all magnitudes where the element is smaller: what
    cancels out is not to be had more exactly than what it was made of. NaN is right where NaN is
    expected, and nowhere else; so is each infinity.

    >>> greatest_error(np.array([2.0, np.nan]), np.array([2.5, np.nan]))
    0.25
    >>> greatest_error(np.array([2.0, 2.0]), np.array([2.0, np.nan]))
    inf
    """
    if _same_bits(expected, found):
        return 0.0
    if expected.dtype.kind in "biu":
        # At least one, where float64 does not tell two large integers apart.
        return max(1.0, *(_greatest(np.abs(a - b)) for a, b in _blocks(expected, found)))
    total, count = 0.0, 0
    for wanted, _ in _blocks(expected, expected):
        sizes = np.abs(wanted[np.isfinite(wanted)])
        total, count = total + float(sizes.sum()), count + sizes.size
    mean = total / count if count else 0.0
    return max((_float_error(*pair, mean) for pair in _blocks(expected, found)), default=0.0)


def _same_bits(a: Array, b: Array) -> bool:
    bits = f"u{a.itemsize}"
    return a.dtype == b.dtype and np.array_equal(a.reshape(-1).view(bits), b.reshape(-1).view(bits))


def _float_error(wanted: Array, given: Array, mean: float) -> float:
    finite = np.isfinite(wanted)
    if not finite.all():
        same = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
        if not same[~finite].all():
            return math.inf
        wanted, given = wanted[finite], given[finite]
    if not np.isfinite(given).all():
        return math.inf
    scale = np.maximum(np.abs(wanted), mean)
    # Where all is to be zero, a difference counts as it is.
    return _greatest(np.abs(wanted - given) / np.where(scale > 0, scale, 1.0))


def _blocks(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """The elements of two arrays in float64, so few at a time that they stay in the caches."""
    flat = a.reshape(-1), b.reshape(-1)
    for start in range(0, a.size, _BLOCK):
        yield tuple(part[start : start + _BLOCK].astype(np.float64) for part in flat)  # type: ignore[misc]


def _greatest(errors: Array) -> float:
    return float(errors.max()) if errors.size else 0.0
