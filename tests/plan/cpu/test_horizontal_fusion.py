"""Independent nests of different lengths share one parallel loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plan.replay import replayed
from tileloom import te
from tileloom.driver import build
from tileloom.expr import Var, intrin
from tileloom.plan import plan_kernel, schedule_cpu
from tileloom.plan.cpu.fusion_groups import find_fusion_groups
from tileloom.plan.cpu.horizontal_fusion import TOGETHER, independent_runs, pays_together
from tileloom.plan.sizes import Sizes
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.target.cost import PARALLEL_WORK
from tileloom.tir import For, PrimFunc, assert_structural_equal, collect

CPU = Target(
    kind="cpu", arch="x86_64", cpu="haswell", features=("avx", "avx2", "fma"), vector_bits=256,
    cores=4, l1=1 << 15, l2=1 << 20, l3=1 << 25,
)  # fmt: skip


def scaled(*shapes: tuple[Any, ...]) -> PrimFunc:
    """An array of each shape, twice."""
    inputs = [te.placeholder(shape, name=f"A{k}") for k, shape in enumerate(shapes)]
    results = [
        te.compute(a.shape, lambda *at, a=a: a[at] * 2.0, name=f"B{k}")
        for k, a in enumerate(inputs)
    ]
    return te.create_prim_func([*inputs, *results])


def row_sums(rows: int, columns: int, more: tuple[int, ...]) -> PrimFunc:
    """The sums of rows, and another array twice."""
    a, b = te.placeholder((rows, columns), name="A"), te.placeholder(more, name="B")
    k = te.reduce_axis((0, columns), name="k")
    s = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="s")
    return te.create_prim_func([a, b, s, te.compute(more, lambda *at: b[at] * 2.0, name="t")])


def chained(n: int, m: int) -> PrimFunc:
    """A block that needs elements of another from other places, and a third that needs none."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    x = te.compute((n,), lambda i: intrin.exp(a[i]), name="x")
    y = te.compute((n // 2,), lambda i: x[i * 2] + 1.0, name="y")
    return te.create_prim_func([a, b, x, y, te.compute((m,), lambda i: b[i] * 2.0, name="z")])


def parallel_loops(sch: Schedule) -> list[For]:
    return [loop for loop in collect(sch.mod["main"].body, For) if loop.kind == "parallel"]


def around(sch: Schedule, name: str) -> str:
    """The kind of the outermost loop around a block."""
    return str(sch.get(sch.get_loops(name)[0]).kind)


def test_nests_of_different_lengths_share_a_loop() -> None:
    sch = schedule_cpu(scaled((1000, 640), (512, 64, 3, 3), (300_007,)), CPU)
    (loop,) = parallel_loops(sch)
    assert str(loop.extent) == str(CPU.cores)
    assert all(sch.get(sch.get_loops(f"B{k}")[0]) is loop for k in range(3))


def test_what_is_too_small_alone_is_shared_with_others() -> None:
    sch = schedule_cpu(scaled((400_000,), (9000,)), CPU)
    assert len(parallel_loops(sch)) == 1 and around(sch, "B1") == "parallel"
    alone = schedule_cpu(scaled((9000,)), CPU)
    assert not parallel_loops(alone)


def test_many_small_nests_are_enough_for_workers() -> None:
    shapes = [(TOGETHER // 16 + 64 * k,) for k in range(12)]
    assert len(parallel_loops(schedule_cpu(scaled(*shapes), CPU))) == 1
    assert not parallel_loops(schedule_cpu(scaled(*shapes[:4]), CPU))
    assert not parallel_loops(schedule_cpu(scaled(*shapes), CPU.with_cores(1)))


def test_small_nests_that_take_less_than_waking_a_worker_stay_on_one() -> None:
    """Seven divisions of 4096 numbers take 11 us together; a worker may take 60 to wake up."""
    shapes = [(PARALLEL_WORK // 16 + 64 * k,) for k in range(12)]
    assert not parallel_loops(schedule_cpu(scaled(*shapes), CPU))


def test_fewer_steps_than_workers_are_not_shared() -> None:
    """Three rows for four workers; long ones wake workers by themselves, short ones none."""
    short = schedule_cpu(row_sums(3, 500, (400_000,)), CPU)
    assert len(parallel_loops(short)) == 1 and around(short, "s") == "serial"
    shared = schedule_cpu(row_sums(300, 50, (400_000,)), CPU)
    assert len(parallel_loops(shared)) == 1 and around(shared, "s") == "parallel"


def test_nests_that_wait_for_each_other_are_apart() -> None:
    sch = schedule_cpu(chained(200_000, 150_000), CPU)
    x, y, z = (sch.get(sch.get_loops(name)[0]) for name in ("x", "y", "z"))
    assert x is not y and y is z, "the last two do not wait for each other"
    assert len(parallel_loops(sch)) == 2


def test_open_sizes_stay_apart() -> None:
    n = Var("n", "int32")
    func = scaled((n, 64), (100_000,), (300_000,))
    sch = Schedule(func)
    (run,) = independent_runs(sch, find_fusion_groups(sch, Sizes()))
    assert not pays_together(sch, run, CPU)
    sch = schedule_cpu(func, CPU)
    assert sch.get(sch.get_loops("B0")[0]) is not sch.get(sch.get_loops("B1")[0])


@pytest.mark.parametrize(
    "shapes",
    [
        [(100_003,), (9973,), (70_001,)],
        [(7, 11, 13, 101), (331, 401), (5,)],
        [(131_072,), (1,), (17, 1, 999)],
        [(200_000,), (0,), (3, 0, 5), (90_001,)],
        [(101, 1009), (1009, 101), (5, 7, 3001)],
    ],
    ids=str,
)
@pytest.mark.parametrize("cores", [2, 3, 8])
def test_results(shapes: list[tuple[int, ...]], cores: int) -> None:
    planned = plan_kernel(scaled(*shapes), CPU.with_cores(cores))
    assert_structural_equal(replayed(planned), planned.func)
    kernel = build(planned.func)
    inputs = [np.random.default_rng(1).standard_normal(s).astype("float32") for s in shapes]
    results = [np.full(s, np.nan, "float32") for s in shapes]
    kernel(*inputs, *results)
    for given, found in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(found, given * 2)


@pytest.mark.parametrize(("rows", "columns"), [(37, 5003), (4, 100_003), (9, 40_009), (1, 7)])
def test_sums_beside_other_nests(rows: int, columns: int) -> None:
    planned = plan_kernel(row_sums(rows, columns, (300_007,)), CPU)
    rng = np.random.default_rng(2)
    a = rng.standard_normal((rows, columns)).astype("float32")
    b = rng.standard_normal(300_007).astype("float32")
    s, t = np.full(rows, np.nan, "float32"), np.full_like(b, np.nan)
    build(planned.func)(a, b, s, t)
    np.testing.assert_allclose(s, a.astype("float64").sum(1), rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(t, b * 2)
    assert_structural_equal(replayed(planned), planned.func)


def test_shares_are_proven() -> None:
    pytest.importorskip("islpy")
    assert schedule_cpu(scaled((1000, 640), (512, 64, 3, 3), (300_007,)), CPU).verify().ok
    assert schedule_cpu(chained(200_000, 150_000), CPU).verify().ok
