"""Groups of nodes: how many kernels well-known patterns take, and the rules that always hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.random_graphs import random_graph
from tileloom.driver import plan_graph
from tileloom.graph import ops
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.optimize import optimize
from tileloom.graph.partition import MAX_NODES, MAX_OPERANDS, Group, partition
from tileloom.target import Target, target
from tileloom.target.cost import DeviceCosts


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def weights(*shape: int) -> Tensor:
    return ops.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def groups_of(*outputs: Tensor) -> Any:
    nodes = Graph([], outputs).nodes
    inputs = {t for node in nodes for t in node.inputs if t.node is None}
    return partition(optimize(expand(Graph(sorted(inputs, key=lambda t: t.serial), outputs))))


def kernels(*outputs: Tensor) -> int:
    return sum(not group.is_view for group in groups_of(*outputs))


X, IMAGE = tensor(8, 32), tensor(2, 4, 8, 8)
B32, S32 = weights(32), weights(32)


def chain() -> Tensor:
    y = X
    for op in (ops.exp, ops.neg, ops.tanh, ops.square, ops.sigmoid, ops.abs, ops.sqrt, ops.sin):
        y = op(y)
    return y


ONE_KERNEL: dict[str, Any] = {
    "softmax": lambda: ops.softmax(X),
    "softmax of columns": lambda: ops.softmax(X, 0),
    "log_softmax": lambda: ops.log_softmax(X),
    "logsumexp": lambda: ops.logsumexp(X, 1),
    "layer_norm": lambda: ops.layer_norm(X, S32, B32),
    "rms_norm": lambda: ops.rms_norm(X, S32),
    "gelu(x + b)": lambda: ops.gelu(ops.add(X, B32)),
    "gelu tanh": lambda: ops.gelu(ops.add(X, B32), "tanh"),
    "silu": lambda: ops.silu(X),
    "mean": lambda: ops.mean(X, 1),
    "var": lambda: ops.var(X, 1),
    "residual and norm": lambda: ops.layer_norm(ops.add(X, ops.mul(X, 2.0)), S32, B32),
    "scaled masked softmax": lambda: ops.softmax(
        ops.where(ops.greater(X, 0.0), ops.mul(X, 0.125), -1e9)
    ),
    "matmul + bias + gelu": lambda: ops.gelu(ops.add(ops.matmul(X, weights(32, 16)), weights(16))),
    "matmul + residual": lambda: ops.add(ops.matmul(X, weights(32, 32)), X),
    "conv + bias + relu": lambda: ops.relu(ops.conv(IMAGE, weights(6, 4, 3, 3), weights(6))),
    "conv + batch_norm + relu": lambda: ops.relu(
        ops.batch_norm(ops.conv(IMAGE, weights(6, 4, 3, 3)), *[ops.abs(weights(6))] * 4)
    ),
    "eight in a row": chain,
    "diamond": lambda: ops.add(ops.exp(ops.tanh(X)), ops.sin(ops.tanh(X))),
    "reshape inside": lambda: ops.exp(ops.reshape(ops.tanh(X), (4, 64))),
    "transpose inside": lambda: ops.exp(ops.transpose(ops.neg(X))),
}


@pytest.mark.parametrize("name", list(ONE_KERNEL))
def test_patterns_that_take_one_kernel(name: Any) -> None:
    assert kernels(ONE_KERNEL[name]()) == 1, groups_of(ONE_KERNEL[name]())


def test_patterns_that_take_more() -> None:
    product = ops.matmul(X, weights(32, 32))
    assert kernels(ops.matmul(ops.relu(product), weights(32, 8))) == 2
    assert kernels(ops.softmax(product)) == 2
    assert kernels(ops.sum(ops.sum(ops.exp(X), 1), 0)) <= 2
    # Work that would be repeated for each column is kept in memory instead.
    assert kernels(ops.add(ops.exp(tensor(32)), ops.broadcast_to(tensor(8, 1), (8, 32)))) <= 2


def test_views_are_no_kernels() -> None:
    assert kernels(ops.reshape(X, (256,))) == 0
    assert kernels(ops.reshape(ops.reshape(X, (256,)), (16, 16))) == 0


def test_independent_work_shares_a_launch() -> None:
    (group,) = groups_of(ops.exp(X), ops.exp(tensor(7, name="y")))
    assert group.kind == "several" and [len(phase) for phase in group.phases] == [2]


def test_a_circle_is_avoided() -> None:
    """The sum could join exp as well as the product; all three would need each other."""
    a = ops.exp(X)
    product = ops.matmul(a, weights(32, 32))
    groups = groups_of(ops.add(a, product))
    legal(groups, [])
    assert len(groups) == 2


def legal(groups: Any, outputs: list[Tensor]) -> None:
    """Every node, in an order that can run, with the inputs and outputs that it must have."""
    made: dict[Tensor, int] = {}
    for k, group in enumerate(groups):
        assert 0 < len(group.nodes) <= MAX_NODES and len(set(group.nodes)) == len(group.nodes)
        assert group.outputs
        for tensor_ in group.outputs:
            assert tensor_ not in made and tensor_.node in group.nodes
            made[tensor_] = k
    for k, group in enumerate(groups):
        needed = [t for node in group.nodes for t in node.inputs]
        outside = [t for t in needed if t.node not in group.nodes]
        assert set(group.inputs) == set(outside)
        parts_are_legal(group)
        arrays = [t for t in group.inputs if t.value is None or t.type.size > 1]
        assert len(arrays) <= max(MAX_OPERANDS, *(len(n.inputs) for n in group.nodes))
        for tensor_ in outside:
            if tensor_.node is not None and tensor_.value is None:
                assert made[tensor_] < k
    for tensor_ in outputs:
        assert tensor_.node is None or tensor_.value is not None or tensor_ in made


def parts_are_legal(group: Group) -> None:
    """Each part reads what the kernel reads or what earlier phases make."""
    ready = set(group.inputs)
    for phase in group.phases:
        for part in phase:
            assert ready.issuperset(part.inputs) and part.outputs
        ready.update(t for part in phase for t in part.outputs)
    if group.phases:
        assert ready.issuperset(group.outputs)
        made = [t for part in group.parts for t in part.outputs]
        assert len(made) == len(set(made))


@given(st.integers(0, 1 << 30), st.integers(1, 40))
def test_random_graphs_are_partitioned_legally(seed: int, steps: int) -> None:
    graph = optimize(expand(random_graph(seed, steps)))
    legal(list(partition(graph, DeviceCosts.of(target("cuda -arch=sm_80")))), list(graph.outputs))
    groups = partition(graph)
    legal(groups, list(graph.outputs))
    assert {n for g in groups for n in g.nodes} == {
        n for n in graph.nodes if n.op.name != "constant"
    }
    again = partition(graph)
    assert [g.nodes for g in again] == [g.nodes for g in groups]
    assert [g.inputs for g in again] == [g.inputs for g in groups]


def test_wide_sums_stay_within_the_limits() -> None:
    inputs = [tensor(8, name=f"x{k}") for k in range(100)]
    total = inputs[0]
    for x in inputs[1:]:
        total = ops.add(total, x)
    groups = groups_of(total)
    legal(groups, [])
    assert all(len(group.inputs) <= MAX_OPERANDS for group in groups) and len(groups) <= 5


def test_long_chains_stay_within_the_limits() -> None:
    y = X
    for k in range(1000):
        y = ops.add(ops.mul(y, 0.5), float(k))
    groups = groups_of(y)
    legal(groups, [])
    assert len(groups) <= 2000 // MAX_NODES + 1


def test_equal_groups_share_one_kernel() -> None:
    """Layers of one shape are compiled once; other weights do not matter, other numbers do."""
    y = X
    for k in range(4):
        w = ops.constant(np.full((32, 32), k, "f4"))
        y = ops.layer_norm(ops.gelu(ops.matmul(y, w)), S32, B32)
    program = plan_graph(Graph([X], [y]), Target.host())
    assert program.kernel_count == 8
    assert sum(name.startswith("kernel") for name in program.module.functions) == 2
    z, w = tensor(8, 32, name="z"), weights(32, 32)
    products = [ops.matmul(ops.add(X, 1.0), w), ops.matmul(ops.add(z, 2.0), w)]
    names = plan_graph(Graph([X, z], products), Target.host()).module.functions
    assert sum(name.startswith("kernel") for name in names) == 3
