"""Masks of blocks, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base import UserError
from tileloom.sparse.convert import band, butterfly, check_csr


@pytest.mark.parametrize("blocks", [2, 4, 16, 64])
def test_butterflies(blocks: int) -> None:
    """All pairs of each step of a butterfly network, as its figure draws them."""
    expected = np.zeros((blocks, blocks), bool)
    stride = blocks // 2
    while stride:
        for first in range(0, blocks, 2 * stride):
            for offset in range(first, first + stride):
                for row in (offset, offset + stride):
                    expected[row, [offset, offset + stride]] = True
        stride //= 2
    made = butterfly(blocks)
    np.testing.assert_array_equal(made.dense(), expected)
    assert made.indptr.dtype == made.indices.dtype == np.int32
    check_csr(made.indptr, made.indices, (blocks, blocks), sorted=True)


@pytest.mark.parametrize(("blocks", "window"), [(0, 1), (1, 1), (1, 9), (5, 1), (5, 3), (4, 9)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_bands(blocks: int, window: int, symmetric: bool) -> None:
    made = band(blocks, window, symmetric=symmetric, dtype=np.int64)
    row, column = np.indices((blocks, blocks))
    away = column - row
    low = -window if symmetric else -1
    np.testing.assert_array_equal(made.dense(), (away < window) & (away > low))
    assert made.indptr.dtype == made.indices.dtype == np.int64
    check_csr(made.indptr, made.indices, (blocks, blocks), sorted=True)


def test_heads_follow_each_other() -> None:
    one, made = butterfly(8), butterfly(8, heads=3)
    assert made.shape == (3, 8, 8)
    np.testing.assert_array_equal(made.dense(), np.stack([one.dense()] * 3))
    assert band(4, 2, heads=2).dense().shape == (2, 4, 4)


def test_refusals() -> None:
    for blocks, text in ((6, "needs a power of two"), (1, "at least 2 is needed")):
        with pytest.raises(UserError, match=text):
            butterfly(blocks)
    with pytest.raises(UserError, match="window is 0"):
        band(4, 0)
    with pytest.raises(UserError, match="heads is 0"):
        band(4, 1, heads=0)
