"""Parallel loops that get a worker for so much work."""

from __future__ import annotations

import pytest

from tileloom import Schedule, te
from tileloom.expr import Expr, IntImm, Var
from tileloom.expr.evaluate import evaluate
from tileloom.lower.blocks import limit_workers
from tileloom.tir import For, collect

N = Var("n")


def loop_of(extent: int | Var, each: int, *, parallel: bool = True) -> For:
    A = te.placeholder((extent, 10), name="A")
    B = te.compute((extent, 10), lambda i, j: A[i, j] + 1.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    outer, _ = sch.get_loops("B")
    if parallel:
        sch.parallel(outer)
    sch.annotate(outer, "worker_work", each)
    return collect(limit_workers(sch.mod["main"]).body, For)[0]


@pytest.mark.parametrize(("each", "limit"), [(16, 3), (17, 2), (25, 2), (26, 1), (51, 1), (0, 50)])
def test_known_sizes(each: int, limit: int) -> None:
    """5 x 10 instances."""
    found = loop_of(5, each).annotations
    assert "worker_work" not in found
    assert isinstance(found["max_workers"], IntImm) and found["max_workers"].value == limit


def test_open_sizes() -> None:
    limit = loop_of(N, 50).annotations["max_workers"]
    assert isinstance(limit, Expr)
    assert [evaluate(limit, {N: n}) for n in (1, 4, 5, 1 << 30)] == [1, 1, 1, 1 << 16]


def test_a_serial_loop_has_no_limit() -> None:
    assert loop_of(5, 51, parallel=False).annotations == {}
