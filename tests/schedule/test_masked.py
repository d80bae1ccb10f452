"""Blocks under a condition on several variables: parts of a length that the parts do not divide."""

from __future__ import annotations

import numpy as np
import pytest

from schedule.verify.programs import program
from tileloom import te
from tileloom.schedule import Schedule, ScheduleError
from tileloom.tir import run


def parts_of(length: int, parts: int, threads: int) -> Schedule:
    """The sum and the maximum of two rows, in parts; the partial results in one nest."""
    a = te.placeholder((2, length), name="A")
    j, k = te.reduce_axis((0, length), name="j"), te.reduce_axis((0, length), name="k")
    total = te.compute((2,), lambda i: te.sum(a[i, j], axis=j), name="total")
    top = te.compute((2,), lambda i: te.max(a[i, k], axis=k), name="top")
    sch = Schedule(te.create_prim_func([a, total, top]))
    nests = []
    for name in ("total", "top"):
        part, _, thread = sch.split(sch.get_loops(name)[1], [parts, None, threads])
        partial = sch.rfactor(part, 0)
        row, part, inner, thread = sch.get_loops(partial)
        sch.reorder(row, part, thread, inner)
        nests.append(sch.fuse(row, part))
        sch.bind(thread, "threadIdx.x")
    sch.bind(sch.merge(*nests), "blockIdx.x")
    return sch


@pytest.mark.parametrize(("length", "parts", "threads"), [(103, 5, 8), (96, 4, 8), (41, 3, 16)])
def test_parts_need_not_divide(length: int, parts: int, threads: int) -> None:
    sch = parts_of(length, parts, threads)
    assert sch.verify().ok
    value = np.random.default_rng(0).standard_normal((2, length)).astype("float32")
    total, top = np.zeros(2, "float32"), np.zeros(2, "float32")
    run(sch.mod["main"], value, total, top)
    np.testing.assert_allclose(total, value.sum(1), 1e-4, 1e-5)
    assert np.array_equal(top, value.max(1))


@pytest.mark.parametrize(("length", "parts", "threads"), [(103, 5, 8), (96, 4, 8), (41, 3, 16)])
def test_parts_of_parts(length: int, parts: int, threads: int) -> None:
    """What a thread of a part reduces, then the threads, then the parts."""
    a = te.placeholder((2, length), name="A")
    j = te.reduce_axis((0, length), name="j")
    top = te.compute((2,), lambda i: te.max(a[i, j], axis=j), name="top")
    sch = Schedule(te.create_prim_func([a, top]))
    part, inner, thread = sch.split(sch.get_loops("top")[1], [parts, None, threads])
    sch.reorder(part, thread, inner)
    both = sch.rfactor(part, 0)
    sch.rfactor(sch.get_loops(both)[2], -1)
    assert sch.verify().ok
    value = np.random.default_rng(0).standard_normal((2, length)).astype("float32")
    result = np.zeros(2, "float32")
    run(sch.mod["main"], value, result)
    assert np.array_equal(result, value.max(1))


def test_what_the_first_iteration_leaves_out_is_missed() -> None:
    """The cover under a condition is that of the first iteration, which does not run here."""
    func = program(
        "A: 4, 8; C: 4",
        """
        B = T.alloc_buffer((4,))
        for i, k in T.grid(4, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(8 - k <= i)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                C[vi] = B[vi] + T.float32(1)
        """,
    )
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="may not hold all"):
        sch.rfactor(sch.get_loops("B")[1], 0)


def test_instances_left_out_by_the_values_stay_refused() -> None:
    func = program(
        "A: 24; B: 1",
        """
        for i, k in T.grid(5, 4):
            with T.block("B"):
                v = T.axis.spatial(1, 0)
                vk = T.axis.reduce(24, i * 5 + k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[vk]
        """,
    )
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="not affine"):
        sch.bind(sch.get_loops("B")[1], "threadIdx.x")
