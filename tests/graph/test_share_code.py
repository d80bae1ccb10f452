"""Kernels that are equal but for numbers share their code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.target import Target


def layers(shape: Any, step: Any, values: Any, kind: str = "float32") -> Graph:
    """A chain of products, with one step each that takes a number."""
    x, w = (Tensor(tensor_type(shape, kind), name) for name in "xw")
    found = x
    for value in values:
        found = step(ops.matmul(found, w), value)
    return Graph([x, w], [found])


def kernels(graph: Graph) -> list[str]:
    return [name for name in plan_graph(graph, Target.host()).module.functions if "kernel" in name]


def check(graph: Graph, rng: np.random.Generator, tolerance: float = 1e-5) -> None:
    arrays = [
        rng.integers(-3, 4, t.shape).astype(t.dtype.numpy)
        if t.dtype.is_int
        else rng.uniform(0.1, 0.5, t.shape).astype(t.dtype.numpy)
        for t in graph.inputs
    ]
    expected = run(graph, arrays)
    for found, wanted in zip(compile_graph(graph)(*arrays), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "step",
    [
        lambda x, v: ops.tanh(ops.add(x, v)),
        lambda x, v: ops.maximum(ops.mul(x, v), ops.sub(1.5, x)),
        lambda x, v: ops.minimum(ops.div(x, v), ops.add(x, 3.5)),
        lambda x, v: ops.div(ops.sum(ops.mul(x, v), 1, keepdims=True), ops.add(x, 9.0)),
    ],
)
@pytest.mark.parametrize("shape", [(8, 8), (7, 7), (1, 1)])
def test_layers_that_differ_in_a_number_are_one_kernel(
    step: Any, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    few = len(kernels(layers(shape, step, [1.25])))
    graph = layers(shape, step, [1.25, 2.5, 3.75, 5.5, 1.25])
    assert len(kernels(graph)) <= few + 1  # the last may stand alone
    check(graph, rng)


def test_numbers_that_are_the_same_everywhere_stay_in_the_code() -> None:
    def step(x: Any, value: Any) -> Any:
        return ops.tanh(ops.add(ops.mul(x, 0.125), value))

    program = plan_graph(layers((8, 8), step, [1.5, 2.5, 3.5, 4.5]), Target.host())
    assert sorted(array.item() for array in program.constants.values()) == [1.5, 2.5, 3.5, 4.5]


def test_two_kernels_keep_their_numbers() -> None:
    graph = layers((8, 8), lambda x, v: ops.tanh(ops.add(x, v)), [1.5, 2.5])
    program = plan_graph(graph, Target.host())
    assert not program.constants
    assert len(kernels(graph)) == 2


@pytest.mark.parametrize(
    "step, kind",
    [
        (lambda x, v: ops.pow(x, float(v)), "float32"),
        (lambda x, v: ops.floor_divide(x, v), "int32"),
        (lambda x, v: ops.mul(x, v), "int32"),
        (lambda x, v: ops.where(ops.greater(x, v), x, 1), "int32"),
    ],
)
def test_numbers_that_shape_the_code_stay_in_it(
    step: Any, kind: str, rng: np.random.Generator
) -> None:
    graph = layers((4, 4), step, [3, 5, 7, 11], kind)
    assert not plan_graph(graph, Target.host()).constants
    check(graph, rng)


@pytest.mark.parametrize("kind", ["float16", "float64", "int8", "int64", "uint8"])
def test_types(kind: str, rng: np.random.Generator) -> None:
    graph = layers((5, 5), lambda x, v: ops.maximum(ops.add(x, v), 1), [2, 3, 4, 5], kind)
    assert len(kernels(graph)) == 1
    check(graph, rng, 1e-2 if kind == "float16" else 1e-6)


def test_terms_of_a_long_sum_share_code(rng: np.random.Generator) -> None:
    x = Tensor(tensor_type((5,), "float32"), "x")
    total = ops.sin(x)
    for number in range(300):
        total = ops.add(total, ops.sin(ops.mul(x, number + 0.5)))
    graph = Graph([x], [total])
    assert len(kernels(graph)) <= 4
    check(graph, rng, 1e-4)


def test_programs_are_kept_with_their_numbers(tmp_path: Path, rng: np.random.Generator) -> None:
    """Numbers in memory are part of what the cache keeps."""
    from tileloom.base.settings import override

    def graph(first: float) -> Graph:
        values = [first, 2.5, 3.5, 4.5]
        return layers((8, 8), lambda x, v: ops.tanh(ops.add(x, v)), values)

    with override(cache_dir=tmp_path / "cache"):
        for first in (1.5, 1.5, 0.25):
            check(graph(first), rng)
