"""What approximations may make of a value."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.simt.approximations import perturbed
from tileloom.target.approximations import APPROXIMATIONS


@pytest.mark.parametrize(("op", "kind"), [key for key in APPROXIMATIONS if key[1] == "float32"])
def test_approximations_stay_within_their_error(op: str, kind: str) -> None:
    """And come near to it, on both sides."""
    found, x = APPROXIMATIONS[op, kind], np.full(4000, 3, kind)
    exact = np.full(4000, 0.75, kind)
    moved = perturbed(np.random.default_rng(0), op, dtype(kind), [x], exact)
    assert moved.dtype == exact.dtype
    most = (found.relative + found.growth * 3) * 0.75 + found.absolute
    off = moved.astype("float64") - 0.75
    assert abs(off).max() <= most + 2**-24
    if most > 2**-21:
        assert off.max() > 0.9 * most - 2**-24 and off.min() < -0.9 * most + 2**-24


def test_what_is_not_approximated() -> None:
    rng, exact = np.random.default_rng(0), np.array([1, np.inf, -np.inf, np.nan], "float32")
    assert perturbed(rng, "tir.unknown", dtype("float32"), [exact], exact) is exact
    x = np.array([1, np.inf, np.nan, 2], "float32")
    with np.errstate(invalid="ignore"):
        found = perturbed(rng, "tir.exp", dtype("float32"), [x], exact)
    assert np.isfinite(found[0]) and found[1:3].tolist() == [np.inf, -np.inf] and np.isnan(found[3])


def test_subnormal_numbers_become_zero() -> None:
    tiny = np.finfo("float32").tiny
    exact = np.array([tiny / 2, -tiny / 2, tiny * 2, 0], "float32")
    found = perturbed(np.random.default_rng(0), "tir.exp", dtype("float32"), [exact], exact)
    assert found.tolist()[:2] == [0, 0] and np.signbit(found).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert found[2] > tiny
