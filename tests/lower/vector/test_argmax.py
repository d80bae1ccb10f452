"""Reductions of pairs and of truth values in vectors: arg-maxima, any and all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.driver import build
from tileloom.graph import ops
from tileloom.graph.blocks import block_function
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.partition import partition
from tileloom.lower import lower
from tileloom.plan import schedule_cpu
from tileloom.script import tir as T
from tileloom.target import target

LENGTHS = (1, 2, 3, 15, 16, 17, 33, 100, 257)
CPU = target("cpu -num-cores=2")


def kernel_of(shape: tuple[int, ...], make: Any, kind: str = "float32") -> tuple[Any, str, Any]:
    """A group's kernel, its flat code, and the graph."""
    x = Tensor(tensor_type(shape, kind), "x")
    graph = Graph([x], [make(x)])
    [group] = partition(graph)
    sch = schedule_cpu(block_function(group)[0], CPU)
    return build(sch.mod["main"]), str(lower(sch.mod["main"])), graph


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("op", [ops.argmax, ops.argmin])
def test_the_first_of_equals_is_chosen(n: int, op: Any) -> None:
    kernel, text, graph = kernel_of((5, n), lambda x: op(x, 1))
    assert ("choices" in text) is (n > 1)
    value = np.random.default_rng(n).integers(0, 4, (5, n)).astype("float32")
    found = np.full(5, -1, graph.outputs[0].dtype.numpy)
    kernel(value, found)
    np.testing.assert_array_equal(found, (np.argmax if op is ops.argmax else np.argmin)(value, 1))


@pytest.mark.parametrize("n", [16, 37, 100])
def test_not_a_number_is_the_greatest(n: int) -> None:
    kernel, _, graph = kernel_of((4, n), lambda x: ops.argmax(x, 1))
    value = np.random.default_rng(n).standard_normal((4, n)).astype("float32")
    value[0, n // 2] = value[1, n - 1] = value[1, 3] = np.nan
    value[2] = -np.inf
    value[3, n - 1] = np.inf
    found = np.full(4, -1, graph.outputs[0].dtype.numpy)
    kernel(value, found)
    np.testing.assert_array_equal(found, np.argmax(value, 1))


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("op", [ops.any, ops.all])
@pytest.mark.parametrize("axis", [0, 1])
def test_truth_values(n: int, op: Any, axis: int) -> None:
    limit = 2.0 if op is ops.any else -2.0
    kernel, _, _ = kernel_of((n, 19), lambda x: op(ops.greater(x, limit), axis))
    value = np.random.default_rng(n).standard_normal((n, 19)).astype("float32")
    found = np.zeros(19 if axis == 0 else n, "bool")
    kernel(value, found)
    np.testing.assert_array_equal(found, (np.any if op is ops.any else np.all)(value > limit, axis))


def test_a_choice_that_depends_on_the_order_runs_in_order() -> None:
    """Of equal keys the last one: no comparison of positions tells which that is."""

    @T.prim_func
    def last(
        A: T.Buffer((40,), "int32"), P: T.Buffer((1,), "int32"), V: T.Buffer((1,), "int32")
    ) -> None:
        for i in T.serial(40, annotations={"vector_lanes": 8}):
            p: T.int32 = T.Select(A[i] < V[0], P[0], i)
            v: T.int32 = T.Select(A[i] < V[0], V[0], A[i])
            P[0] = p
            V[0] = v

    assert "choices" not in str(lower(last))
    value = np.random.default_rng(0).integers(0, 3, 40).astype("int32")
    place, best = np.zeros(1, "int32"), np.full(1, -1, "int32")
    build(last)(value, place, best)
    assert (place[0], best[0]) == (39 - np.argmax(value[::-1]), value.max())


def test_lengths_that_are_not_known() -> None:
    @T.prim_func
    def first(a: T.handle, P: T.Buffer((1,), "int32"), V: T.Buffer((1,), "int32")) -> None:
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        for i in T.serial(n, annotations={"vector_lanes": 8}):
            p: T.int32 = T.Select(T.Or(A[i] < V[0], T.And(A[i] == V[0], P[0] < i)), P[0], i)
            v: T.int32 = T.Select(T.Or(A[i] < V[0], T.And(A[i] == V[0], P[0] < i)), V[0], A[i])
            P[0] = p
            V[0] = v

    assert "choices" in str(lower(first))
    kernel = build(first)
    for n in (0, *LENGTHS):
        value = np.random.default_rng(n).integers(0, 3, n).astype("int32")
        place, best = np.full(1, 1 << 30, "int32"), np.full(1, -1, "int32")
        kernel(value, place, best)
        assert not n or (place[0], best[0]) == (np.argmax(value), value.max())
