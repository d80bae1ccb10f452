"""Weights packed ahead of time, and strips of the left operand copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom.base.panels import pack_panels
from tileloom.base.settings import override
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.machine import Machine
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.op import apply1
from tileloom.graph.pack import pack_weights
from tileloom.graph.run import run
from tileloom.target import Target

MACHINE = Machine(512)


def product(
    left: tuple[int, ...], right: tuple[int, ...], kind: str = "float32", **attrs: Any
) -> tuple[Graph, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal(right).astype(kind)
    x = Tensor(tensor_type(left, kind), "x")
    result = ops.relu(ops.matmul(x, ops.constant(weight), **attrs))
    return Graph([x], [result]), rng.standard_normal(left).astype(kind), weight


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


@pytest.mark.parametrize(
    ("rows", "columns", "width"), [(3, 7, 4), (1, 1, 16), (5, 32, 32), (0, 3, 4), (2, 0, 4)]
)
def test_panels_hold_the_matrix_and_zeros(rows: int, columns: int, width: int) -> None:
    matrix = np.arange(1, rows * columns + 1).reshape(rows, columns)
    for given, transposed in ((matrix, False), (matrix.T, True)):
        panels = pack_panels(given, transposed, width)
        flat = panels.swapaxes(0, 1).reshape(rows, panels.shape[0] * width)
        assert np.array_equal(flat[:, :columns], matrix)
        assert not flat[:, columns:].any()
        assert not panels.size or panels.ctypes.data % 64 == 0


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("left", "depth", "columns"),
    [((5,), 7, 33), ((13,), 1030, 177), ((3, 4), 17, 8), ((2, 1, 24), 96, 64), ((26,), 1024, 129)],
)
def test_packed_products_are_right(
    left: tuple[int, ...], depth: int, columns: int, kind: str, transposed: bool
) -> None:
    right = (columns, depth) if transposed else (depth, columns)
    graph, x, weight = product((*left, depth), right, kind, transpose_b=transposed)
    assert "packed_matmul" in names(pack_weights(graph, MACHINE))
    wide = x.astype("float64") @ (weight.T if transposed else weight).astype("float64")
    [got] = compile_graph(graph)(x)
    tolerance = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[kind]
    np.testing.assert_allclose(got, np.maximum(wide, 0), tolerance, tolerance * depth**0.5)


def test_the_interpreter_knows_packed_products() -> None:
    graph, x, weight = product((6, 5), (5, 19))
    [got] = run(pack_weights(graph, MACHINE), [x])
    np.testing.assert_allclose(got, np.maximum(x @ weight, 0), 1e-6, 1e-6)


@pytest.mark.parametrize("width", [1, 3, 4, 8, 16, 32, 48])
def test_panels_of_any_width_are_read_right(width: int) -> None:
    rng = np.random.default_rng(0)
    weight, x = rng.standard_normal((40, 50)), rng.standard_normal((13, 40))
    given = Tensor(tensor_type(x.shape, "float32"), "x")
    panels = ops.constant(pack_panels(weight.astype("float32"), False, width))
    attrs = {"transpose_a": False, "columns": 50, "out_dtype": None}
    result = apply1("packed_matmul", [given, panels], **attrs)
    [got] = compile_graph(Graph([given], [result]))(x.astype("float32"))
    np.testing.assert_allclose(got, x @ weight, 1e-4, 1e-4)


def test_a_weight_of_two_products_is_packed_once() -> None:
    x = Tensor(tensor_type((8, 8), "float32"), "x")
    weight = ops.constant(np.ones((8, 8), "float32"))
    packed = pack_weights(Graph([x], [ops.matmul(ops.matmul(x, weight), weight)]), MACHINE)
    assert names(packed) == ["constant", "packed_matmul", "packed_matmul"]


def test_what_stays_as_it_is() -> None:
    x = Tensor(tensor_type((8, 8), "float32"), "x")
    batches = ops.constant(np.ones((2, 8, 8), "float32"))
    row = Tensor(tensor_type((1, 8), "float32"), "row")
    for given, result in (
        (x, ops.matmul(x, x)),  # not constant
        (x, ops.matmul(x, batches)),  # many matrices
        (row, ops.matmul(row, ops.constant(np.ones((8, 8), "float32")))),  # a row is not worth it
    ):
        graph = Graph([given], [result])
        assert names(pack_weights(graph, MACHINE)) == names(graph)


@pytest.mark.parametrize("batch", [(), (1,)])
def test_a_cached_program_packs_its_weights_again(batch: tuple[int, ...], tmp_path: Any) -> None:
    graph, x, weight = product((16, 1030), (*batch, 1030, 70))
    with override(cache_dir=tmp_path):
        first = compile_graph(graph)(x)
        again = compile_graph(graph)(x)
        assert np.array_equal(first, again)
    kept = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert kept and max(kept) < weight.nbytes, "weights are not written to the cache"


def test_strips_of_the_left_operand_are_converted_once() -> None:
    graph, *_ = product((24, 1000), (1000, 256), "float16")
    kernel: Any
    (kernel,) = plan_graph(graph, Target.host()).planned.values()
    copies = [buffer for buffer in kernel.func.body.block.alloc_buffers if "wide" in buffer.name]
    assert [(str(copy.dtype), int(copy.shape[0])) for copy in copies] == [("float32", 24)]
