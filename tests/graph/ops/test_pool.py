"""Pooling: windows by hand, indices, counting of padding, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import check, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.graph import ops

LINE = np.array([[[3, 1, 2, 5, 4]]], "float32")


def test_windows_of_a_line() -> None:
    assert check(lambda x: ops.max_pool(x, [2]), LINE).tolist() == [[[3, 2, 5, 5]]]
    assert check(lambda x: ops.max_pool(x, [2], 2), LINE).tolist() == [[[3, 5]]]
    assert check(lambda x: ops.max_pool(x, [2], 2, ceil_mode=True), LINE).tolist() == [[[3, 5, 4]]]
    assert check(lambda x: ops.max_pool(x, [3], 1, 1), LINE).tolist() == [[[3, 3, 5, 5, 5]]]
    assert check(lambda x: ops.max_pool(x, [2], 1, 0, 2), LINE).tolist() == [[[3, 5, 4]]]
    assert check(lambda x: ops.sum_pool(x, [2], 3), LINE).tolist() == [[[4, 9]]]


@pytest.mark.parametrize("pool", [ops.max_pool, ops.sum_pool])
@pytest.mark.parametrize("kernel", [(1, 1, 1), (3, 1, 2), (2, 4, 3)])
@pytest.mark.parametrize("strides, pads, dilations", [(1, 0, 1), ((2, 1, 3), (1, 0, 2), (1, 2, 1))])
def test_windows_of_a_volume(
    pool: Any,
    kernel: tuple[int, ...],
    strides: int | tuple[int, ...],
    pads: int | tuple[int, ...],
    dilations: int | tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    x = rng.integers(-9, 9, (2, 3, 7, 8, 6)).astype("float32")
    found = check(lambda t: pool(t, kernel, strides, pads, dilations), x)
    rate = (dilations,) * 3 if isinstance(dilations, int) else dilations
    step = (strides,) * 3 if isinstance(strides, int) else strides
    low = (pads,) * 3 if isinstance(pads, int) else pads
    for at in np.ndindex(found.shape):
        ranges = [
            [
                i
                for k in range(kernel[d])
                if 0 <= (i := at[2 + d] * step[d] - low[d] + k * rate[d]) < n
            ]
            for d, n in enumerate(x.shape[2:])
        ]
        window = x[at[0], at[1]][np.ix_(*ranges)]
        assert found[at] == (window.max(initial=-np.inf) if pool is ops.max_pool else window.sum())


def test_a_window_larger_than_the_image_takes_no_memory_of_its_size(
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal((1, 2, 2000, 1)).astype("float32")
    found = values(lambda t: ops.max_pool(t, (500, 501), 2, 250), x)
    assert found.shape == (1, 2, 1001, 1)
    assert found[0, 1, 500, 0] == x[0, 1, 750:1250].max()


def test_padding_never_wins() -> None:
    x = np.full((1, 1, 3), -7, "int8")
    assert check(lambda t: ops.max_pool(t, [2], 1, 1), x).tolist() == [[[-7] * 4]]


def test_means_count_what_is_there() -> None:
    def mean(**more: Any) -> Any:
        return check(lambda x: ops.avg_pool(x, [2], 2, **more), LINE).tolist()[0][0]

    assert mean() == [2, 3.5]
    assert mean(ceil_mode=True) == [2, 3.5, 4]
    assert mean(pads=(1, 0)) == [3, 1.5, 4.5]
    assert mean(pads=(1, 0), count_include_pad=True) == [1.5, 1.5, 4.5]
    # The window past the end counts the padding asked for, not what rounding up added.
    assert mean(ceil_mode=True, count_include_pad=True) == [2, 3.5, 4]


@pytest.mark.parametrize("kind", ["float32", "int8", "float16"])
def test_indices(kind: str, rng: np.random.Generator) -> None:
    x = rng.integers(-5, 5, (2, 3, 5, 4)).astype(kind)
    best, places = check(
        lambda t: ops.max_pool_with_indices(t, (3, 2), 2, (1, 0, 1, 1), ceil_mode=True), x
    )
    np.testing.assert_array_equal(x.reshape(-1)[places], best)
    np.testing.assert_array_equal(
        best, values(lambda t: ops.max_pool(t, (3, 2), 2, (1, 0, 1, 1), ceil_mode=True), x)
    )


def test_indices_of_ties_and_of_the_worst_value() -> None:
    x = np.full((1, 2, 3), -np.inf, "float32")
    _, places = check(lambda t: ops.max_pool_with_indices(t, [3], 3, 1), x)
    assert places.tolist() == [[[0], [3]]]


def test_nan_wins() -> None:
    x = np.array([[[1, np.nan, 3, 2]]], "float32")
    found = check(lambda t: ops.max_pool(t, [2]), x)
    np.testing.assert_array_equal(found, [[[np.nan, np.nan, 3]]])


def test_norms(rng: np.random.Generator) -> None:
    x: Any = rng.standard_normal((2, 3, 4, 5))
    np.testing.assert_allclose(
        check(lambda t: ops.lp_pool(t, (4, 5), p=3), x)[..., 0, 0],
        (np.abs(x) ** 3).sum((2, 3)) ** (1 / 3),
    )


def test_empty_batches() -> None:
    assert check(lambda t: ops.max_pool(t, [2]), np.zeros((0, 2, 3))).shape == (0, 2, 2)
    assert check(lambda t: ops.avg_pool(t, [2]), np.zeros((0, 2, 3))).shape == (0, 2, 2)
    found = check(lambda t: ops.max_pool_with_indices(t, [2]), np.zeros((0, 2, 3), "float32"))
    assert [(part.shape, part.dtype) for part in found] == [((0, 2, 2), "float32"),
                                                            ((0, 2, 2), "int64")]  # fmt: skip


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_every_window_starts_inside(
    kernel: int, stride: int, pads: tuple[int, ...], ceil_mode: bool
) -> None:
    """As many windows as fit; rounded up only where the last starts before the end."""
    for extent in range(3, 8):
        room = extent + sum(pads) - kernel
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= extent + pads[0]:
            count -= 1
        x = np.arange(extent, dtype="float32").reshape(1, 1, extent)
        found = values(lambda t: ops.max_pool(t, [kernel], stride, pads, ceil_mode=ceil_mode), x)
        starts = [k * stride - pads[0] for k in range(count)]
        wanted = [max(i for i in range(s, s + kernel) if 0 <= i < extent) for s in starts]
        assert found[0, 0].tolist() == wanted


def test_mistakes_are_told() -> None:
    with pytest.raises(ShapeError, match="max_pool: a window of 6 does not fit"):
        values(lambda x: ops.max_pool(x, [6]), LINE)
    with pytest.raises(ShapeError, match="max_pool: kernel needs one value for each of 1"):
        values(lambda x: ops.max_pool(x, [2, 2]), LINE)
    with pytest.raises(DTypeError, match="avg_pool: the operand must have a floating-point"):
        values(lambda x: ops.avg_pool(x, [2]), LINE.astype("int32"))
