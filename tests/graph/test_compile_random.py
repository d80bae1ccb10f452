"""Random graphs, compiled: what the graph interpreter says, every time and from every thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.random_graphs import random_arrays, random_graph
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.target import Target

KINDS = ["float32", "float64", "float16", "int32", "int8"]
# Relative and absolute: half precision rounds after each op, and a fused kernel not always.
TOLERANCE = {
    "float64": (1e-10, 1e-11),
    "float32": (1e-4, 1e-4),
    "float16": (3e-2, 3e-2),
    "int32": (0, 0),
    "int8": (0, 0),
}


def check(graph: Graph, seed: int = 0) -> None:
    arrays = random_arrays(graph, seed)
    wanted = run(graph, arrays)
    found = compile_graph(graph)(*arrays)
    assert len(found) == len(wanted)
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        rtol, atol = TOLERANCE[str(b.dtype)]
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"output {k} of\n{graph}")


@settings(max_examples=40)
@given(st.integers(0, 1 << 30), st.integers(1, 25), st.sampled_from(KINDS))
def test_random_graphs(seed: int, steps: int, kind: Any) -> None:
    check(random_graph(seed, steps, kind), seed)


@settings(max_examples=15)
@given(st.integers(0, 1 << 30), st.integers(1, 15))
def test_random_graphs_of_large_tensors(seed: int, steps: int) -> None:
    check(random_graph(seed, steps, large=True), seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("large", [False, True])
def test_many_random_graphs(first: int, kind: Any, large: bool) -> None:
    for seed in range(first, first + 100):
        check(random_graph(seed, 5 + seed % 30, kind, large), seed)


def matrix(*shape: int, name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, "float32"), name)


def test_outputs_of_every_kind() -> None:
    """Inputs, constants, views, duplicates, views of inputs and of constants; nothing computed."""
    x = matrix(4, 6)
    y = ops.exp(x)
    c = ops.constant(np.arange(6, dtype="float32"))
    view, other = ops.reshape(y, (24,)), ops.reshape(x, (6, 4))
    check(Graph([x], [x, c, y, y, view, other, ops.reshape(c, (2, 3)), ops.reshape(view, (2, 12))]))
    check(Graph([x], [x]))
    check(Graph([x], [x, x, other]))
    check(Graph([x], [c, c]))
    check(Graph([], [c, ops.exp(c)]))


def test_results_are_fresh_arrays() -> None:
    """None shares memory with an input, a constant, another result or the next call's."""
    x = matrix(4, 6)
    y = ops.exp(x)
    c = ops.constant(np.arange(6, dtype="float32"))
    graph = Graph([x], [x, ops.reshape(x, (24,)), y, ops.reshape(y, (24,)), y, c, c])
    run_it = compile_graph(graph)
    array = np.ones((4, 6), "float32")
    first, second = run_it(array), run_it(array)
    every = [array, *first, *second]
    for k, a in enumerate(every):
        assert not any(np.may_share_memory(a, b) for b in every[k + 1 :]), k
    first[5][:] = 77
    assert run_it(array)[5][1] == 1


def test_host_results_are_fresh_arrays() -> None:
    """References may return their arguments."""
    x = matrix(3, 3)
    graph = Graph([x], [ops.sort(x, 0), ops.cumsum(x, 0), ops.sort(ops.cumsum(x, 1), 1)])
    array = np.zeros((3, 3), "float32")
    found = compile_graph(graph)(array)
    assert not any(np.may_share_memory(array, a) for a in found)


def test_inputs_of_other_layouts_and_kinds() -> None:
    x = matrix(4, 6)
    run_it = compile_graph(Graph([x], [ops.add(ops.transpose(x), 1.0)]))
    base = np.arange(48, dtype="float32").reshape(6, 8)
    for array in (base[:, :4].T, base[::-1][:6, 2:6].T, np.asfortranarray(base[:4, :6])):
        np.testing.assert_array_equal(run_it(array)[0], array.T + 1)


def test_inputs_that_nobody_reads() -> None:
    x, y = matrix(3, name="x"), matrix(5, name="y")
    found = compile_graph(Graph([x, y], [ops.neg(x)]))(np.ones(3, "f4"), np.ones(5, "f4"))
    assert found[0].tolist() == [-1, -1, -1]


def test_one_executable_in_many_threads() -> None:
    """Each call has arenas and results of its own."""
    x = matrix(64, 96)
    w = ops.constant(np.random.default_rng(0).standard_normal((96, 96)).astype("f4") / 10)
    y = ops.softmax(ops.matmul(ops.layer_norm(ops.matmul(x, w)), w))
    z = ops.cumsum(ops.exp(y), 0)
    graph = Graph([x], [ops.matmul(z, w), y])
    run_it = compile_graph(graph)
    arrays = [random_arrays(graph, seed)[0] for seed in range(8)]
    wanted = [run_it(array) for array in arrays]
    for a, b in zip(run(graph, arrays[:1]), wanted[0], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda k: run_it(arrays[k % 8]), range(160)))
    for k, results in enumerate(found):
        for a, b in zip(results, wanted[k % 8], strict=True):
            np.testing.assert_array_equal(a, b)


def test_many_graphs_compiled_in_threads() -> None:
    graphs = [random_graph(seed, 6) for seed in range(50, 58)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(check, graphs))


def test_results_are_the_same_each_time() -> None:
    graph = random_graph(7, 25)
    arrays = random_arrays(graph)
    run_it, again = compile_graph(graph), compile_graph(random_graph(7, 25))
    first = run_it(*arrays)
    for other in (run_it(*arrays), again(*arrays)):
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_plans_are_the_same_each_time() -> None:
    """Down to the text of the kernels: the cache on disk goes by it."""
    for seed in (3, 11, 12):
        one, two = (plan_graph(random_graph(seed, 25), Target.host()) for _ in range(2))
        assert str(one.module) == str(two.module)
        assert [[c.kernel for c in s.calls] for s in one.segments] == [
            [c.kernel for c in s.calls] for s in two.segments
        ]
