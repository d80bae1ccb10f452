"""Scales of channels folded into the weights of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom.graph import ops
from tileloom.graph.fold_scales import fold_scales
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run

Steps = Callable[..., Tensor]


def tensor(name: str, *shape: int, kind: str = "float64") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def graph_of(steps: Steps, kind: str = "float64", groups: int = 1) -> Graph:
    x, w = tensor("x", 2, 4, 6, 6, kind=kind), tensor("w", 8, 4 // groups, 3, 3, kind=kind)
    a, b = tensor("a", 8, 1, 1, kind=kind), tensor("b", 1, 8, 1, 1, kind=kind)
    y = ops.conv(x, w, groups=groups)
    made: Any = steps(y, a, b)
    outputs = list(made) if isinstance(made, tuple) else [made]
    return Graph([x, w, a, b], outputs)


def folded(graph: Graph) -> list[str]:
    """The ops that are left of what depends on the data, after a comparison with the graph."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.inputs]
    better = fold_scales(graph, set(graph.inputs[1:]))
    for got, wanted in zip(run(better, given), run(graph, given), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
    live = {graph.inputs[0]}
    names = []
    for node in better.nodes:
        if live & set(node.inputs):
            live.update(node.outputs)
            names.append(node.op.name)
    return names


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_normalization_is_one_addition(groups: int) -> None:
    def steps(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return ops.relu(ops.add(ops.mul(ops.sub(ops.add(b, y), a), b), a))

    assert folded(graph_of(steps, groups=groups)) == ["conv", "add", "relu"]


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        (lambda y, a, b: ops.mul(ops.mul(a, y), b), ["conv"]),
        (lambda y, a, b: ops.add(ops.mul(y, 3.0), a), ["conv", "add"]),
        (lambda y, a, b: ops.mul(ops.add(y, 2.0), a), ["conv", "add"]),
        (lambda y, a, b: ops.mul(ops.sub(y, a), b), ["conv", "add"]),
        # what is left as it is
        (lambda y, a, b: ops.add(y, a), ["conv", "add"]),
        (lambda y, a, b: ops.mul(ops.sub(a, y), b), ["conv", "sub", "mul"]),
        (lambda y, a, b: ops.mul(y, y), ["conv", "mul"]),
        (lambda y, a, b: (ops.mul(y, a), y), ["conv", "mul"]),
        (lambda y, a, b: ops.add(ops.mul(y, a), ops.mul(y, b)), ["conv", "mul", "mul", "add"]),
    ],
)
def test_what_is_folded(steps: Steps, left: list[str]) -> None:
    assert folded(graph_of(steps)) == left


def test_scales_of_rows_and_larger_results_stay() -> None:
    x, w = tensor("x", 1, 4, 6, 6), tensor("w", 4, 4, 3, 3)
    row, more = tensor("row", 4), tensor("more", 3, 1, 1, 1)
    for operand, shape in ((row, (1, 4, 4, 4)), (more, (3, 4, 4, 4))):
        graph = Graph([x, w, operand], [ops.mul(ops.conv(x, w), operand)])
        assert graph.outputs[0].shape == shape
        assert folded(graph) == ["conv", "mul"]


def test_two_convolutions_one_after_the_other() -> None:
    x, w, s = tensor("x", 1, 4, 7, 7), tensor("w", 4, 4, 3, 3), tensor("s", 4, 1, 1)
    first = ops.relu(ops.mul(ops.conv(x, w), s))
    graph = Graph([x, w, s], [ops.mul(ops.conv(first, w), s)])
    assert folded(graph) == ["conv", "relu", "conv"]


def test_narrow_weights_stay() -> None:
    graph = graph_of(lambda y, a, b: ops.mul(y, a), kind="float16")
    assert fold_scales(graph, set(graph.inputs[1:])) is graph


def test_what_varies_stays() -> None:
    graph = graph_of(lambda y, a, b: ops.mul(y, a))
    assert fold_scales(graph, {graph.inputs[1]}) is graph
    assert fold_scales(graph, set(graph.inputs[2:])) is graph
