"""Which casts keep every value, over all pairs of types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.codegen.emit_expr import _keeps_value

INTEGERS = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize(("source", "target"), itertools.product(INTEGERS, repeat=2))
def test_casts_between_integers(source: str, target: str) -> None:
    a, b = np.iinfo(source), np.iinfo(target)
    keeps = b.min <= a.min and a.max <= b.max
    assert _keeps_value(dtype(source), dtype(target)) == keeps


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("other", ["float32", "float64", "bfloat16"])
def test_casts_of_floats_do_not_count(kind: str, other: str) -> None:
    assert not _keeps_value(dtype(kind), dtype(other))
    assert not _keeps_value(dtype(other), dtype(kind))
