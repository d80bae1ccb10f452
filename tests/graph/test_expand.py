"""Composite ops replaced by their parts."""

from __future__ import annotations

import numpy as np

from tileloom.graph import ops
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import REGISTRY
from tileloom.graph.run import run


def tensor(*shape: int) -> Tensor:
    return Tensor(tensor_type(shape, "float32"), "x")


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def test_composites_of_composites_are_expanded_too() -> None:
    q = tensor(2, 3)
    graph = Graph([q], [ops.attention(q, q, q)])
    simple = expand(graph)
    assert all(node.op.expand is None for node in simple.nodes)
    assert names(simple).count("matmul") == 2
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(run(graph, [x])[0], run(simple, [x])[0], rtol=1e-6)


def test_a_chain_and_its_consumers_are_rewired() -> None:
    x = tensor(4)
    graph = Graph([x], [ops.neg(ops.silu(ops.softmax(x))), ops.softmax(x)])
    simple = expand(graph)
    assert all(node.op.expand is None for node in simple.nodes)
    value = np.array([1, 2, 3, 4], "float32")
    for a, b in zip(run(graph, [value]), run(simple, [value]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_shared_composites_are_expanded_once() -> None:
    x = tensor(4)
    s = ops.swiglu(x, x)
    assert names(expand(Graph([x], [ops.add(s, s)]))) == ["silu", "mul", "add"]


def test_what_is_to_be_kept_stays() -> None:
    q = tensor(2, 3)
    graph = Graph([q], [ops.attention(q, q, q)])
    assert "softmax" in names(expand(graph, keep=lambda node: node.op.name == "softmax"))
    assert names(expand(graph, keep=lambda node: node.op.name == "attention")) == ["attention"]


def test_simple_graphs_and_their_names_stay_as_they_are() -> None:
    x = tensor(4)
    y = ops.exp(x)
    graph = Graph([x], [y, x], ["result", "same"], "f")
    simple = expand(graph)
    assert simple.outputs == graph.outputs
    assert (simple.output_names, simple.name) == (("result", "same"), "f")


def test_an_expansion_that_is_its_input() -> None:
    """A resize to the same sizes expands to nothing at all."""
    x = tensor(4)
    simple = expand(Graph([x], [ops.neg(ops.resize(x, [4]))]))
    assert names(simple) == ["neg"] and simple.nodes[0].inputs == (x,)


def test_every_op_has_a_way_to_be_computed_or_is_left_to_the_host() -> None:
    for op in REGISTRY.values():
        ways = [op.compute is not None, op.expand is not None]
        assert sum(ways) <= 1, op.name
        assert any(ways) or op.kind == "opaque", op.name
