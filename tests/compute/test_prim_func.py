"""Tensor expressions as tensor IR: the form of the blocks, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import compute as te
from tileloom.base.errors import ShapeError, UserError
from tileloom.expr import Var, const
from tileloom.tir import Block, BlockRealize, BufferRegion, For, LetStmt, PrimFunc
from tileloom.tir.run import run
from tileloom.tir.walk import collect


def matmul(m: int = 3, n: int = 2, k: int = 5) -> tuple[te.Tensor, ...]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return A, B, te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def blocks(func: PrimFunc) -> list[Block]:
    return [block for block in collect(func.body, Block) if block.name_hint != "root"]


def spelled(regions: tuple[BufferRegion, ...]) -> list[tuple[str, list[tuple[str, ...]]]]:
    return [
        (region.buffer.name, [(str(r.min), str(r.extent)) for r in region.region])
        for region in regions
    ]


def test_a_reduction_is_one_block_with_an_init() -> None:
    func = te.create_prim_func(matmul())
    (block,) = blocks(func)
    assert block.name_hint == "C"
    assert [(axis.var.name, axis.iter_type) for axis in block.iter_vars] == [
        ("v_i", 0), ("v_j", 0), ("v_k", 2),
    ]  # fmt: skip
    assert block.init is not None
    assert spelled(block.reads) == [
        ("A", [("v_i", "1"), ("v_k", "1")]), ("B", [("v_k", "1"), ("v_j", "1")]),
    ]  # fmt: skip
    assert spelled(block.writes) == [("C", [("v_i", "1"), ("v_j", "1")])]
    assert [loop.loop_var.name for loop in collect(func.body, For)] == ["i", "j", "k"]
    assert func.attrs == {"global_symbol": "main", "tir.noalias": True}
    assert isinstance(func.body, BlockRealize) and func.body.block.name_hint == "root"


@pytest.mark.parametrize("separate", [False, True])
def test_matmul_computes(separate: bool, rng: np.random.Generator) -> None:
    func = te.create_prim_func(matmul(), separate_init=separate)
    a, b = rng.random((3, 5), "float32"), rng.random((5, 2), "float32")
    c = np.full((3, 2), np.nan, "float32")
    run(func, a, b, c, strict=True)
    np.testing.assert_allclose(c, a @ b, rtol=1e-6)


def test_separate_init_stands_between_spatial_and_reduction_loops() -> None:
    func = te.create_prim_func(matmul(), separate_init=True)
    first, update = blocks(func)
    assert (first.name_hint, update.name_hint) == ("C__reduce_init", "C")
    assert first.init is None and update.init is None
    assert [axis.var.name for axis in first.iter_vars] == ["v_i", "v_j"]
    assert [region.buffer.name for region in update.reads] == ["C", "A", "B"]
    outer: Any
    outer, inner = collect(func.body, For)[1:]
    assert [type(s).__name__ for s in outer.body.seq] == ["BlockRealize", "For"]
    assert inner.loop_var.name == "k"


@pytest.mark.parametrize("separate", [False, True])
def test_reduction_to_a_single_number(separate: bool) -> None:
    A = te.placeholder((7,), "int32", "A")
    k = te.reduce_axis((0, 7), "k")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    out = np.zeros((), "int32")
    run(te.create_prim_func([A, B], separate_init=separate), np.arange(7, dtype="int32"), out)
    assert out == 21


def test_intermediate_tensors_are_allocated_in_the_root() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4,), lambda i: B[i] + B[3 - i], name="C")
    func: Any = te.create_prim_func([A, C])
    assert [buffer.name for buffer in func.body.block.alloc_buffers] == ["B"]
    b, c = blocks(func)
    assert (b.name_hint, c.name_hint) == ("B", "C")
    # One box for both places.
    (region,) = c.reads
    assert region.buffer.name == "B" and str(region.region[0].min) == "T.min(3 - v_i, v_i)"
    out = np.zeros(4, "float32")
    run(func, np.arange(4, dtype="float32"), out, strict=True)
    assert out.tolist() == [6, 6, 6, 6]


def test_neighbours_are_read_as_a_range() -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((4,), lambda i: A[i] + A[i + 2], name="B")
    (block,) = blocks(te.create_prim_func([A, B]))
    assert spelled(block.reads) == [("A", [("v_i", "3")])]


def test_names_are_made_unique() -> None:
    A = te.placeholder((2,), name="T")
    B = te.compute((2,), lambda i: A[i] + 1.0, name="T")
    C = te.compute((2,), lambda i: B[i] + 1.0, name="T")
    func = te.create_prim_func([A, C])
    assert [buffer.name for buffer in func.buffers] == ["T", "T_1"]
    assert sorted(block.name_hint for block in blocks(func)) == ["T_1", "T_2"]


def test_zero_dimensional_tensors_have_a_unit_block_variable() -> None:
    A, B = te.placeholder((), name="A"), te.placeholder((), name="B")
    C = te.compute((), lambda: A() + B(), name="C")
    func = te.create_prim_func([A, B, C])
    (block,) = blocks(func)
    assert [axis.var.name for axis in block.iter_vars] == ["vi"]
    assert not collect(func.body, For)
    out = np.zeros((), "float32")
    run(func, np.full((), 1, "float32"), np.full((), 2, "float32"), out)
    assert out == 3


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([3, 7, 7, 1], 1), ([-np.inf] * 4, 0), ([1, np.nan, 9, np.nan], 1), ([0.0, -0.0, 0, 0], 0),
    ],
)  # fmt: skip
def test_argmax_of_ties_nan_and_infinities(values: Any, best: int, separate: bool) -> None:
    A = te.placeholder((1, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    place, value = te.compute((1,), lambda i: te.argmax((k.var, A[i, k]), axis=k), name="arg")
    func = te.create_prim_func([A, place, value], separate_init=separate)
    assert len(collect(func.body, LetStmt)) == 2
    index, found = np.full(1, -5, "int32"), np.zeros(1, "float32")
    run(func, np.array([values], "float32"), index, found)
    assert index[0] == best
    np.testing.assert_array_equal(found[0], np.max(np.float32(values)))


def test_a_component_that_nobody_asked_for_is_allocated() -> None:
    A = te.placeholder((1, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    place = te.compute((1,), lambda i: te.argmin((k.var, A[i, k]), axis=k), name="arg")[0]
    func = te.create_prim_func([A, place])
    index = np.full(1, -5, "int32")
    run(func, np.array([[4, 2, 9, 2]], "float32"), index)
    assert index[0] == 1


def test_where_and_init() -> None:
    A = te.placeholder((6,), "int32", "A")
    k = te.reduce_axis((0, 6), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k.var < 3, init=100), name="B")
    out = np.zeros(1, "int32")
    run(te.create_prim_func([A, B]), np.arange(6, dtype="int32"), out)
    assert out[0] == 103


def test_symbolic_sizes_come_from_the_shapes() -> None:
    n = Var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    func = te.create_prim_func([A, B])
    for size in (1, 5):
        out = np.zeros(size, "float32")
        run(func, np.ones(size, "float32"), out)
        assert (out == 2).all()


def test_a_scalar_parameter() -> None:
    alpha = Var("alpha", "float32")
    A = te.placeholder((2,), name="A")
    B = te.compute((2,), lambda i: A[i] * alpha, name="B")
    out = np.zeros(2, "float32")
    run(te.create_prim_func([A, alpha, B]), np.ones(2, "float32"), 3.0, out)
    assert out.tolist() == [3, 3]


def test_data_dependent_reads_are_points() -> None:
    A, I = te.placeholder((5,), name="A"), te.placeholder((2,), "int32", "I")
    B = te.compute((2,), lambda i: A[I[i]], name="B")
    func = te.create_prim_func([A, I, B])
    reads = dict(spelled(blocks(func)[0].reads))
    assert reads == {"I": [("v_i", "1")], "A": [("I[v_i]", "1")]}


def test_negative_extents_are_refused() -> None:
    with pytest.raises(ShapeError, match="A has the negative extent -2"):
        te.placeholder((3, -2), name="A")
    with pytest.raises(ShapeError, match="B has the negative extent -1"):
        te.compute((-1,), lambda i: i, name="B")
    assert te.placeholder((0, 3), name="A").shape[0] == 0


def test_mistakes_are_told() -> None:
    A, B, C = matmul()
    with pytest.raises(UserError, match="'B' is needed"):
        te.create_prim_func([A, C])
    with pytest.raises(UserError, match="twice"):
        te.create_prim_func([A, B, C, C])
    k = te.reduce_axis((0, 5), "k")
    nested = te.compute((3,), lambda i: te.sum(A[i, k], axis=k) + 1.0, name="D")
    with pytest.raises(UserError, match="top of a compute body"):
        te.create_prim_func([A, nested])
    mixed = te.compute((3,), lambda i: (te.sum(A[i, k], axis=k), const(1.0)), name="E")
    with pytest.raises(UserError, match="parts of one reduction"):
        te.create_prim_func([A, *mixed])
