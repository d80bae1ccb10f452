"""Primitives over extents that are not known yet, of which bounds are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import Schedule, te
from tileloom.expr import Var, as_expr
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan import schedule_gpu
from tileloom.plan.cuda.choose import choose_tile
from tileloom.schedule import ScheduleError
from tileloom.schedule.analysis.order import _starts_at_least
from tileloom.target import target

GPU = target("cuda -arch=sm_80")


def sum_of_rows(rows: int, columns: int) -> Schedule:
    A, k = te.placeholder((rows, columns), name="A"), te.reduce_axis((0, columns), name="k")
    B = te.compute((rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return Schedule(te.create_prim_func([A, B]))


def test_split_takes_the_bounds_of_sizes() -> None:
    space = Space()
    n = symbol(space, "n", 1, 100, 5)
    sch = sum_of_rows(4, n)
    _, k = sch.get_loops("B")
    with pytest.raises(ScheduleError, match="do not reach"):
        sch.copy().split(k, [3, 32])
    outer, _ = sch.split(k, [4, 32])
    assert sch.get(outer).extent.value == 4
    kernel = tileloom.build(sch.mod["main"])
    for size in (1, 31, 100):
        a, b = np.ones((4, size), "float32"), np.empty(4, "float32")
        kernel(a, b)
        assert np.all(b == size)


def test_split_takes_what_was_decided() -> None:
    space = Space()
    n = symbol(space, "n", 1, 1000, 5)

    def cut() -> Any:
        sch = sum_of_rows(4, n)
        if n <= 64:
            return sch.get(sch.split(sch.get_loops("B")[1], [2, 32])[0]).extent.value
        return None

    assert [made for _, made in space.variants(cut)] == [2, None]


@pytest.mark.parametrize("open_rows", [True, False])
def test_reductions_in_parts_of_open_length(open_rows: bool) -> None:
    """Loops over the steps of a part may change places, and rows and parts become one loop."""
    space = Space()
    n = symbol(space, "n", 1, 1 << 20, 5)
    rows = symbol(space, "rows", 1, 8, 3) if open_rows else 3
    sch = sum_of_rows(rows, n)
    row, k = sch.get_loops("B")
    step, part, _ = sch.split(k, [None, 9, 64])
    sch.reorder(part, step)
    rf = sch.rfactor(part, 0)
    row, part, step, lane = sch.get_loops(rf)
    sch.reorder(row, part, lane, step)
    sch.bind(sch.fuse(row, part), "blockIdx.x")
    sch.bind(lane, "threadIdx.x")
    (row, part) = sch.get_loops("B")
    sch.bind(row, "blockIdx.x")
    kernel = tileloom.build(sch.mod["main"], GPU, "emulator")
    for size in (1, 575, 577, 3001):
        a = np.random.default_rng(size).standard_normal((3, size)).astype("float32")
        b = np.empty(3, "float32")
        kernel(a, b)
        np.testing.assert_allclose(b, a.sum(1), 1e-4, 1e-3)


def test_conditions_that_hold_at_the_start_if_anywhere() -> None:
    """Those that grow with the steps of a reduction, with factors that are not negative."""
    n, m = (as_expr(symbol(Space(), name, 1, 100, 5)) for name in "nm")
    unknown, i, j = Var("unknown"), Var("i"), Var("j")
    for condition in (i * (n * 64) + j < m, i + j * n <= m * m, m > i * n, m - i * n > j * n - n):
        assert _starts_at_least(condition, (i, j)), condition
    for condition in (
        m < i * n + j,  # leaves out the first
        i * unknown + j * n * m < n,
        i * n - j * n < m,
        i // n < m,
        i * j < n,
    ):
        assert not _starts_at_least(condition, (i, j)), condition
    assert _starts_at_least(m < i * n, (j,))  # j does not matter


def softmax(rows: int, columns: int) -> Any:
    A = te.placeholder((rows, columns), name="A")
    j, k = te.reduce_axis((0, columns), name="j"), te.reduce_axis((0, columns), name="k")
    top = te.compute((rows,), lambda i: te.max(A[i, j], axis=j), name="top")
    power = te.compute((rows, columns), lambda i, c: te.call("exp", A[i, c] - top[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, k], axis=k), name="total")
    out = te.compute((rows, columns), lambda i, c: power[i, c] / total[i], name="out")
    return te.create_prim_func([A, out])


def test_ways_to_plan_a_group() -> None:
    space = Space()
    n, m = symbol(space, "n", 1, 4096, 5), symbol(space, "m", 1, 700, 5)
    ways = space.variants(lambda: schedule_gpu(softmax(n, m), GPU), 24)
    assert not space.guards and not space.fixed
    rng = np.random.default_rng(0)
    taken = set()
    for shape in ((1, 1), (3, 8), (5, 33), (2000, 9), (1, 700), (33, 129)):
        sizes = dict(zip("nm", shape, strict=True))
        holding = [
            k for k, (facts, _) in enumerate(ways) if all(f.value(sizes) >= 0 for f in facts)
        ]
        assert len(holding) == 1
        taken.update(holding)
        a = rng.standard_normal(shape).astype("float32")
        b = np.empty_like(a)
        tileloom.build(ways[holding[0]][1].mod["main"], GPU, "emulator")(a, b)
        e = np.exp(a - a.max(1, keepdims=True))
        np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), 1e-4, 1e-7)
    assert len(taken) > 3


def test_tiles_are_those_of_the_longest_row_of_a_range() -> None:
    """A thread's share of a row has a known length: it is kept in registers."""
    space = Space()
    n, m = symbol(space, "n", 1, 64, 5), symbol(space, "m", 129, 512, 200)
    sch = schedule_gpu(softmax(n, m), GPU)
    share, threads = (sch.get(loop).extent.value for loop in sch.get_loops("out")[2:4][::-1])
    known = choose_tile(64, 512, reduces=True, innermost=True, bits=32, target=GPU, length=511)
    assert {share, threads} == {known.reduce_thread, known.reduce_inner}
