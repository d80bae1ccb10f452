"""AddRFactor: partial results of the outer loop, of the inner one, and none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tileloom import te
from tileloom.tir import PrimFunc
from tileloom.tuner.rules.add_rfactor import AddRFactor

from .programs import apply, assert_same, blocks, extents, product, row_sums, script


def norm() -> PrimFunc:
    a = te.placeholder((3, 8, 12), name="A")
    i, j = te.reduce_axis((0, 8), "i"), te.reduce_axis((0, 12), "j")
    return te.create_prim_func(
        [a, te.compute((3,), lambda b: te.sum(a[b, i, j] * a[b, i, j], [i, j]), name="B")]
    )


@pytest.mark.parametrize("func", [row_sums(), norm()])
def test_three_ways_with_the_same_result(func: PrimFunc) -> None:
    found = apply(AddRFactor(), func, "B")
    assert [blocks(sch) for sch in found] == [["B_rf", "B"], ["B_rf", "B"], ["B"]]
    assert_same(func, found)
    notes = [sch.get(sch.get_block("B")).annotations for sch in found]
    marked = {"meta_schedule.random_compute_producer": 1}
    assert notes == [marked, marked, {}]


def test_partial_results_are_those_of_the_outer_and_of_the_inner_loop() -> None:
    outer, inner, _ = apply(AddRFactor(), row_sums(), "B")
    trace: Any = outer.trace
    (factors,) = [d for i, d in trace.decisions.items() if i.kind.name == "SamplePerfectTile"]
    assert extents(outer, "B") == [4, factors[0]]
    assert extents(inner, "B") == [4, factors[1]]
    buffer = outer.get(outer.get_block("B_rf")).writes[0].buffer
    assert tuple(int(n) for n in buffer.shape) == (4, factors[0])


def test_a_limit_of_the_inner_loop() -> None:
    for seed in range(1, 9):
        _, inner, _ = apply(AddRFactor(max_innermost_factor=4), row_sums(), "B", seed=seed)
        assert extents(inner, "B")[1] in (1, 2, 4)


def test_enough_results_for_all_cores_need_no_parts() -> None:
    func = product(8, 8, 512)
    assert len(apply(AddRFactor(), func, "C")) == 3  # 64 results for 4 cores with 16 jobs each
    assert len(apply(replace(AddRFactor(), max_jobs_per_core=15), func, "C")) == 1


def test_a_loop_that_is_refused_is_left_out() -> None:
    # No reducer is known for a difference, so there are no partial results at all.
    func = script("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            x, y = T.axis.remap("SR", [i, k])
            with T.init():
                B[x] = 0.0
            B[x] = A[x, y] - B[x]
""")
    (sch,) = apply(AddRFactor(), func, "B")
    assert blocks(sch) == ["B"]
    assert extents(sch, "B") == [4, 8]
