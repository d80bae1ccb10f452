"""Sums of narrow floats are accumulated wide, in one place: they pass the narrow type's digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.optimize import optimize
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol

#: Adding 1 to 2048 in float16, or to 256 in bfloat16, changes nothing.
COUNT = 4096
SUMS = {
    "sum": lambda x: ops.sum(x, -1),
    "sum of rows": lambda x: ops.sum(ops.transpose(x), 0),
    "sum of all": lambda x: ops.sum(x),
    "mean": lambda x: ops.mul(ops.mean(x, -1), 1024.0),
    "matmul": lambda x: ops.matmul(x, ops.ones((COUNT, 3), x.dtype)),
    "product with a vector": lambda x: ops.matmul(x, ops.ones((COUNT,), x.dtype)),
    "conv": lambda x: ops.conv(ops.reshape(x, (1, 2, COUNT)), ops.ones((1, 2, 1500), x.dtype)),
    "sum_pool": lambda x: ops.sum_pool(ops.reshape(x, (1, 2, COUNT)), (3000,)),
    "einsum": lambda x: ops.einsum("ij,kj->ik", x, x),
}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_narrow_sums_do_not_stall(name: Any, kind: str) -> None:
    x = Tensor(tensor_type((2, COUNT), kind), "x")
    result = SUMS[name](x)
    ones = np.ones((2, COUNT), dtype(kind).numpy)
    found = compile_graph(Graph([x], [result]))(ones)[0].astype("f8")
    wanted = {"sum of all": 8192, "mean": 1024, "conv": 3000, "sum_pool": 3000}.get(name, 4096)
    np.testing.assert_allclose(found, wanted, rtol=8e-3)


def test_a_sum_that_is_widened_need_not_be_narrowed() -> None:
    x = Tensor(tensor_type((8, 100), "float16"), "x")
    graph = Graph([x], [ops.cast(ops.sum(x, 1), "float32")])
    rng = np.random.default_rng(0)
    values = rng.standard_normal((8, 100)).astype("f2")
    exact = values.astype("f8").sum(1)
    assert len(optimize(graph).nodes) == 2
    fast = optimize(graph, "reassociating")
    assert [str(node.outputs[0].dtype) for node in fast.nodes] == ["float32", "float32"]
    found = compile_graph(fast)(values)[0]
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert np.abs(compile_graph(graph)(values)[0] - exact).max() > np.abs(found - exact).max()


@pytest.mark.parametrize(
    ("kind", "most", "once"),
    [
        ("float32", 4096, True),
        ("int8", 4096, True),
        ("float64", (1 << 31) - 1, True),
        # Such a number may be none of the type, or no index.
        ("float16", 4096, False),
        ("float32", 1 << 31, False),
        ("int32", 1 << 31, False),
    ],
)
def test_equal_terms_of_a_number_that_is_not_known(kind: str, most: Any, once: bool) -> None:
    count = symbol(Space(), "n", 1, most, 37)
    x = Tensor(TensorType((3, 1), dtype(kind)), "x")
    graph = Graph([x], [ops.sum(ops.broadcast_to(x, (3, count)), 1)])
    found = [node.op.name for node in optimize(graph, "reassociating").nodes]
    assert ("reduce_sum" not in found) is once
    assert ("mul" in found) is once
