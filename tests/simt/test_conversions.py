"""Floats to integers."""

from __future__ import annotations

from math import isinf, isnan, trunc

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.simt.conversions import to_integers


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers(kind: str) -> None:
    """Rounded towards zero, saturated, NaN is 0: as Python's whole numbers say."""
    limits = np.iinfo(kind)
    ends = [float(limits.max), float(limits.min), float(limits.max) + 1, float(limits.min) - 1]
    near = [np.nextafter(x, y) for x in ends for y in (-np.inf, np.inf)]
    values = [0.0, 0.5, -0.5, 0.999, 1.0, -1.0, 1.5, -1.5, 1e30, -1e30, np.inf, -np.inf, np.nan]

    def wanted(x: float) -> int:
        if isnan(x):
            return 0
        whole = trunc(x) if not isinf(x) else (1 << 99 if x > 0 else -(1 << 99))
        return min(max(whole, int(limits.min)), int(limits.max))

    given = [*values, *ends, *near]
    found = to_integers(np.array(given), dtype(kind))
    assert found.dtype == np.dtype(kind)
    assert found.tolist() == [wanted(float(x)) for x in given]
