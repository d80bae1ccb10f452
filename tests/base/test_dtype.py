"""Integers reduced to their types, by plain arithmetic."""

from __future__ import annotations

import pytest

from tileloom.base import dtype
from tileloom.base.dtype import wrap_int


@pytest.mark.parametrize(
    "name", ["int4", "uint4", "int8", "uint8", "int16", "int32", "int64", "uint64"]
)
def test_integers_wrap(name: str) -> None:
    bits, signed = dtype(name).bits, name.startswith("i")
    low = -(1 << bits - 1) if signed else 0
    for value in (0, 1, -1, 2, low, low - 1, low + (1 << bits) - 1, low + (1 << bits), 3 << 70):
        assert wrap_int(value, dtype(name)) == (value - low) % (1 << bits) + low


def test_truth_values_are_what_is_not_zero() -> None:
    found = [wrap_int(value, dtype("bool")) for value in (0, 1, 2, 4, -1, 256)]
    assert found == [0, 1, 1, 1, 1, 1]


def test_pointers_stay() -> None:
    assert wrap_int(1 << 63, dtype("handle")) == 1 << 63
    assert wrap_int(-1, dtype("handle")) == -1
