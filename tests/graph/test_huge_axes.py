"""Axes of 2**31 elements and more: what counts, walks and reads them does so in 64 bits.

The arrays are broadcast inside the program, or never touched but for a few pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom import jit

EDGE = 1 << 31
FAR = EDGE + 5


def spread(count: int) -> Callable[[Any], Any]:
    """A number repeated, which takes no memory."""
    return lambda a: np.broadcast_to(a, (count,))


@pytest.fixture(scope="module")
def sparse() -> np.ndarray[Any, Any]:
    """More than 2**31 bytes, all zero but for one near the end."""
    result = np.zeros(FAR, np.int8)
    result[-2] = 3
    return result


def test_a_sum_over_more_than_32_bits() -> None:
    assert jit(lambda a: np.sum(np.broadcast_to(a, (FAR,))))(np.float64(1)) == FAR


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint32, np.uint64])
def test_places_read_beyond_the_edge(sparse: Any, kind: Any) -> None:
    places = np.array([FAR - 2, 5, EDGE + 1, FAR - 1, 0], np.int64)
    places = places[places <= np.iinfo(kind).max].astype(kind)
    found = jit(lambda x, i: np.take(x, i, axis=0))(sparse, places)
    np.testing.assert_array_equal(found, sparse[places])


def test_places_beyond_the_end(sparse: Any) -> None:
    take = jit(lambda x, i: np.take(x, i, axis=0))
    for place in (FAR, -FAR - 1, FAR + 2 * EDGE - 2):
        with pytest.raises(IndexError, match=f"out of range for axis 0 with extent {FAR}"):
            take(sparse, np.array([3, place]))


def test_places_from_the_end(sparse: Any) -> None:
    places = np.array([-2, -1, -FAR])
    found = jit(lambda x, i: np.take(x, i, axis=0))(sparse, places)
    np.testing.assert_array_equal(found, sparse[places])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[EDGE - 3 :] * 2,
        lambda x: x[::-1][:4] + 1,
        lambda x: np.reshape(x[: FAR - 5], (1 << 16, 1 << 15))[-1, -3:],
        lambda x: np.reshape(x[5:], (1 << 16, -1))[-1:, -3:],
        lambda x: np.concatenate([x[-3:], x[:2]]),
    ],
)
def test_pieces_beyond_the_edge(sparse: Any, function: Any) -> None:
    np.testing.assert_array_equal(jit(function)(sparse), function(sparse))


def test_rows_that_only_together_are_beyond_the_edge() -> None:
    """70,000 x 70,000 sums, of which one column is asked for."""
    a, b = np.arange(70000, dtype=np.int64), np.arange(70000, dtype=np.int64) * 2

    def function(a: Any, b: Any) -> Any:
        return (np.reshape(a, (-1, 1)) + np.reshape(b, (1, -1)))[69990:, 69999]

    np.testing.assert_array_equal(jit(function)(a, b), a[69990:] + b[69999])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda a: np.sum(np.broadcast_to(a, (2 * EDGE + 4,))), 2 * EDGE + 4),
        (lambda a: np.mean(np.broadcast_to(a, (FAR,))), 1),
        (lambda a: np.max(np.broadcast_to(a, (FAR,))), 1),
        (lambda a: np.argmax(np.broadcast_to(a, (FAR,))), 0),
        (lambda a: np.any(np.broadcast_to(a, (FAR,)) > 1), False),
        (lambda a: np.sum(np.broadcast_to(a, (70000, 70000)), axis=0)[-2:], 70000),
        (lambda a: np.sum(np.broadcast_to(a, (70000, 70000)), axis=1)[-2:], 70000),
        (lambda a: np.sum(np.broadcast_to(a, (3, EDGE // 2)) + a), 3 * EDGE),
    ],
)
def test_reductions_of_a_number_repeated(function: Any, wanted: float) -> None:
    np.testing.assert_array_equal(jit(function)(np.float64(1)), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (np.max, 3),
        (np.argmax, FAR - 2),
        (lambda x: np.sum(x.astype("int64")), 3),
        (lambda x: np.any(x > 2), True),
        (lambda x: np.max(np.reshape(x[5:], (1 << 16, 1 << 15)), axis=1)[-2:], [0, 3]),
        (lambda x: np.argmax(np.reshape(x[5:], (1 << 15, 1 << 16)), axis=0)[-3:], [0, 32767, 0]),
    ],
)
def test_reductions_of_what_is_in_memory(sparse: Any, function: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(jit(function)(sparse), wanted)


@pytest.mark.slow
def test_the_place_of_the_greatest_sum() -> None:
    a = np.arange(70000, dtype=np.int32)

    def function(a: Any) -> Any:
        return np.argmax(np.reshape(a, (-1, 1)) + np.reshape(a, (1, -1)))

    assert jit(function)(a) == 70000 * 70000 - 1
