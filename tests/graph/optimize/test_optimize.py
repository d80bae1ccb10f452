"""Folding, sharing and dropping."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import folding, freeze, optimize
from tileloom.graph.run import run


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def names(*outputs: Tensor, inputs: tuple[Tensor, ...] = ()) -> list[str]:
    return [node.op.name for node in optimize(Graph(inputs, outputs)).nodes]


def test_equal_nodes_are_shared() -> None:
    x = tensor(3)
    assert names(ops.add(ops.exp(x), ops.exp(x))) == ["exp", "add"]
    a, b = ops.mul(x, ops.exp(x)), ops.mul(ops.exp(x), x)
    assert names(ops.sub(a, b)) == ["exp", "mul", "sub"]
    assert names(ops.sub(x, ops.exp(x)), ops.sub(ops.exp(x), x)) == ["exp", "sub", "sub"]


def test_attributes_tell_nodes_apart() -> None:
    x = tensor(3, 3)
    assert names(ops.sum(x, 0), ops.sum(x, 1), ops.sum(x, 0)) == ["reduce_sum"] * 2
    assert names(ops.cast(x, "int32"), ops.cast(x, "int64")) == ["cast"] * 2
    zero, minus = (ops.pad(x, [(1, 1), (0, 0)], value=v) for v in (0.0, -0.0))
    assert names(zero, minus) == ["pad", "pad"]
    assert names(ops.pad(x, [(1, 1), (0, 0)], value=0.0), zero) == ["pad"]


def test_constants_are_folded() -> None:
    c = ops.constant(np.arange(4, dtype="f4"))
    graph: Any = optimize(Graph([], [ops.add(ops.exp(c), ops.reshape(ops.sum(c), (1,)))]))
    assert [node.op.name for node in graph.nodes] == ["constant"]
    np.testing.assert_allclose(graph.outputs[0].value, np.exp(np.arange(4)) + 6, rtol=1e-6)


def test_growing_constants_are_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "REPEAT_LIMIT", 100)
    c = ops.constant(np.ones((1, 4), "f4"))
    assert names(ops.broadcast_to(c, (3, 4))) == ["constant"]
    assert names(ops.broadcast_to(c, (300, 4))) == ["constant", "broadcast_to"]


def test_folding_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLD_STEPS", 1000)
    monkeypatch.setattr(folding, "FOLD_STEPS_EACH", 0)
    c = ops.constant(np.arange(100, dtype="f4"))
    values = [ops.exp(ops.mul(c, float(k))) for k in range(1, 20)]
    graph = optimize(Graph([], [ops.concat(values, 0)]))
    left = [node.op.name for node in graph.nodes].count("exp")
    assert 0 < left < 19
    assert [node.op.name for node in optimize(Graph([], [values[0]])).nodes] == ["constant"]
    np.testing.assert_array_equal(run(graph, [])[0], run(Graph([], [ops.concat(values, 0)]), [])[0])


def test_the_budget_grows_with_the_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLD_STEPS", 0)
    c = ops.constant(np.arange(100, dtype="f4"))
    chain = ops.cast(ops.transpose(ops.reshape(c, (10, 10))), "float16")
    assert names(chain) == ["constant"]


def test_windows_count_as_what_they_read() -> None:
    image = ops.constant(np.ones((1, 1, 1000, 1000), "f4"))
    wide = ops.max_pool_with_indices(image, (400, 400), pads=(200, 200))[1]
    assert names(ops.max(wide)) == ["constant", "max_pool_with_indices", "reduce_max"]
    assert names(ops.max(ops.max_pool_with_indices(image, (2, 2), 2)[1])) == ["constant"]


def test_unused_nodes_are_dropped_and_inputs_stay() -> None:
    x, y = tensor(3), tensor(4, name="y")
    ops.exp(y)
    graph = optimize(Graph([x, y], [ops.neg(x)], ["out"], "net"))
    assert [node.op.name for node in graph.nodes] == ["neg"]
    assert (graph.inputs, graph.output_names, graph.name) == ((x, y), ("out",), "net")


@pytest.mark.parametrize("size", [3, 1024, 1025, 3000])
def test_equal_constants(size: int) -> None:
    """Small ones are found by content; large ones only if they are one node."""
    a, b = np.arange(size, dtype="f4"), np.arange(size, dtype="f4")
    x = tensor(size)
    count = names(ops.add(x, ops.constant(a)), ops.add(x, ops.constant(b))).count("constant")
    assert count == (1 if size <= 1024 else 2)
    c = ops.constant(a)
    assert names(ops.add(x, c), ops.add(c, x)).count("add") == 1


def test_large_constants_are_never_confused() -> None:
    """An array made where a freed one was is not taken for it."""
    x = tensor(2000)
    for k in range(4):
        parts = [ops.mul(x, ops.constant(np.full(2000, k * 10 + j, "f4"))) for j in range(5)]
        gc.collect()
        graph = Graph([x], parts)
        found = run(optimize(graph), [np.ones(2000, "f4")])
        assert [a[0] for a in found] == [k * 10 + j for j in range(5)]


def test_keys() -> None:
    assert freeze(1) != freeze(True) != freeze(1.0)
    assert freeze([1, (2.0, {"a": np.int8(3)})]) == freeze((1, [2.0, {"a": np.int8(3)}]))
    assert freeze(np.zeros(2, "f4")) != freeze(np.zeros(2, "i4"))
    assert freeze(np.zeros((1, 2))) != freeze(np.zeros((2, 1)))
    hash(freeze({"axes": [0, 1], "table": np.zeros(3), "big": np.zeros(9999), "none": None}))
