"""Binding loops to the blocks and threads of a GPU: by hand, and by AutoBind."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom import te
from tileloom.schedule import Schedule
from tileloom.tir import PrimFunc
from tileloom.tuner.rules.auto_bind import AutoBind
from tileloom.tuner.rules.binding import bind_block, sampled_extent

from .programs import CUDA, apply, assert_same, chain, methods, row_sums


def nest(sch: Schedule, block: str) -> list[tuple[str, int | None]]:
    """Thread axes (or nothing) and extents of the loops around a block."""
    found = [sch.get(loop) for loop in sch.get_loops(block)]
    return [(f.thread_binding.thread_tag if f.thread_binding else "", f.static_extent)
            for f in found]  # fmt: skip


def bound(func: PrimFunc, block: str, steps: Any = None, blocks: int = 256) -> Schedule:
    sch = Schedule(func, debug_mask="all")
    if steps is not None:
        steps(sch)
    bind_block(sch, sch.get_block(block), blocks, 1024, lambda most: min(most, 8))
    return sch


def test_loops_that_place_results_become_one() -> None:
    func = chain(lambda x: x + 1.0)
    sch = bound(func, "B0")
    assert nest(sch, "B0") == [("blockIdx.x", 8), ("threadIdx.x", 8)]
    assert_same(func, [sch])


def test_loops_that_reduce_stay_serial() -> None:
    func = row_sums(32, 16)
    sch = bound(func, "B")
    assert nest(sch, "B") == [("blockIdx.x", 4), ("threadIdx.x", 8), ("", 16)]
    assert_same(func, [sch])


def test_threads_that_are_there_get_blocks_around_them() -> None:
    func = row_sums(32, 16)
    sch = bound(func, "B", lambda s: s.bind(s.get_loops("B")[1], "threadIdx.x"))
    assert nest(sch, "B") == [("blockIdx.x", 32), ("threadIdx.x", 16)]


def test_a_reduction_to_one_number_gets_a_loop_of_its_own() -> None:
    a, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), "k")
    func = te.create_prim_func([a, te.compute((), lambda: te.sum(a[k], k), name="B")])
    sch = bound(func, "B")
    assert nest(sch, "B") == [("blockIdx.x", 1), ("threadIdx.x", 1), ("", 64)]
    sch = bound(func, "B", lambda s: s.bind(s.get_loops("B")[0], "threadIdx.x"))
    assert nest(sch, "B") == [("blockIdx.x", 1), ("threadIdx.x", 64)]


def test_a_block_without_loops_gets_one() -> None:
    func = chain(lambda x: x + 1.0, shape=())
    assert nest(bound(func, "B0"), "B0") == [("blockIdx.x", 1), ("threadIdx.x", 1)]


def test_loops_that_hold_more_are_fused_no_further() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0)
    sch = bound(func, "B1", lambda s: s.compute_at("B0", s.get_loops("B1")[0]))
    assert nest(sch, "B1") == [("blockIdx.x", 1), ("threadIdx.x", 8), ("", 8)]
    assert nest(sch, "B0") == nest(sch, "B1")
    assert_same(func, [sch])


def test_loops_of_other_kinds_are_fused_no_further() -> None:
    sch = bound(chain(lambda x: x + 1.0), "B0", lambda s: s.unroll(s.get_loops("B0")[1]))
    assert nest(sch, "B0") == [("blockIdx.x", 1), ("threadIdx.x", 8), ("", 8)]


def test_more_work_than_blocks_goes_in_strides() -> None:
    func = chain(lambda x: x + 1.0, shape=(4096, 1024))
    sch = bound(func, "B0")
    assert nest(sch, "B0") == [("blockIdx.x", 256), ("threadIdx.x", 1024), ("", 16)]
    fits = bound(chain(lambda x: x + 1.0, shape=(256, 1024)), "B0")
    assert nest(fits, "B0") == [("blockIdx.x", 32768), ("threadIdx.x", 8)]


def test_what_is_bound_or_tiled_is_left_alone() -> None:
    func = chain(lambda x: x + 1.0)
    once = bound(func, "B0")
    before = methods(once)
    bind_block(once, once.get_block("B0"), 256, 1024, lambda most: 8)
    assert methods(once) == before
    tiled = bound(func, "B0", lambda s: s.annotate("B0", "meta_schedule.tiling_structure", "S"))
    assert nest(tiled, "B0") == [("", 8), ("", 8)]
    assert nest(bound(func, "root"), "B0") == [("", 8), ("", 8)]


@pytest.mark.parametrize(("most", "fitting"), [(1, []), (32, [32]), (100, [32, 64])])
def test_extents_are_drawn_from_those_that_fit(most: int, fitting: list[int]) -> None:
    sch = Schedule(chain(lambda x: x + 1.0), seed=1)
    found = sampled_extent(sch, [32, 64, 128])(most)
    trace: Any = sch.trace
    if len(fitting) < 2:
        assert found == (fitting[0] if fitting else most)
        assert not trace.insts
    else:
        assert trace.insts[0].attrs == [fitting, [0.5, 0.5]]
        assert sch.get(found) in fitting


def test_auto_bind_asks_the_target_for_its_threads() -> None:
    func = chain(lambda x: x + 1.0, shape=(64, 64))
    for limit, steps in ((-1, [32, 64, 128, 256, 512, 1024]), (128, [32, 64, 128])):
        (sch,) = apply(AutoBind(max_threads_per_block=limit), func, "B0", CUDA)
        trace: Any = sch.trace
        drawn = [s.attrs[0] for s in trace.insts if s.kind.name == "SampleCategorical"]
        assert drawn == [steps]
        assert_same(func, [sch])
    (sch,) = apply(AutoBind(max_threadblocks=2), func, "B0", CUDA)
    assert nest(sch, "B0") == [("blockIdx.x", 2), ("threadIdx.x", 1024), ("", 2)]
