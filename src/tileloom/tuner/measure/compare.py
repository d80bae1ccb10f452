"""How far a result is from what it should be."""

from __future__ import annotations

import math
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
    if expected.dtype.kind in "biu":
        if np.array_equal(expected, found):
            return 0.0
        # At least one, where float64 does not tell two large integers apart.
        return max(1.0, _greatest(np.abs(expected.astype(np.float64) - found.astype(np.float64))))
    wanted, given = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(wanted)
    same = (wanted == given) | (np.isnan(wanted) & np.isnan(given))
    if not (same | (finite & np.isfinite(given))).all():
        return math.inf
    wanted, given = wanted[finite], given[finite]
    sizes = np.abs(wanted)
    scale = np.maximum(sizes, sizes.mean() if sizes.size else 0.0)
    # Where all is to be zero, a difference counts as it is.
    return _greatest(np.abs(wanted - given) / np.where(scale > 0, scale, 1.0))


def _greatest(errors: Array) -> float:
    return float(errors.max()) if errors.size else 0.0
