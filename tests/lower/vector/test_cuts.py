"""Loops cut where what they choose turns; tiles that load only what the program would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileloom import te
from tileloom.compute.math import if_then_else
from tileloom.expr import Call, Expr, Var
from tileloom.lower import lower
from tileloom.lower.vector.cuts import cut_loops
from tileloom.schedule import Schedule
from tileloom.tir import PrimFunc
from tower import check_lowering


def filled(columns: int, extent: int, start: int = 0) -> PrimFunc:
    """Rows of `columns` numbers from `start` on, and zeros."""
    A = te.placeholder((3, columns), "int32", name="A")

    def element(i: Any, j: Any) -> Expr:
        inside = (j >= start) & (j < columns + start) if start else j < columns
        return if_then_else(inside, A[i, j - start], 0)

    return te.create_prim_func([A, te.compute((3, extent), element, name="B")])


@pytest.mark.parametrize(
    ("columns", "extent", "start", "parts"),
    [(40, 64, 0, 2), (40, 40, 0, 1), (33, 50, 7, 3), (1, 9, 0, 2), (5, 70, 64, 3)],
)
def test_rows_filled_with_zeros(columns: int, extent: int, start: int, parts: int) -> None:
    sch = Schedule(filled(columns, extent, start))
    sch.annotate(sch.get_loops("B")[-1], "vector_lanes", 8)
    func = sch.mod["main"]
    assert "if_then_else" not in str(lower(func))
    a = np.arange(3 * columns, dtype="int32").reshape(3, columns) + 1
    want = np.pad(a, ((0, 0), (start, extent - columns - start)))
    check_lowering(func, [a, np.empty((3, extent), "int32")], [None, want])


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("which", ["inner", "outer", "both"])
def test_tiles_load_nothing_beyond(which: str, parts: int) -> None:
    """Rows and columns that there are not are zeros, whichever loop of a tile goes there."""
    rows, steps = 19, 13
    kind = "int32" if parts == 1 else "int8"
    A = te.placeholder((rows, steps * parts), kind, name="A")

    def element(k: Any, j: Any) -> Expr:
        if parts == 1:
            value: Expr = A[j, k]
        else:
            value = Call("int32", "tir.word", [A[j, k * parts + p] for p in range(parts)])
        inside = {"inner": j < rows, "outer": k < steps, "both": (j < rows) & (k < steps)}[which]
        return if_then_else(inside, value, 0)

    shape = (16 if which != "inner" else steps, 32 if which != "outer" else rows)
    sch = Schedule(te.create_prim_func([A, te.compute(shape, element, name="B")]))
    k, j = sch.get_loops("B")
    outer, inner = sch.split(j, [None, 16])  # so that no loop can be cut at the last column
    sch.reorder(outer, k, inner)
    sch.annotate(k, "vector_tile", 8)
    sch.annotate(inner, "vector_lanes", 8)
    a = np.random.default_rng(0).integers(1, 100, (rows, steps * parts)).astype(kind)
    whole = a.view("int32") if parts > 1 else a
    want = np.pad(whole.T, [(0, n - m) for n, m in zip(shape, whole.T.shape, strict=True)])
    check_lowering(sch.mod["main"], [a, np.empty(shape, "int32")], [None, want])


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_tiles_of_open_rows(kind: str) -> None:
    """Both sides are touched in vectors, whatever the steps through memory are."""
    rows, columns = Var("rows", kind), Var("columns", kind)
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((columns, rows), lambda i, j: A[j, i] * 2.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    outer, inner = sch.get_loops("B")
    sch.annotate(outer, "vector_tile", 8)
    sch.annotate(inner, "vector_lanes", 8)
    func = sch.mod["main"]
    assert "T.Shuffle" in str(lower(func, until="vectorize_loops"))
    for m, n in ((16, 24), (19, 13), (1, 9), (8, 1), (7, 7)):
        a = np.arange(m * n, dtype="float32").reshape(m, n)
        check_lowering(func, [a, np.empty((n, m), "float32")], [None, a.T * 2])


def test_sums_and_open_loops_are_not_cut() -> None:
    """A sum in parts would be another sum."""
    A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
    total = te.compute((1,), lambda i: te.sum(if_then_else(k < 40, A[k], 0.0), axis=k), name="B")
    sch = Schedule(te.create_prim_func([A, total]))
    sch.annotate(sch.get_loops("B")[-1], "vector_lanes", 8)
    flat = lower(sch.mod["main"], until="loop_partition")
    assert cut_loops(flat.body) is flat.body
