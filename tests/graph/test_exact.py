"""Kernels that round after every operator, as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.exact import EXACT, keep_roundings
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.target import Target


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_results_are_numpys_to_the_last_bit(kind: str, rng: np.random.Generator) -> None:
    x, y, z = (Tensor(tensor_type((1000,), kind), name) for name in "xyz")
    graph = Graph([x, y, z], [ops.sub(ops.mul(x, y), ops.div(ops.sqrt(z), ops.add(x, z)))])
    given = [(rng.random(1000) + 0.5).astype(kind) for _ in range(3)]
    (result,) = compile_graph(graph, exact=True)(*given)
    a, b, c = given
    assert np.array_equal(result, a * b - np.sqrt(c) / (a + c))


def test_products_are_fused_with_sums_unless_told(rng: np.random.Generator) -> None:
    """Both keys of the cache: with one rounding, and with two."""
    x, y, z = (Tensor(tensor_type((4096,), "float32"), name) for name in "xyz")
    graph = Graph([x, y, z], [ops.add(ops.mul(x, y), z)])
    a, b = ((rng.random(4096) + 0.5).astype("float32") for _ in range(2))
    given = [a, b, -(a * b)]
    (exact,) = compile_graph(graph, exact=True)(*given)
    (fused,) = compile_graph(graph)(*given)
    assert not exact.any()
    assert np.abs(fused).max() < 1e-6


def test_what_accumulates_is_not_marked() -> None:
    x = Tensor(tensor_type((64, 48), "float32"), "x")
    y = Tensor(tensor_type((48, 32), "float32"), "y")
    graph = Graph([x, y], [ops.matmul(x, y), ops.sum(x, 1), ops.add(ops.mul(x, 2.0), 1.0)])
    program = plan_graph(graph, Target.host())
    keep_roundings(program)
    marked = {name: EXACT in func.attrs for name, func in program.module.functions.items()}
    assert not any(marked[name] for name in marked if "matmul" in name or "sum" in name)
    assert any(marked.values())
