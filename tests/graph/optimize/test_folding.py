"""Which nodes are computed once and for all: by the size of what they make, and by their work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.optimize import folding, optimize
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol


def is_folded(made: Tensor, *inputs: Tensor) -> bool:
    graph = optimize(Graph(inputs, [made]), "none,+fold")
    return [node.op.name for node in graph.nodes] == ["constant"]


def numbers(*shape: int, kind: str = "float32") -> Tensor:
    return ops.constant(np.arange(np.prod(shape)).reshape(shape).astype(kind))


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda c: ops.pad(c, [(10, 22)]), 3 * 64),
        (lambda c: ops.add(c, numbers(4, 1)), 4 * 64),
        (lambda c: ops.cast(c, "float64"), 2 * 64),
    ],
)
def test_what_grows_has_a_limit(make: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(numbers(16))
    for limit, fine in ((size, True), (size - 1, False), (0, False)):
        monkeypatch.setattr(folding, "FOLD_LIMIT", limit)
        assert is_folded(made) == fine, limit


@pytest.mark.parametrize(
    "make",
    [ops.neg, lambda c: ops.cast(c, "int32"), lambda c: ops.reshape(c, (4, 4)), ops.sum,
     lambda c: ops.add(c, numbers(16))],
)  # fmt: skip
def test_what_does_not_grow_has_none(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLD_LIMIT", 0)
    assert is_folded(make(numbers(16)))


@pytest.mark.parametrize(
    "make", [lambda: ops.broadcast_to(numbers(1, 4), (6, 4)), lambda: ops.iota((6, 4), 1, "int32")]
)
def test_what_repeats_has_a_limit_of_its_own(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make()
    monkeypatch.setattr(folding, "FOLD_LIMIT", 0)
    for limit, fine in ((96, True), (95, False)):
        monkeypatch.setattr(folding, "REPEAT_LIMIT", limit)
        assert is_folded(made) == fine, limit


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_work_is_charged(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second node is computed where both together are within the budget."""
    c = numbers(10)
    first = ops.exp(c)
    nodes = Graph([], [ops.tanh(first)]).nodes[1:]
    costs = [
        node.op.cost([t.type for t in node.inputs], node.attrs, [t.type for t in node.outputs])
        for node in nodes
    ]
    monkeypatch.setattr(folding, "FOLD_STEPS", sum(costs) + spare)
    monkeypatch.setattr(folding, "FOLD_STEPS_EACH", 0)
    assert is_folded(ops.tanh(first)) == (spare >= 0)
    assert is_folded(first)


@pytest.mark.parametrize("each", [3, 4, 5])
def test_the_budget_counts_all_constants(each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(10), numbers(20)
    made = ops.concat([a, b], 0)
    (node,) = [n for n in Graph([], [made]).nodes if n.op.name == "concat"]
    cost = node.op.cost([t.type for t in node.inputs], node.attrs, [made.type])
    monkeypatch.setattr(folding, "FOLD_STEPS", cost - 30 * 4)
    monkeypatch.setattr(folding, "FOLD_STEPS_EACH", each)
    assert is_folded(made) == (each >= 4)


def test_what_is_not_known_is_not_folded() -> None:
    x = Tensor(tensor_type((3,), "float32"), "x")
    assert not is_folded(ops.add(x, numbers(3)), x)
    n = symbol(Space(), "n", 1, 9, 5)
    y = Tensor(TensorType((n,), dtype("float32")), "y")
    assert not is_folded(ops.extent(n), y)
    assert not is_folded(ops.broadcast_to(numbers(1), (n,)), y)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "bool"])
def test_folded_values_have_the_type_of_the_node(kind: str) -> None:
    made = ops.cast(ops.constant(np.array([0, 1.5, 300])), kind)
    graph: Any = optimize(Graph([], [made]), "none,+fold")
    assert is_folded(made)
    value = graph.outputs[0].value
    assert value.dtype == dtype(kind).numpy
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(value, np.array([0, 1.5, 300]).astype(dtype(kind).numpy))
