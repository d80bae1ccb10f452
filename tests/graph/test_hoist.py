"""What depends on static inputs alone, taken out of graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.graph import ops
from tileloom.graph.hoist import hoist
from tileloom.graph.machine import Machine
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run

MACHINE = Machine(512)


def tensor(name: str, *shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def check(graph: Graph, static: list[int], kind: str = "float32") -> tuple[list[str], list[Any]]:
    """Both halves together give what the graph gives; the names of their ops."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(t.shape).astype(kind) for t in graph.inputs]
    found = hoist(graph, static, MACHINE)
    made = [run(each.graph, [given[k] for k in each.reads])[0] for each in found.preparations]
    got = run(found.graph, [*(given[k] for k in found.kept), *made])
    for a, b in zip(got, run(graph, given), strict=True):
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), 1e-4, 1e-4)
    inner = [[node.op.name for node in each.graph.nodes] for each in found.preparations]
    return [node.op.name for node in found.graph.nodes], inner


def test_a_scale_of_a_variance() -> None:
    x, w, v = tensor("x", 8, 5), tensor("w", 5), tensor("v", 5)
    scale = ops.mul(w, ops.rsqrt(ops.add(ops.square(v), 1.0)))
    rest, inner = check(Graph([x, w, v], [ops.mul(x, scale)]), [1, 2])
    assert rest == ["mul"]
    assert len(inner) == 1
    assert "rsqrt" in inner[0]


@pytest.mark.parametrize("columns", [33, 8, 1])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_packed_product(columns: int, transposed: bool) -> None:
    shape = (columns, 7) if transposed else (7, columns)
    x, w = tensor("x", 2, 13, 7), tensor("w", *shape)
    graph = Graph([x, w], [ops.relu(ops.matmul(x, w, transpose_b=transposed))])
    rest, inner = check(graph, [1])
    assert ("packed_matmul" in rest) == bool(inner)
    if columns > 1:
        assert inner == [["pack_panels"]]
    assert "packed_matmul" not in check(graph, [])[0]


def test_a_weight_read_twice_is_packed_once() -> None:
    x, w = tensor("x", 13, 24), tensor("w", 24, 24)
    once = ops.tanh(ops.matmul(x, w))
    rest, inner = check(Graph([x, w], [ops.matmul(once, w)]), [1])
    assert rest.count("packed_matmul") == 2
    assert inner == [["pack_panels"]]


def test_repetitions_and_large_products_stay() -> None:
    x, w, v = tensor("x", 600, 600), tensor("w", 600), tensor("v", 600, 600)
    wide = ops.broadcast_to(w, (600, 600))
    assert check(Graph([x, w], [ops.sub(x, ops.exp(wide))]), [1])[1] in ([], [["exp"]])
    deep = ops.reshape(ops.matmul(v, v), (360000,))
    huge = ops.matmul(ops.reshape(w, (600, 1)), ops.reshape(w, (1, 600)))
    rest, _ = check(Graph([x, w, v], [ops.add(x, huge), deep]), [1, 2])
    assert rest


def test_what_is_an_output_or_an_input_only() -> None:
    x, w = tensor("x", 3), tensor("w", 3, 4)
    graph = Graph([x, w], [ops.exp(x), ops.transpose(w), w, ops.reshape(w, (12,)), x])
    rest, inner = check(graph, [1])
    assert rest == ["exp", "reshape"] or rest == ["reshape", "exp"]
    assert inner == [["transpose"]]


def test_numbers_between_convolutions_are_in_the_weights() -> None:
    x, w = tensor("x", 1, 4, 5, 5), tensor("w", 4, 4, 1, 1)
    y = ops.mul(ops.add(ops.conv(x, w), 3.0), 0.25)
    rest, inner = check(Graph([x, w], [ops.relu(y)]), [1])
    assert set(rest) <= {"constant", "conv", "add", "mul", "reshape", "relu"}
    assert inner == [["constant", "reshape", "reshape", "mul"]]
    assert rest.count("conv") == 1
    again = hoist(Graph([x], [ops.iota((3,), 0, "float32"), ops.exp(x)]), [], MACHINE)
    assert not again.preparations


def test_nothing_static_changes_nothing() -> None:
    x, w = tensor("x", 8, 5), tensor("w", 5, 6)
    found = hoist(Graph([x, w], [ops.matmul(x, w)]), [], MACHINE)
    assert found.kept == (0, 1)
    assert not found.preparations


def test_rows_of_nothing() -> None:
    x, w = tensor("x", 0, 5), tensor("w", 5, 6)
    check(Graph([x, w], [ops.matmul(x, ops.mul(w, 2.0))]), [1])
