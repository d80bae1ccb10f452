"""reduce_online: a pair of reductions in one pass; NaN and infinities as in two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from schedule.common import check_same, check_trace, refused, same_text, schedule
from tileloom import te
from tileloom.driver import build
from tileloom.lower import lower
from tileloom.schedule import Schedule
from tileloom.script import tir as T
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.tir import PrimFunc, run

Formula = Callable[..., Any]


def rows(count: int, length: int, formula: Formula, first: Formula = te.sum) -> PrimFunc:
    """`M[i] = first(A[i, :])`, and `S[i]` the sum of a formula of A[i, k] and M[i]."""
    a = te.placeholder((count, length), name="A")
    j, k = te.reduce_axis((0, length), name="j"), te.reduce_axis((0, length), name="k")
    m = te.compute((count,), lambda i: first(a[i, j], axis=j), name="M")
    s = te.compute((count,), lambda i: te.sum(formula(a[i, k], m[i]), axis=k), name="S")
    return te.create_prim_func([a, m, s])


def softmax(count: int, length: int) -> PrimFunc:
    return rows(count, length, lambda x, m: T.exp(x - m), te.max)


def variance(count: int, length: int) -> PrimFunc:
    def squared(x: Any, total: Any) -> Any:
        apart = x - total / T.float32(length)
        return apart * apart

    return rows(count, length, squared)


def by_blocks(count: int, length: int) -> PrimFunc:
    """The mean is a block of its own, a product with 1 / n."""
    a = te.placeholder((count, length), name="A")
    j, k = te.reduce_axis((0, length), name="j"), te.reduce_axis((0, length), name="k")
    m = te.compute((count,), lambda i: te.sum(a[i, j], axis=j), name="M")
    mean = te.compute((count,), lambda i: m[i] * T.float32(1 / length), name="mean")
    s = te.compute(
        (count,),
        lambda i: te.sum((mean[i] - a[i, k]) * (mean[i] - a[i, k]), axis=k),
        name="S",
    )
    return te.create_prim_func([a, m, s])


#: Rows with everything that makes one pass hard: the value by its place in the row.
ROWS: list[dict[int, float]] = [
    {}, {0: np.inf}, {0: -np.inf}, {3: -np.inf, 5: np.inf}, {0: np.nan}, {7: np.nan},
    {0: -np.inf, 6: np.nan}, dict.fromkeys(range(37), -np.inf), dict.fromkeys(range(37), np.inf),
    dict.fromkeys(range(36), -np.inf), dict.fromkeys(range(1, 37), -np.inf),
    dict.fromkeys(range(37), np.nan), {36: np.inf}, {36: -np.inf}, dict.fromkeys(range(37), 0.0),
    {2: 88.0, 3: -88.0}, {5: 3e38}, dict.fromkeys(range(5, 37), -3e38), {0: -0.0, 1: 0.0},
]  # fmt: skip


def hard_rows(count: int, length: int = 37) -> np.ndarray[Any, Any]:
    value = np.random.default_rng(0).standard_normal((count, length)).astype("float32")
    for row, changes in zip(value, ROWS, strict=False):
        for place, number in changes.items():
            row[place] = number
    return value


def check(func: PrimFunc, sch: Schedule, value: np.ndarray[Any, Any], runs: Formula) -> None:
    wanted = [np.zeros(len(value), "float32") for _ in range(2)]
    have = [np.zeros(len(value), "float32") for _ in range(2)]
    with np.errstate(all="ignore"):
        run(func, value, *wanted)
        runs(sch)(value, *have)
    for a, b in zip(have, wanted, strict=True):
        np.testing.assert_allclose(a, b, 2e-5)


def interpreted(sch: Schedule) -> Formula:
    return lambda *arrays: run(sch.mod["main"], *arrays)


def compiled(sch: Schedule) -> Any:
    return build(sch.mod["main"])


def emulated(sch: Schedule) -> Formula:
    """A block of threads for each row, so that threads combine what they have."""
    for name in ("M", "S"):
        block, *rest = sch.get_loops(name)
        if rest:
            _, thread = sch.split(rest[0], [None, 32])
            sch.bind(thread, "threadIdx.x")
        sch.bind(block, "blockIdx.x")
    flat = lower(sch.mod["main"], target("cuda -arch=sm_80"))
    return lambda *arrays: run_kernels(flat, *arrays)


@pytest.mark.parametrize("runs", [interpreted, compiled, emulated])
@pytest.mark.parametrize("make", [softmax, variance])
def test_infinities_and_nans(make: Formula, runs: Formula) -> None:
    func = make(len(ROWS), 37)
    sch = Schedule(func)
    sch.reduce_online("M", "S")
    value = hard_rows(len(ROWS))
    if make is variance:  # see the docstring of the primitive: sums that overflow
        value[np.isfinite(value) & (np.abs(value) > 1e30)] = 7
    check(func, sch, value, runs)


@pytest.mark.parametrize("make", [softmax, variance, by_blocks])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 31), (4, 37), (2, 1031)])
def test_lengths(make: Formula, shape: tuple[int, int]) -> None:
    func = make(*shape)
    sch = schedule(func)
    sch.reduce_online("M", "S")
    value = np.random.default_rng(1).standard_normal(shape).astype("float32")
    check(func, sch, value, interpreted)


@pytest.mark.parametrize("make", [softmax, variance])
def test_parts_are_combined(make: Formula) -> None:
    func = make(len(ROWS), 37)
    sch = Schedule(func)
    sch.reduce_online("M", "S")
    outer, _ = sch.split(sch.get_loops("M")[1], [5, None])
    sch.rfactor(outer, 0)
    value = hard_rows(len(ROWS))
    value[np.isfinite(value) & (np.abs(value) > 1e30)] = 7
    check(func, sch, value, interpreted)


def test_large_numbers_keep_their_variance() -> None:
    """Where a mean of squares less the square of the mean would have no digit right."""
    value = np.random.default_rng(0).random((3, 1000), "float32") + np.float32(10_000)
    func = variance(3, 1000)
    sch = Schedule(func)
    sch.reduce_online("M", "S")
    have = [np.zeros(3, "float32") for _ in range(2)]
    run(sch.mod["main"], value, *have)
    exact = value.astype("float64").var(1) * 1000
    np.testing.assert_allclose(have[1], exact, 1e-2)


def test_the_pair_becomes_one_reduction() -> None:
    sch = schedule(variance(4, 8))
    both = sch.reduce_online("M", "S")
    assert sch.get(both).name_hint == "M"
    assert [len(sch.get_loops(name)) for name in "MS"] == [2, 1]
    same_text(
        sch,
        """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), M: T.Buffer((4,), "float32"),
         S: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    S_n = T.alloc_buffer((4,))
    S_carry = T.alloc_buffer((4,))
    for i, j in T.grid(4, 8):
        with T.block("M"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.reads(A[vi, vj])
            T.writes(S_n[vi], M[vi], S_carry[vi])
            with T.init():
                S_n[vi] = T.float32(0)
                M[vi] = T.float32(0)
                S_carry[vi] = T.float32(0)
            n: T.float32 = S_n[vi] + T.float32(1)
            m: T.float32 = M[vi] + A[vi, vj]
            c: T.float32 = S_carry[vi] + T.Select(
                S_n[vi] == T.float32(0), T.float32(0),
                (A[vi, vj] * S_n[vi] - M[vi]) * (
                    (A[vi, vj] * S_n[vi] - M[vi]) / (S_n[vi] * (S_n[vi] + T.float32(1)))))
            S_n[vi] = n
            M[vi] = m
            S_carry[vi] = c
    for i in range(4):
        with T.block("S"):
            vi = T.axis.spatial(4, i)
            T.reads(M[vi], S_carry[vi])
            T.writes(S[vi])
            S[vi] = T.Select(T.isfinite(M[vi]), S_carry[vi], T.float32("nan"))
""",
    )


def test_reduce_online_trace() -> None:
    func = softmax(4, 8)
    sch = schedule(func)
    sch.reduce_online("M", "S")
    check_trace(sch, func)
    check_same(sch, func)


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (rows(4, 8, lambda x, m: T.exp(x - m)), "neither"),
        (rows(4, 8, lambda x, m: T.exp(m - x), te.max), "neither"),
        (rows(4, 8, lambda x, m: T.exp(x * 2.0 - m), te.max), "neither"),
        (rows(4, 8, lambda x, m: (x - m / 7.0) * (x - m / 7.0)), "neither"),
        (rows(4, 8, lambda x, m: (x - m / 8.0) * (x - m / 8.0), te.max), "neither"),
        (rows(4, 8, lambda x, m: x * m), "neither"),
    ],
)
def test_reduce_online_refuses_other_pairs(func: PrimFunc, why: str) -> None:
    sch = schedule(func)
    refused(sch, why, "reduce_online", sch.get_block("M"), sch.get_block("S"))


def test_reduce_online_refuses_other_shapes() -> None:
    sch = schedule(softmax(4, 8))
    first, second = sch.get_block("M"), sch.get_block("S")
    refused(sch, "comes before", "reduce_online", second, first)
    refused(sch, "one scope", "reduce_online", first, first)
    sch.reorder(*reversed(sch.get_loops(second)))
    refused(sch, "plainly the loops", "reduce_online", first, second)
    a = te.placeholder((4, 8), name="A")
    j, k = te.reduce_axis((0, 8), name="j"), te.reduce_axis((0, 4), name="k")
    m = te.compute((4,), lambda i: te.max(a[i, j], axis=j), name="M")
    s = te.compute((8,), lambda i: te.sum(T.exp(a[k, i] - m[k]), axis=k), name="S")
    sch = schedule(te.create_prim_func([a, s]))
    first, second = sch.get_block("M"), sch.get_block("S")
    refused(sch, "do not run over the same", "reduce_online", first, second)


MASKED = """
@T.prim_func
def main(
    A: T.Buffer((4, 8), "float32"), M: T.Buffer((4,), "float32"), S: T.Buffer((4,), "float32")
):
    for i, k in T.grid(4, 8):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(FIRST)
            with T.init():
                M[vi] = T.min_value("float32")
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.where(SECOND)
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
"""


@pytest.mark.parametrize(
    ("first", "second", "which"),
    [("k < 5", "True", "'M'"), ("True", "k < 5", "'S'"), ("k < 5", "k < 5", "'M'"),
     ("i < 3", "i < 3", "'M'"), ("True", "i < 3", "'S'")],
)  # fmt: skip
def test_reduce_online_refuses_conditions(first: str, second: str, which: str) -> None:
    sch = schedule(MASKED.replace("FIRST", first).replace("SECOND", second))
    blocks = sch.get_block("M"), sch.get_block("S")
    refused(sch, f"block {which} runs under a condition", "reduce_online", *blocks)


def test_reduce_online_takes_conditions_that_hold() -> None:
    text = MASKED.replace("FIRST", "True").replace("SECOND", "True")
    sch = schedule(text)
    sch.reduce_online("M", "S")
    check_same(sch, text)
