"""Padding against numpy.pad, cutting, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import ShapeError, UserError
from tileloom.graph import ops

MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [((1, 2), (0, 3)), ((0, 0), (2, 0)), ((5, 9), (7, 11))])
def test_modes(mode: Any, pads: Any) -> None:
    x = np.arange(12, dtype="int32").reshape(3, 4)
    np.testing.assert_array_equal(check(lambda t: ops.pad(t, pads, mode), x), np.pad(x, pads, mode))


@pytest.mark.parametrize("mode", MODES)
def test_one_element(mode: Any) -> None:
    x = np.array([5])
    result = check(lambda t: ops.pad(t, [(2, 1)], mode), x)
    np.testing.assert_array_equal(result, np.pad(x, [(2, 1)], mode))


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16, "float32"], ids=str)
def test_fill_values(kind: Any) -> None:
    x = np.ones(2, kind)
    result = check(lambda t: ops.pad(t, [(1, 1)], value=-np.inf), x)
    assert result.astype("float64").tolist() == [-np.inf, 1, 1, -np.inf]


def test_negative_amounts_cut_off() -> None:
    x = np.arange(5)
    assert check(lambda t: ops.pad(t, [(-2, 1)]), x).tolist() == [2, 3, 4, 0]
    assert check(lambda t: ops.pad(t, [(-2, -3)]), x).tolist() == []
    with pytest.raises(ShapeError, match="cuts off more"):
        values(lambda t: ops.pad(t, [(-3, -3)]), x)


def test_nothing_can_be_padded_with_a_constant_only() -> None:
    x = np.zeros((0, 2))
    assert check(lambda t: ops.pad(t, [(1, 1), (0, 0)], value=3.0), x).tolist() == [[3, 3]] * 2
    with pytest.raises(ShapeError, match="nothing to repeat along axis 0"):
        values(lambda t: ops.pad(t, [(1, 1), (0, 0)], "edge"), x)


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="pad: unknown mode 'mirror'"):
        values(lambda t: ops.pad(t, [(1, 1)], "mirror"), np.zeros(3))
    with pytest.raises(ShapeError, match="pad: needs two amounts for each dimension"):
        values(lambda t: ops.pad(t, [(1, 1), (1, 1)]), np.zeros(3))
