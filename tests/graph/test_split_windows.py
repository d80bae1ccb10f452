"""Windows that are taken apart give what whole ones give; others are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import graph_of
from tileloom import driver
from tileloom.graph import ops
from tileloom.graph.run import run
from tileloom.graph.split_windows import split_windows
from tileloom.target import Target


def split(build: Any, *arrays: Any) -> Any:
    """The graph taken apart, after checking its references against those of the whole one."""
    graph = graph_of(build, *arrays)
    apart = split_windows(graph)
    (want,), (found,) = run(graph, list(arrays)), run(apart, list(arrays))
    assert found.shape == want.shape and found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)
    return apart


def names(graph: Any, name: Any) -> Any:
    return [node for node in graph.nodes if node.op.name == name]


@pytest.mark.parametrize("pool", [ops.max_pool, ops.sum_pool])
@pytest.mark.parametrize(
    ("shape", "kernel", "rest"),
    [
        ((2, 3, 11, 13), (5, 5), (1, 2)),
        ((1, 1, 7, 6), (4, 5), (3, (2, 0, 1, 3))),
        ((2, 1, 5, 6, 7), (3, 3, 3), (2, 1)),
        ((1, 2, 9, 11), (4, 4), ((2, 3), 1, (2, 1), True)),
        ((0, 2, 9, 9), (5, 5), ()),
        ((1, 1, 6, 5, 7), (4, 4, 4), (1, 2, 1)),
    ],
)
def test_pooling(
    pool: Any,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    rest: tuple[Any, ...],
    rng: np.random.Generator,
) -> None:
    x = rng.integers(-9, 10, shape).astype("float32")
    apart = split(lambda a: pool(a, kernel, *rest), x)
    assert all(min(node.attrs["kernel"]) == 1 for node in apart.nodes) and len(apart.nodes) > 1
    assert split_windows(apart) is apart


def test_nan_wins_a_maximum_in_parts_too(rng: np.random.Generator) -> None:
    x = rng.random((1, 2, 9, 9)).astype("float32")
    x[0, 0, 4, 4] = np.nan
    graph = graph_of(lambda a: ops.max_pool(a, (5, 5), 1, 2), x)
    (found,) = driver.compile_graph(graph)(x)
    (want,) = run(graph, [x])
    np.testing.assert_array_equal(found, want)
    assert np.isnan(found).sum() == 25


@pytest.mark.parametrize(
    ("shape", "weight", "rest"),
    [
        ((1, 16, 6, 7, 5), (4, 16, 3, 3, 3), (1, 1)),
        ((2, 16, 7, 6), (5, 16, 5, 3), ((1, 2), (3, 0, 1, 2))),
        ((1, 32, 8, 9), (8, 16, 3, 3), (1, (0, 2, 0, 1), (2, 1), 2)),
        ((1, 40, 5), (4, 40, 4), (1, (5, 0))),
        ((1, 32, 3, 4), (4, 32, 3, 2), ()),
    ],
)
def test_convolutions(
    shape: tuple[int, ...], weight: tuple[int, ...], rest: tuple[Any, ...], rng: np.random.Generator
) -> None:
    arrays = [rng.integers(-4, 5, s).astype("float32") for s in (shape, weight)]
    apart = split(lambda a, b: ops.conv(a, b, None, *rest), *arrays)
    (conv,) = names(apart, "conv")
    assert conv.inputs[1].shape[2] == 1 and conv.inputs[1].type.size == arrays[1].size
    assert split_windows(apart) is apart


def test_a_convolution_in_parts_as_machine_code(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 16, 6, 7, 5)).astype("float32")
    w = rng.standard_normal((6, 16, 3, 3, 3)).astype("float32")
    graph = graph_of(lambda a, b: ops.relu(ops.conv(a, b, pads=1)), x, w)
    (found,) = driver.compile_graph(graph)(x, w)
    (want,) = run(graph, [x, w])
    np.testing.assert_allclose(found, want, atol=2e-4)
    steps: dict[Any, Any] = {}
    driver.plan_graph(graph, Target.host(), watch=steps.setdefault)
    assert "windows split" in steps


@pytest.mark.parametrize(
    ("build", "shapes", "kind"),
    [
        (lambda a: ops.max_pool(a, (3, 3)), [(1, 2, 9, 9)], "float32"),  # small
        (lambda a: ops.max_pool(a, (1, 25)), [(1, 2, 9, 30)], "float32"),  # a row already
        (lambda a: ops.sum_pool(a, (5, 5)), [(1, 2, 9, 9)], "float16"),  # sums would be rounded
        (lambda a, b: ops.conv(a, b), [(1, 16, 7, 6), (4, 16, 3, 3)], "bfloat16"),
        (lambda a, b: ops.conv(a, b, strides=2), [(1, 16, 7, 6), (4, 16, 3, 3)], "float32"),
        (lambda a, b: ops.conv(a, b), [(1, 16, 7, 6), (32, 16, 3, 3)], "float32"),  # many channels
        (lambda a, b: ops.conv(a, b), [(1, 64, 7, 6), (8, 64, 1, 3)], "float32"),  # no first tap
    ],
)
def test_what_is_left_alone(build: Any, shapes: list[tuple[int, ...]], kind: str) -> None:
    kind = __import__("ml_dtypes").bfloat16 if kind == "bfloat16" else kind
    graph = graph_of(build, *(np.zeros(shape, kind) for shape in shapes))
    assert split_windows(graph) is graph
