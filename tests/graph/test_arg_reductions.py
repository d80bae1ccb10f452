"""The positions of largest and smallest elements, where ties, NaN and worst values decide."""

import numpy as np
import pytest

import tileloom
from tileloom import Dim

SHAPES = [(1,), (7,), (64,), (129,), (1000,), (5, 3), (3, 130), (130, 3), (2, 67, 5), (40, 70)]
LARGE = [(300_001,), (3, 100_003), (100_003, 3)]


def both(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    return np.argmax(x, axis=axis), np.argmin(x, axis=axis)


def check(x: np.ndarray) -> None:
    for axis in range(x.ndim):
        got = tileloom.jit(lambda a, axis=axis: both(a, axis))(x)
        for a, b in zip(got, both(x, axis), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == np.int64


@pytest.mark.parametrize("shape", [*SHAPES, *LARGE])
@pytest.mark.parametrize("fill", ["ties", "nan", "worst", "mixed"])
def test_floats(shape: tuple[int, ...], fill: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 3, shape).astype("float32")
    if fill == "nan":
        x[rng.random(shape) < 0.02] = np.nan
    elif fill == "worst":  # no element is better than what the search begins with
        x[...] = -np.inf
        check(-x)
    elif fill == "mixed":
        x[rng.random(shape) < 0.9] = -np.inf
        x[rng.random(shape) < 0.01] = np.inf
    check(x)


@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float64"]
)
def test_types(kind: str, rng: np.random.Generator) -> None:
    if kind.startswith("float"):
        check(rng.standard_normal((5, 77)).astype(kind))
        return
    limits = np.iinfo(kind)
    check(rng.integers(limits.min, limits.max, (5, 77), dtype=kind, endpoint=True))
    check(np.full((3, 50), limits.min, kind))
    check(np.full((3, 50), limits.max, kind))


def test_open_rows(rng: np.random.Generator) -> None:
    shapes = {"x": {0: Dim("n"), 1: Dim("m")}}
    last = tileloom.jit(lambda x: np.argmax(x, axis=1), dynamic_shapes=shapes)
    for shape in ((1, 1), (3, 5), (2, 64), (7, 1001)):
        x = rng.standard_normal(shape).astype("float32")
        np.testing.assert_array_equal(last(x), np.argmax(x, axis=1))
        x[...] = -np.inf
        np.testing.assert_array_equal(last(x), np.zeros(shape[0]))
