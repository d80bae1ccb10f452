"""How a fusion is cut: which axes are walked as one, how much is a worker's share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from tileloom import te
from tileloom.expr import Var, const, intrin
from tileloom.plan import schedule_cpu
from tileloom.plan.cpu.choices import (
    CHUNK,
    REGISTERS,
    ROWS,
    SHARES,
    WIDEST,
    WIDEST_ONCE,
    Plan,
    _as_one,
    plan_of,
    size,
)
from tileloom.plan.cpu.fusion_groups import find_fusion_groups, inline_elementwise
from tileloom.plan.sizes import Sizes
from tileloom.schedule import Schedule
from tileloom.target import Target
from tileloom.target.cost import PARALLEL_WORK

CPU = Target(
    kind="cpu", arch="x86_64", cpu="haswell", features=("avx", "avx2", "fma"), vector_bits=256,
    cores=4, l1=1 << 15, l2=1 << 20, l3=1 << 25,
)  # fmt: skip
I, J, K = (Var(name, "int32") for name in "ijk")


@pytest.mark.parametrize(
    ("indices", "shape", "one"),
    [
        ((I, J), (4, 8), True),
        ((J, I), (4, 8), False),
        ((I, K, J), (4, 5, 8), False),
        ((I, const(0), J), (4, 1, 8), True),  # an axis of one element is none
        ((I, K, J), (4, 1, 8), True),
        ((K, I, J), (5, 4, 8), True),
        ((I, J, K), (4, 8, 5), True),
        ((K,), (5,), True),
        ((I,), (4,), False),
        ((J,), (8,), False),
        ((I, J, J), (4, 8, 8), False),
        ((I + 1, J), (5, 8), False),
        ((I, J + 1), (4, 9), False),
        ((I + J,), (12,), False),
        ((), (), True),
    ],
)
def test_accesses_that_step_through_two_axes_as_one(
    indices: tuple[Any, ...], shape: tuple[int, ...], one: bool
) -> None:
    extents = tuple(const(n) for n in shape)
    assert _as_one(I, J, indices, extents) == one


def planned(*tensors: te.Tensor, target: Target = CPU, sizes: Sizes | None = None) -> list[Plan]:
    sch = Schedule(te.create_prim_func(tensors))
    inline_elementwise(sch)
    sizes = sizes or Sizes()
    return [plan_of(sch, group, target, sizes) for group in find_fusion_groups(sch, sizes)]


def extents(groups: Any) -> list[list[int]]:
    return [[axis.extent for axis in group] for group in groups]


def elementwise(shape: tuple[Any, ...], value: Callable[..., Any]) -> Plan:
    a, b = te.placeholder(shape, name="A"), te.placeholder(shape[-1:], name="B")
    c = te.placeholder(shape[:1], name="C")
    result = te.compute(shape, lambda *i: value(a, b, c, i), name="R")
    (plan,) = planned(a, b, c, result)
    return plan


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (lambda a, b, c, i: a[i] + 1.0, [[3, 4, 5]]),
        (lambda a, b, c, i: a[i] + b[i[-1]], [[3, 4], [5]]),
        (lambda a, b, c, i: a[i] + c[i[0]], [[3], [4, 5]]),
        (lambda a, b, c, i: a[i] + b[i[-1]] * c[i[0]], [[3], [4], [5]]),
    ],
)
def test_axes_that_are_walked_as_one(value: Any, groups: list[list[int]]) -> None:
    plan = elementwise((3, 4, 5), value)
    assert plan.method == "elementwise"
    assert extents([*plan.outer, *plan.inner]) == groups and len(plan.inner) == 1


def _costly(a: Any, b: Any, c: Any, i: Any) -> Any:
    return intrin.exp(intrin.exp(a[i] * c[i[0]]) * b[i[-1]])


def _cheap(a: Any, b: Any, c: Any, i: Any) -> Any:
    return b[i[-1]] * c[i[0]]


@pytest.mark.parametrize(
    ("value", "shape", "groups"),
    [
        (_costly, (3, 50, 2), [[3], [50, 2]]),  # eight lanes
        (_costly, (3, 2, 2), [[3], [2, 2]]),
        (_costly, (3, 50, 3), [[3], [50], [3]]),  # a vector has no room for four of these
        (_costly, (50, 4), [[50], [4]]),
        (_cheap, (50, 2), [[50], [2]]),  # less than what dividing positions takes
        (_costly, (Var("n", "int32"), 2), [[8], [2]]),
    ],
    ids=["rows", "more of them", "too wide", "half", "cheap", "open"],
)
def test_narrow_axes_are_walked_with_others(
    value: Any, shape: tuple[Any, ...], groups: list[list[int]]
) -> None:
    plan = elementwise(shape, value)
    found = extents([*plan.outer, *plan.inner])
    assert [len(g) for g in found] == [len(g) for g in groups]
    assert found == groups or not all(isinstance(n, int) for n in shape)


N, M = Var("n", "int32"), Var("m", "int32")
OPEN = {N: (1, 4096), M: (1, 4096)}


def _open_sum(value: Callable[..., Any], shape: tuple[Any, ...] = (N, M)) -> list[te.Tensor]:
    a = te.placeholder(shape, name="A")
    k, m = te.reduce_axis((0, N), name="k"), te.reduce_axis((0, M), name="m")
    result = te.compute((1,), lambda i: te.sum(value(a, k.var, m.var), axis=[k, m]), name="S")
    return [a, result]


@pytest.mark.parametrize(
    ("tensors", "bounds", "together"),
    [
        (_open_sum(lambda a, k, m: a[k, m]), OPEN, True),
        (_open_sum(lambda a, k, m: a[k, m]), {**OPEN, N: (1, None)}, False),  # may be 2^31
        (_open_sum(lambda a, k, m: a[k, m]), {**OPEN, N: (1, 1 << 20)}, False),
        (_open_sum(lambda a, k, m: a[k, m], (N, M + 1)), OPEN, False),  # parts of rows
        (_open_sum(lambda a, k, m: a[k, m] * m.astype("float32")), OPEN, False),
        (_open_sum(lambda a, k, m: a[k, m] * k.astype("float32")), OPEN, False),
        (_open_sum(lambda a, k, m: a[m, k], (M, N)), OPEN, True),  # as they lie in memory
    ],
    ids=["whole rows", "no bound", "too many", "parts of rows", "the number", "the row", "columns"],
)
def test_open_axes_are_walked_as_one_where_nothing_is_divided(
    tensors: list[te.Tensor], bounds: Any, together: bool
) -> None:
    sch, sizes = Schedule(te.create_prim_func(tensors)), Sizes(bounds)
    (group,) = find_fusion_groups(sch, sizes)
    plan = plan_of(sch, group, CPU, sizes)
    reduced = [g for g in plan.inner if g[0].reduced]
    assert [len(g) for g in reduced] == ([2] if together else [1, 1])


def test_narrow_reduced_axes_are_walked_with_others() -> None:
    a, c = te.placeholder((64, 50, 2), name="A"), te.placeholder((64, 50), name="C")
    k, m = te.reduce_axis((0, 50), name="k"), te.reduce_axis((0, 2), name="m")
    value = lambda i: te.sum(intrin.exp(a[i, k, m]) * c[i, k], axis=[k, m])  # noqa: E731
    (plan,) = planned(a, c, te.compute((64,), value, name="S"))
    assert plan.method == "contiguous" and extents(plan.inner) == [[50, 2]]


def test_blocks_without_some_axes() -> None:
    """What is made once a row has no axis of depth: those stay one for the others."""
    a = te.placeholder((30, 4, 5), name="A")
    k, m = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 5), name="m")
    total = te.compute((30,), lambda i: te.sum(a[i, k, m], axis=[k, m]), name="S")
    root = te.compute((30,), lambda i: intrin.sqrt(total[i]), name="R")
    result = te.compute((30, 4, 5), lambda i, j, n: a[i, j, n] / root[i], name="B")
    (plan,) = planned(a, root, result)
    assert extents(plan.outer) == [[30]] and extents(plan.inner) == [[4, 5]]


def sums(shape: tuple[int, ...], over: int, **options: Any) -> Plan:
    a = te.placeholder(shape, name="A")
    k = te.reduce_axis((0, shape[over]), name="k")
    rest = [n for d, n in enumerate(shape) if d != over]
    value = lambda *i: te.sum(a[(*i[:over], k.var, *i[over:])], axis=k)  # noqa: E731
    (plan,) = planned(a, te.compute(rest, value, name="S"), **options)
    return plan


@pytest.mark.parametrize(
    ("shape", "over", "method"),
    [
        ((64, 100), 1, "contiguous"),
        ((64, 100), 0, "strided"),
        ((64, 8), 1, "contiguous"),
        ((64, 7), 1, "strided"),  # rows are shorter than vectors, and there are enough of them
        ((7, 7), 1, "contiguous"),
        ((3, 64, 100), 1, "strided"),
    ],
)
def test_methods(shape: tuple[int, ...], over: int, method: str) -> None:
    plan = sums(shape, over)
    assert plan.method == method and plan.lanes == 8
    spatial = [n for d, n in enumerate(shape) if d != over]
    kept = [axis for group in (*plan.outer, *plan.inner) for axis in group if not axis.reduced]
    found = [axis.extent for axis in kept]
    assert sorted(found) == sorted(spatial)
    assert extents(plan.inner)[0] == [shape[over]]


@pytest.mark.parametrize(
    ("depth", "columns", "rows"),
    [
        (2 * ROWS, 100, ROWS), (2 * ROWS - 1, 100, 1), (100 * ROWS, 100, ROWS),
        (2 * ROWS, 8 * REGISTERS + 1, ROWS),
        (2 * ROWS, 8 * REGISTERS, 1),  # all sums are registers
    ],
)  # fmt: skip
def test_rows_that_are_added_at_a_time(depth: int, columns: int, rows: int) -> None:
    assert sums((depth, columns), 0).rows == rows


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 8, 30, 32, 64, 101])
def test_rows_that_are_read_at_a_time(rows: int, cores: int) -> None:
    """As many as leave no rest, but steps for all workers."""
    plan = sums((rows, 1 << 16), 1, target=replace(CPU, cores=cores))
    assert plan.method == "contiguous" and plan.parallel == (cores > 1)
    steps, rest = divmod(rows, plan.rows)
    assert rest == 0 and plan.rows in (1, 2, 4)
    assert plan.rows == 1 or steps >= (4 * cores if cores > 1 else 1)
    more = 2 * plan.rows
    assert more > 4 or rows % more or rows // more < (4 * cores if cores > 1 else 1)


def test_rows_of_two_passes_are_read_one_by_one() -> None:
    a = te.placeholder((64, 100), name="A")
    k, m = te.reduce_axis((0, 100), name="k"), te.reduce_axis((0, 100), name="m")
    most = te.compute((64,), lambda i: te.max(a[i, k], axis=k), name="M")
    total = te.compute((64,), lambda i: te.sum(a[i, m] - most[i], axis=m), name="S")
    (plan,) = planned(a, most, total)
    assert plan.method == "contiguous" and plan.rows == 1


@pytest.mark.parametrize("columns", [8, 64, 1000, 4096, 5000, 100_000])
@pytest.mark.parametrize("depth", [4, 1000])
@pytest.mark.parametrize("outer", [1, 3, 40])
@pytest.mark.parametrize("cores", [1, 4])
def test_chunks_of_columns(columns: int, depth: int, outer: int, cores: int) -> None:
    """Whole vectors, no wider than what stays in the cache, and enough of them for the workers."""
    plan = sums((outer, depth, columns), 1, target=replace(CPU, cores=cores))
    assert plan.parallel == (cores > 1 and plan.work >= PARALLEL_WORK)
    assert plan.work % (outer * depth * columns) == 0
    widest, chunk = WIDEST_ONCE if plan.rows > 1 else WIDEST, plan.chunk or columns
    assert chunk <= widest and (not plan.chunk or chunk % plan.lanes == 0)
    assert not plan.chunk or chunk < columns, "one chunk is none"
    wanted = (cores if plan.parallel else 1) if plan.rows > 1 else SHARES
    pieces = -(-columns // chunk) * outer
    assert pieces >= wanted or chunk <= 64, "as many as the workers, or very narrow"


@pytest.mark.parametrize(
    ("shape", "chunked"),
    [((1, 1 << 20), True), ((3, 1 << 18), True), ((16, 1 << 18), False), ((1 << 18, 3), False)],
)
def test_chunks_of_long_rows(shape: tuple[int, ...], chunked: bool) -> None:
    """Rows are cut where there are fewer of them than four for each worker."""
    plan = elementwise(shape, lambda a, b, c, i: a[i] + b[i[-1]])
    assert bool(plan.chunk) == chunked and plan.parallel
    if chunked:
        assert plan.chunk <= CHUNK and plan.chunk % plan.lanes == 0
        assert shape[0] * -(-shape[1] // plan.chunk) >= 4 * CPU.cores


@pytest.mark.parametrize(
    ("shape", "cut"),
    [
        ((100_003, 20), 0), ((20, 100_003), -1), ((1009, 1013), 0), ((16, 40, 900), None),
        ((3, 60, 900), -1), ((15, 40, 900), 0),
    ],
)  # fmt: skip
def test_the_longer_axis_of_tiles_is_shared(shape: tuple[int, ...], cut: int | None) -> None:
    """The result is written along its last axis and read along the one before that."""
    *rows, across, along = shape
    a = te.placeholder((*rows, along, across), name="A")
    (plan,) = planned(a, te.compute(shape, lambda *i: a[(*i[:-2], i[-1], i[-2])], name="B"))
    assert plan.transposed and plan.parallel
    assert bool(plan.chunk) == (cut is not None)
    if cut is not None:
        pieces = -(-size(plan.inner[cut]) // plan.chunk)
        assert plan.cut == cut and prod(rows) * pieces >= 4 * CPU.cores


@pytest.mark.parametrize(
    ("shape", "cores"),
    [((8, 64, 27, 27), 2), ((60, 10, 12, 40), 2), ((128, 9, 64), 4)],
)
def test_shares_of_rows_keep_neighbours_neighbours(shape: tuple[int, ...], cores: int) -> None:
    """Shares are whole rows, or rows are whole shares, on each level."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *index: a[index] + 1.0, name="B")
    (plan,) = planned(a, b, target=CPU.with_cores(cores))
    assert plan.chunk % plan.lanes == 0 and prod(shape) % plan.chunk == 0
    rows = [prod(shape[k:]) for k in range(1, len(shape))]
    assert all(plan.chunk % row == 0 or row % plan.chunk == 0 for row in rows)
    sch = schedule_cpu(te.create_prim_func([a, b]), CPU.with_cores(cores))
    outer, _ = map(sch.get, sch.get_loops("B"))
    assert outer.kind == "parallel"


def test_shares_of_odd_rows_are_even_all_the_same() -> None:
    """No share of 3 x 64 x 85 x 23 elements in whole vectors is made of whole rows."""
    a = te.placeholder((3, 64, 85, 23), name="A")
    b = te.compute(a.shape, lambda *index: a[index] + 1.0, name="B")
    (plan,) = planned(a, b)
    assert plan.chunk % plan.lanes == 0 and plan.chunk


@pytest.mark.parametrize("extra", [-1, 0])
def test_work_that_is_worth_workers(extra: int) -> None:
    a = te.placeholder((PARALLEL_WORK + extra,), name="A")
    (plan,) = planned(a, te.compute(a.shape, lambda i: a[i] + 1.0, name="B"))
    assert (
        plan.parallel == (plan.work >= PARALLEL_WORK) and plan.work % (PARALLEL_WORK + extra) == 0
    )
    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    (small,) = planned(a, b)
    assert not small.parallel and small.work < PARALLEL_WORK
    assert not planned(a, b, target=replace(CPU, cores=1))[0].parallel


def test_open_sizes_may_be_worth_workers() -> None:
    """As many as it turns out to be; what is surely worth them takes all."""
    n = Var("n", "int32")
    a = te.placeholder((n, 64), name="A")
    b = te.compute((n, 64), lambda i, j: a[i, j] + 1.0, name="B")

    def plan(low: int, high: int | None) -> Plan:
        (found,) = planned(a, b, sizes=Sizes({n: (low, high)}))
        return found

    assert not plan(1, 100).parallel
    open_ = plan(1, None)
    assert open_.parallel and open_.share >= 1
    sure = plan(1 << 20, None)
    assert sure.parallel and sure.share == 0


def test_sizes_of_groups() -> None:
    plan = elementwise((3, 4, 5), lambda a, b, c, i: a[i])
    assert size(plan.inner[0]) == prod((3, 4, 5)) and size([]) == 1


@pytest.mark.parametrize("columns", [4096, 6000, 8192, 9216, 10_007, 65_536])
@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_chunks_are_even(columns: int, workers: int) -> None:
    """Of whole vectors that divide the columns, where at most twice as many chunks do that."""
    plan = sums((1000, columns), 0, target=replace(CPU, cores=workers))
    chunk, lanes = plan.chunk, plan.lanes
    assert chunk and chunk % lanes == 0 and chunk <= WIDEST_ONCE
    pieces = -(-columns // chunk)
    fewest = -(-columns // max(8 * lanes, min(WIDEST_ONCE, columns // workers)))
    even = [k for k in range(fewest, 2 * fewest + 1) if columns % (k * lanes) == 0]
    if even:
        assert columns % chunk == 0 and columns // chunk == even[0]
    else:
        assert pieces <= fewest
