"""Sums of many floats: their error does not grow, and threads do not change them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.base.settings import override

TENTH = np.float32(0.1)  # in a running sum, each addition of it rounds the same way


def error(got: object, exact: object) -> float:
    """The largest relative error."""
    value = np.asarray(exact, "float64")
    return float(np.max(np.abs(np.asarray(got, "float64") - value) / np.abs(value)))


@pytest.mark.parametrize("n", [10**3, 10**4, 10**5, 10**6, 10**7, 10**8])
def test_the_error_of_a_sum_does_not_grow(n: int) -> None:
    result = tileloom.jit(lambda x: np.sum(np.broadcast_to(x, (n,)) * np.float32(1)))(TENTH)
    assert error(result, n * float(TENTH)) < 1e-6


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((10**6, 3), 0),
        ((3, 10**6), 1),
        ((1009, 5, 1013), (0, 2)),
        ((20011, 33), 0),
        ((7, 99991), 1),
    ],
)
def test_rows_and_columns(shape: tuple[int, ...], axis: int) -> None:
    values = np.full(shape, TENTH)
    result = tileloom.jit(lambda x: np.sum(x, axis=axis))(values)
    assert error(result, values.sum(axis, dtype="float64")) < 1e-6


def test_variance_far_from_zero() -> None:
    values = (np.random.default_rng(0).random(10**7) + 1000).astype("float32")
    exact = values.astype("float64")
    mean, variance = tileloom.jit(lambda x: (np.mean(x), np.var(x)))(values)
    assert error(mean, exact.mean()) < 1e-7
    assert error(variance, exact.var()) < 1e-4


def test_sizes_that_are_not_known() -> None:
    shapes = {"x": {0: tileloom.Dim("n"), 1: tileloom.Dim("m")}}
    total = tileloom.jit(lambda x: (np.sum(x), np.sum(x, 0), np.sum(x, 1)), dynamic_shapes=shapes)
    for n, m in ((1, 1), (200_003, 5), (3, 300_007), (1000, 1001)):
        for got, axis in zip(total(np.full((n, m), TENTH)), (None, 0, 1), strict=True):
            exact = np.full((n, m), float(TENTH)).sum(axis)
            assert error(got, exact) < 1e-6


def softmax(x: np.ndarray) -> Any:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ((3_000_017,), np.sum),
        ((1_000_003, 3), lambda x: np.sum(x, axis=0)),
        ((40, 200_003), lambda x: np.mean(x, axis=1)),
        ((2, 800_009), softmax),
        ((2003, 503), lambda x: (np.sum(x), np.sum(x, axis=0), np.sum(x * x, axis=1))),
    ],
)
def test_threads_do_not_change_a_sum(
    shape: tuple[int, ...], function: Callable[..., object]
) -> None:
    values = np.random.default_rng(1).random(shape, "float32")
    found = []
    for threads in (1, 2, 3, 8):
        with override(num_threads=threads):
            result = tileloom.jit(function)(values)
        found.append(result if isinstance(result, tuple) else (result,))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "axis"), [((300_007,), 0), ((3000, 3), 0), ((3, 20_011), 1)])
def test_on_a_gpu(shape: tuple[int, ...], axis: int) -> None:
    values = np.full(shape, TENTH)
    result = tileloom.jit(lambda x: np.sum(x, axis=axis), target="cuda", device="emulator")(values)
    assert error(result, values.sum(axis, dtype="float64")) < 1e-6


@pytest.mark.parametrize(
    ("left", "right"),
    [((1 << 22,), (1 << 22,)), ((3, 1 << 20), (1 << 20, 5)), ((64, 99_991), (99_991, 40))],
)
def test_deep_products(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = np.full(left, TENTH), np.full(right, TENTH)
    exact = left[-1] * float(TENTH) ** 2
    for threads in (1, 2):
        with override(num_threads=threads):
            assert error(tileloom.jit(np.matmul)(a, b), exact) < 3e-5
