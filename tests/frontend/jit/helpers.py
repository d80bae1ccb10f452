"""What the tests of `jit` share: hard numbers, and comparing by the width of the type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype("float32"), np.dtype("float64"), np.dtype("float16"), BF16)
INTS = tuple(np.dtype(n) for n in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"))
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.25, -7.0, 10.0, 1e-3, -1e-3, 60.0, -60.0,
           np.inf, -np.inf, np.nan]  # fmt: skip
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def check(actual: Any, expected: Any, kind: Any = None, *, scale: float = 1.0) -> None:
    """Compare with a result computed in float64, within the precision of a type."""
    kind = np.dtype(kind if kind is not None else np.asarray(expected).dtype)
    assert actual.dtype == kind, f"{actual.dtype}, expected {kind}"
    assert actual.shape == np.shape(expected)
    if kind.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    tolerance = TOLERANCE[kind.name] * scale
    with np.errstate(over="ignore"):
        rounded = np.asarray(expected).astype(kind).astype(np.float64)  # overflows as the type does
    np.testing.assert_allclose(actual.astype(np.float64), rounded, rtol=tolerance, atol=tolerance)


def wide(array: Any) -> Any:
    """Narrow floats as float64."""
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype == BF16 or array.dtype.kind == "f" else array
