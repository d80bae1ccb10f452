"""Products of matrices with vectors, which have loops of their own."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401  names bfloat16
import numpy as np
import pytest

from sampling import sampled
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.target import Target

Array = np.ndarray[Any, Any]
#: Batches, results, depths: whole and broken groups of lines, blocks of results and vectors.
SIZES = (((3,), 8, 64), ((3,), 13, 77), ((), 300, 129), ((2, 1), 129, 8), ((), 5000, 67))
TOLERANCE = {"float32": 3e-7, "float64": 1e-15, "bfloat16": 4e-3, "float16": 1e-3}


def vector_product(
    matrix: Array, vector: Array, *, row: bool, turned: bool, out: str | None = None
) -> tuple[Tensor, list[Tensor], list[Array]]:
    """`matrix @ vector` as a row times a matrix or a matrix times a column."""
    across = matrix.swapaxes(-1, -2).copy()
    if row:
        given = [vector.swapaxes(-1, -2).copy(), matrix if turned else across]
    else:
        given = [across if turned else matrix, vector]
    tensors: list[Any] = [
        Tensor(tensor_type(a.shape, str(a.dtype)), n) for a, n in zip(given, "ab", strict=True)
    ]
    name = "transpose_b" if row else "transpose_a"
    return ops.matmul(*tensors, out_dtype=out, **{name: turned}), tensors, given


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("row", [False, True])
@pytest.mark.parametrize("kind", sampled(["float32", "bfloat16", "float64", "int8"], 2))
def test_products_with_vectors(kind: str, row: bool, turned: bool) -> None:
    rng = np.random.default_rng(0)
    for batch, lines, depth in SIZES:
        matrix = (4 * rng.standard_normal((*batch, lines, depth))).astype(kind)
        vector = (4 * rng.standard_normal((*batch, depth, 1))).astype(kind)
        out = "int32" if kind == "int8" else None
        product, tensors, given = vector_product(matrix, vector, row=row, turned=turned, out=out)
        bias = Tensor(tensor_type(product.shape, product.dtype), "c")
        graph = Graph([*tensors, bias], [ops.maximum(ops.add(product, bias), product)])
        added = np.ones(product.shape, product.dtype.numpy)
        [got] = compile_graph(graph)(*given, added)
        wide = "int64" if kind == "int8" else "float64"
        want = (matrix.astype(wide) @ vector.astype(wide)).reshape(got.shape) + 1
        if kind == "int8":
            assert np.array_equal(got, want)
            continue
        size = (np.abs(matrix).astype(wide) @ np.abs(vector).astype(wide)).reshape(got.shape) + 1
        assert (np.abs(got.astype(wide) - want) <= 2 * TOLERANCE[kind] * size).all(), (batch, lines)


def test_one_matrix_for_a_batch_of_vectors_and_the_reverse() -> None:
    rng = np.random.default_rng(0)
    for left, right in (
        ((5, 1, 96), (96, 200)),
        ((1, 96), (5, 96, 200)),
        ((3, 1, 200, 70), (2, 70, 1)),
    ):
        a, b = (rng.standard_normal(s).astype("float32") for s in (left, right))
        x, y = (Tensor(tensor_type(v.shape, "float32"), n) for v, n in ((a, "a"), (b, "b")))
        [got] = compile_graph(Graph([x, y], [ops.matmul(x, y)]))(a, b)
        np.testing.assert_allclose(got, a.astype("float64") @ b, 1e-4, 1e-4)


@pytest.mark.parametrize("turned", [False, True])
def test_sums_of_great_depth_keep_their_digits(turned: bool) -> None:
    matrix, vector = np.full((130, 300_000), 0.1, "float32"), np.ones((300_000, 1), "float32")
    product, tensors, given = vector_product(matrix, vector, row=False, turned=turned)
    [got] = compile_graph(Graph(tensors, [product]))(*given)
    np.testing.assert_allclose(got, np.float32(0.1) * 300_000.0, 1e-5)


def test_several_rows_are_read_side_by_side() -> None:
    a = Tensor(tensor_type((1, 256), "float32"), "a")
    b = Tensor(tensor_type((256, 512), "float32"), "b")
    program = plan_graph(Graph([a, b], [ops.matmul(a, b)]), Target.host())
    (planned,) = program.planned.values()
    assert "T.unroll(8)" in str(planned.func)


def test_of_a_small_and_a_large_matrix_the_large_one_is_read_once() -> None:
    a = Tensor(tensor_type((2, 512), "float32"), "a")
    b = Tensor(tensor_type((1000, 512), "float32"), "b")
    product = ops.matmul(a, b, transpose_b=True)
    (planned,) = plan_graph(Graph([a, b], [product]), Target.host()).planned.values()
    loops = [line.strip() for line in str(planned.func).splitlines() if " for " in line]
    assert "range(1000)" in loops[0] or "parallel(1000" in loops[0], loops
