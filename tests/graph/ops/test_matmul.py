"""Matrix products and Einstein sums against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graph.ops.checks import check, graph_of, values
from tileloom.base import dtype
from tileloom.base.errors import DTypeError, ShapeError, UserError
from tileloom.graph import ops
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Tensor, tensor_type
from tileloom.graph.op import apply1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1, 1), (1, 1)),
        ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 3, 4), (1, 4, 1)), ((1, 3, 4), (2, 4, 5)),
    ],
)  # fmt: skip
def test_shapes_as_numpy(a: tuple[int, ...], b: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = rng.random(a, "float32"), rng.random(b, "float32")
    result = check(ops.matmul, x, y)
    np.testing.assert_allclose(result, x @ y, rtol=1e-5)
    assert result.shape == np.shape(x @ y)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_transposed_operands(ta: bool, tb: bool, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (2, 5, 3) if ta else (2, 3, 5))
    y = rng.integers(-9, 9, (4, 5) if tb else (5, 4))
    result = check(lambda a, b: ops.matmul(a, b, ta, tb), x, y)
    np.testing.assert_array_equal(result, (x.swapaxes(1, 2) if ta else x) @ (y.T if tb else y))
    assert len(graph_of(lambda a, b: ops.matmul(a, b, ta, tb), x, y).nodes) == 1


@pytest.mark.parametrize("kind", ["float16", ml_dtypes.bfloat16], ids=str)
def test_narrow_floats_accumulate_in_float32(kind: Any) -> None:
    x = np.ones((1, 4099), kind)
    assert float(check(ops.matmul, x, x.T)[0, 0]) == pytest.approx(4099, rel=4e-3)


def test_wide_results_of_narrow_integers() -> None:
    a, b = np.full((1, 3), 200, "uint8"), np.full((3, 1), -100, "int8")
    result = check(lambda x, y: ops.matmul(x, y, out_dtype="int32"), a, b)
    assert result.dtype == np.int32 and result[0, 0] == -60000
    wrapped = check(ops.matmul, np.full((1, 2), 100, "int8"), np.full((2, 1), 2, "int8"))
    assert wrapped[0, 0] == np.int8(-112)


def test_mistakes_are_told() -> None:
    z = np.zeros
    with pytest.raises(ShapeError, match=r"matmul: .* do not fit: 3 columns, 4 rows"):
        values(ops.matmul, z((2, 3)), z((4, 5)))
    with pytest.raises(ShapeError, match=r"matmul: float64\[3\] and float64\[4\] do not fit"):
        values(ops.matmul, z(3), z(4))
    with pytest.raises(ShapeError, match="matmul: the left operand has no dimensions"):
        values(ops.matmul, z(()), z((4, 5)))
    with pytest.raises(ShapeError, match=r"matmul: shapes .* do not broadcast"):
        values(ops.matmul, z((2, 3, 4)), z((3, 4, 5)))
    with pytest.raises(DTypeError, match="matmul: operands of different types"):
        values(ops.matmul, z((2, 2), "float32"), z((2, 2)))
    with pytest.raises(DTypeError, match="does not fit int8"):
        values(lambda a, b: ops.matmul(a, b, out_dtype="int8"), z((2, 2), "int32"), z((2, 2), "i1"))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]), ("ij,jk->ki", [(2, 3), (3, 4)]),
        ("bij,bkj->bik", [(2, 3, 4)] * 2),
        ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]),
        ("ij->j", [(2, 3)]), ("i,j->ij", [(2,), (3,)]), ("i,i", [(3,), (3,)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("...i->...", [(2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("ij,ij->ij", [(2, 3)] * 2), ("ij,i->j", [(2, 3), (2,)]), ("iij,j->i", [(3, 3, 2), (2,)]),
        (" i j , j k -> i k ", [(2, 3), (3, 4)]), (",", [(), ()]), ("ij,kj->", [(2, 3), (4, 3)]),
        ("ba", [(2, 3)]), ("a...,a...->...", [(2, 3, 4), (2, 4)]), ("ij,jk->ik", [(2, 1), (3, 4)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
    ],
)  # fmt: skip
def test_einsum_as_numpy(equation: str, shapes: Any, rng: np.random.Generator) -> None:
    arrays = [np.asarray(rng.random(shape)) for shape in shapes]
    result = check(lambda *t: ops.einsum(equation, *t), *arrays)
    np.testing.assert_allclose(result, np.einsum(equation, *arrays), rtol=1e-12)


def test_einsum_of_two_matrices_is_one_product() -> None:
    graph = expand(
        graph_of(lambda a, b: ops.einsum("ij,jk->ik", a, b), np.ones((2, 3)), np.ones((3, 2)))
    )
    assert [node.op.name for node in graph.nodes] == ["matmul"]


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], "label 'j' stands for extents 3 and 4"),
        ("ij", [(2, 3), (3, 4)], "names 1 operands, got 2"),
        ("ijk", [(2, 3)], "does not fit 2 dimensions"),
        ("i1", [(2, 3)], "does not fit 2 dimensions"),
        ("ij->iz", [(2, 3)], "must name labels of its operands"),
        ("ij->ii", [(2, 3)], "each once"),
        ("ii", [(2, 3)], "label 'i' stands for two extents"),
    ],
)
def test_einsum_mistakes_are_told(equation: str, shapes: list[tuple[int, ...]], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        values(lambda *t: ops.einsum(equation, *t), *(np.zeros(shape) for shape in shapes))
    assert str(caught.value).startswith("einsum: ")


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("kind", "parts", "unit", "out"),
    [("int8", 4, 1, "int32"), ("int8", 4, 3, "int32"), ("bfloat16", 2, 1, "float32"),
     ("float32", 1, 1, "float32")],
)  # fmt: skip
@pytest.mark.parametrize(("rows", "depth", "columns", "width"), [(3, 7, 5, 4), (2, 8, 8, 8)])
def test_packed_products(
    rng: np.random.Generator,
    transpose_a: bool,
    transposed: bool,
    kind: str,
    parts: int,
    unit: int,
    out: str,
    rows: int,
    depth: int,
    columns: int,
    width: int,
) -> None:
    number = dtype(kind).numpy
    a = rng.integers(-9, 9, (depth, rows) if transpose_a else (rows, depth)).astype(number)
    b = rng.integers(-9, 9, (columns, depth) if transposed else (depth, columns)).astype(number)
    how = {"transposed": transposed, "width": width, "parts": parts, "unit": unit}

    def build(x: Tensor, y: Tensor) -> Tensor:
        panels = apply1("pack_panels", (y,), **how)
        words = None if parts == 1 else kind
        return apply1("packed_matmul", (x, panels), transpose_a=transpose_a, columns=columns,
                      out_dtype=out, words_of=words)  # fmt: skip

    exact = (a.T if transpose_a else a).astype(int) @ (b.T if transposed else b).astype(int)
    np.testing.assert_array_equal(check(build, a, b), exact)


@pytest.mark.parametrize(
    ("panels", "kind", "columns", "words", "message"),
    [
        ((2, 4), "float32", 4, None, "packed panels have three dimensions"),
        ((2, 4, 4), "float32", 4, None, "cannot hold 4 columns"),
        ((2, 4, 4), "float32", 9, None, "cannot hold 9 columns"),
        ((2, 1, 4), "int32", 8, "float32", "cannot hold 4 rows of float32"),
        ((2, 1, 4), "int64", 8, "int8", "cannot hold 4 rows of int8"),
    ],
)
def test_panels_that_do_not_fit(
    panels: tuple[int, ...], kind: str, columns: int, words: str | None, message: str
) -> None:
    left = Tensor(tensor_type((3, 4), "float32"), "left")
    right = Tensor(tensor_type(panels, kind), "panels")
    attrs = {"transpose_a": False, "out_dtype": None, "columns": columns, "words_of": words}
    with pytest.raises(ShapeError, match=message):
        apply1("packed_matmul", (left, right), **attrs)
