"""The largest and smallest elements: by counting, one by one, on the host."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, close, graph_of, values
from sampling import sampled
from tileloom.base.errors import ShapeError
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.expand import expand

KINDS = ["float32", "float64", "float16", ml_dtypes.bfloat16, "int8", "uint8", "int64", "uint64"]


def compiled(build: Any, x: Any) -> Any:
    return compile_graph(graph_of(build, x))(x)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", sampled(KINDS, 3), ids=str)
@pytest.mark.parametrize(("extent", "k"), [(1, 1), (7, 3), (64, 64), (65, 2)])
def test_types(extent: int, k: int, kind: Any, largest: bool, rng: np.random.Generator) -> None:
    x = rng.integers(0, 40, (3, extent)).astype(kind)  # with ties
    build = lambda t: list(ops.topk(t, k, 1, largest))  # noqa: E731
    expected = values(build, x)
    for a, b in zip(compiled(build, x), expected, strict=True):
        close(a, b)
    order = np.argsort(-x.astype("int64") if largest else x.astype("int64"), 1, kind="stable")
    np.testing.assert_array_equal(expected[1], order[:, :k])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("extent", "k"), [(12, 8), (70, 4)])
def test_special_values(extent: int, k: int, largest: bool, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, extent)).astype("float32")
    x[0, [1, 5, 7, 9]] = np.inf, -np.inf, np.nan, np.nan
    x[1] = np.nan
    x[1, [3, 4, 6]] = -np.inf, np.inf, -np.inf  # fewer numbers than are asked for
    build = lambda t: list(ops.topk(t, k, 1, largest))  # noqa: E731
    expected = check(build, x) if extent < 20 else values(build, x)
    for a, b in zip(compiled(build, x), expected, strict=True):
        close(a, b)


def test_infinities_alone() -> None:
    for extent in (5, 80):
        for value in (-np.inf, np.inf, np.nan):
            x = np.full(extent, value)
            for largest in (True, False):
                found = compiled(lambda t, g=largest: list(ops.topk(t, 2, 0, g)), x)
                assert found[1].tolist() == [0, 1]
                np.testing.assert_array_equal(found[0], x[:2])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_axes(axis: int, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 6, 7))
    found = check(lambda t: list(ops.topk(t, 4, axis)), x)
    np.testing.assert_array_equal(found[0], np.take(-np.sort(-x, axis), range(4), axis))


def test_which_way() -> None:
    def name(extent: int, k: int, kind: str = "float32") -> str:
        graph = graph_of(lambda t: list(ops.topk(t, k)), np.zeros((2, extent), kind))
        return graph.nodes[0].op.name

    assert [name(64, 64), name(1000, 8), name(1000, 9), name(9, 2, "bool"), name(9, 0)] == [
        "topk_few", "topk_few", "topk", "topk", "topk",
    ]  # fmt: skip
    simple = expand(graph_of(lambda t: list(ops.topk(t, 2)), np.zeros((2, 100))))
    assert all(node.op.compute is not None for node in simple.nodes)


def test_mistakes_are_told() -> None:
    with pytest.raises(ShapeError, match="topk: cannot take 4 elements along axis 0"):
        values(lambda t: list(ops.topk(t, 4)), np.zeros(3))
    with pytest.raises(ShapeError, match="topk: axis 1"):
        values(lambda t: list(ops.topk(t, 1, 1)), np.zeros(3))
