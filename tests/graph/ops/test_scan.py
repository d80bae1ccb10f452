"""Running sums and products: blocks, types, options, special values; all of it compiled."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, close, graph_of, values
from tileloom.base.errors import DTypeError, ShapeError
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.expand import expand

# One element, one block, the first lengths that are cut, a whole number of blocks, three levels.
LENGTHS = [1, 2, 31, 32, 33, 48, 257, 1031]
OPTIONS = [(False, False), (True, False), (False, True), (True, True)]


def compiled(build: Any, *arrays: Any) -> Any:
    return compile_graph(graph_of(build, *arrays))(*arrays)[0]


def by_hand(function: Any, x: Any, axis: Any, exclusive: Any, reverse: Any) -> Any:
    if reverse:
        return np.flip(by_hand(function, np.flip(x, axis), axis, exclusive, False), axis)
    result = function(x, axis=axis, dtype=x.dtype)
    if not exclusive:
        return result
    first = 0 if function is np.cumsum else 1
    result = np.roll(result, 1, axis)
    result[(slice(None),) * axis + (slice(0, 1),)] = first
    return result


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: Any, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, length)
    found = compiled(ops.cumsum, x)
    np.testing.assert_array_equal(found, np.cumsum(x))
    expanded = expand(graph_of(ops.cumsum, x))
    assert all(node.op.compute is not None for node in expanded.nodes)


@pytest.mark.parametrize(("exclusive", "reverse"), OPTIONS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_and_options(
    axis: int, exclusive: Any, reverse: Any, rng: np.random.Generator
) -> None:
    for shape in ((3, 5, 2), (3, 37, 2), (35, 1, 3), (1, 2, 67)):
        x = rng.integers(-3, 4, shape).astype("int32")
        for build, function in ((ops.cumsum, np.cumsum), (ops.cumprod, np.cumprod)):
            rule = lambda t, b=build: b(t, axis, exclusive, reverse)  # noqa: E731
            expected = by_hand(function, x, axis, exclusive, reverse)
            np.testing.assert_array_equal(values(rule, x), expected)
            if shape[axis] < 40:
                np.testing.assert_array_equal(check(rule, x), expected)
    np.testing.assert_array_equal(
        compiled(rule, x), by_hand(np.cumprod, x, axis, exclusive, reverse)
    )


@pytest.mark.parametrize("kind", ["int8", "uint8", "uint64", "float16", ml_dtypes.bfloat16,
                                  "float32", "float64"], ids=str)  # fmt: skip
def test_types(kind: Any, rng: np.random.Generator) -> None:
    x = (rng.random((3, 100)) * 50).astype(kind)
    found, expected = compiled(lambda t: ops.cumsum(t, 1), x), values(lambda t: ops.cumsum(t, 1), x)
    close(found, expected)  # integers wrap around


def test_narrow_floats_are_summed_in_float32() -> None:
    x = np.full(5000, 0.5, "float16")
    found = compiled(ops.cumsum, x)
    assert found[-1] == 2500  # in float16 the sum would stop at 1024


def test_special_values_stay_where_they_are() -> None:
    x = np.zeros(70, "float32")
    x[[40, 50]] = np.inf, -np.inf
    found = compiled(ops.cumsum, x)
    assert not found[:40].any() and np.isposinf(found[40:50]).all() and np.isnan(found[50:]).all()
    x = np.ones(70, "float32")
    x[[33, 60]] = 0, np.nan
    found = compiled(ops.cumprod, x)
    assert (found[:33] == 1).all() and not found[33:60].any() and np.isnan(found[60:]).all()


def test_long_sums_lose_no_digits() -> None:
    x = np.full(100_000, 0.1, "float32")
    exact = np.cumsum(x.astype("float64"))
    np.testing.assert_allclose(compiled(ops.cumsum, x), exact, rtol=1e-6)


def test_of_nothing_and_mistakes() -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        assert check(lambda t: ops.cumsum(t, -1), np.zeros(shape)).shape == shape
    with pytest.raises(ShapeError, match="cumsum: axis 1"):
        values(lambda t: ops.cumsum(t, 1), np.zeros(3))
    with pytest.raises(ShapeError, match="cumsum: axis 0"):
        values(ops.cumsum, np.zeros(()))
    with pytest.raises(DTypeError, match="cumsum"):
        values(ops.cumsum, np.zeros(3, bool))
