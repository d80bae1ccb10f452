"""Who stores what: one thread of those that share a row; and what threads keep of it."""

from __future__ import annotations

import pytest

from tileloom import te
from tileloom.expr import intrin
from tileloom.lower import lower
from tileloom.plan import schedule_gpu
from tileloom.simt import kernel_costs
from tileloom.target import target
from tileloom.tir import PrimFunc

GPU = target("cuda -arch=sm_80")


def norm(rows: int, columns: int, alone: bool) -> PrimFunc:
    """The root of each row's sum; and the row divided by it, unless it is wanted alone."""
    a, k = te.placeholder((rows, columns), name="A"), te.reduce_axis((0, columns), name="k")
    s = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="S")
    root = te.compute((rows,), lambda i: intrin.sqrt(s[i]), name="R")
    b = te.compute((rows, columns), lambda i, j: a[i, j] / root[i], name="B")
    return te.create_prim_func([a, root] if alone else [a, root, b])


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("columns", [2, 3, 4, 16, 17, 33, 64, 200, 2100])
def test_results_of_rows_are_stored_once(columns: int, alone: bool) -> None:
    """Whether two threads, a warp or a block of them share in a row."""
    rows = 37
    sch = schedule_gpu(norm(rows, columns, alone), GPU)
    [cost] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert cost.stores["global"].elements == rows + (0 if alone else rows * columns)
    # Rows of a few elements may be read again for what follows; longer ones are kept.
    assert cost.loads["global"].elements in (rows * columns, rows * columns * (1 + (columns < 8)))
    assert cost.grid["blockIdx.x"] * cost.threads >= rows
    roots = cost.calls["sqrt"]
    assert roots == rows if alone else rows <= roots <= rows * cost.threads


@pytest.mark.parametrize("rows", [2, 31, 100])
@pytest.mark.parametrize("depth", [3, 64, 1000])
def test_results_of_columns_are_stored_once(rows: int, depth: int) -> None:
    a, k = te.placeholder((depth, rows), name="A"), te.reduce_axis((0, depth), name="k")
    s = te.compute((rows,), lambda i: te.sum(a[k, i], axis=k), name="S")
    root = te.compute((rows,), lambda i: intrin.sqrt(s[i]), name="R")
    sch = schedule_gpu(te.create_prim_func([a, root]), GPU)
    [cost] = kernel_costs(lower(sch.mod["main"], GPU), GPU)
    assert cost.stores["global"].elements == rows
    assert cost.loads["global"].elements == rows * depth
