"""RandomComputeLocation: which blocks get a place by chance."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.schedule import Schedule
from tileloom.target import target
from tileloom.tuner.context import TuneContext
from tileloom.tuner.rules.add_rfactor import AddRFactor
from tileloom.tuner.rules.random_compute_location import RandomComputeLocation

from .programs import CPU, apply, assert_same, chain, methods, row_means, script

MOVED = ["get_block", "sample_compute_location", "compute_at"]
FUNC = chain(lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x - 3.0)


def placed(sch: Schedule, block: str) -> list[str]:
    """The steps that the rule takes on a block."""
    rule = RandomComputeLocation()
    (after,) = rule.apply(sch, sch.get_block(block), TuneContext(sch.mod, target(CPU)))
    return methods(after)


def test_a_block_with_consumers_gets_a_place() -> None:
    seen = set()
    for seed in range(1, 2**30, 2**26):
        (sch,) = apply(RandomComputeLocation(), FUNC, "B1", seed=seed)
        assert methods(sch) == MOVED
        trace: Any = sch.trace
        seen |= set(trace.decisions.values())
        assert_same(FUNC, [sch])
    assert seen == {-2, -1, 0, 1}  # inlined, left at the root, under either loop


@pytest.mark.parametrize("block", ["B2", "root"])
def test_without_consumers_there_is_no_place(block: str) -> None:
    assert placed(Schedule(FUNC), block) == []


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        (lambda s: s.annotate("B1", "meta_schedule.tiling_structure", "S"), 0),
        (lambda s: s.compute_at("B0", s.get_loops("B1")[0]), 0),  # not alone in its loops
        (lambda s: s.split(s.get_loops("B1")[0], [2, None]), 1),
        (lambda s: s.blockize(s.get_loops("B1")[0]), 0),  # inside of another block
    ],
)
def test_what_others_have_done(steps: Any, count: int) -> None:
    sch = Schedule(FUNC)
    steps(sch)
    assert placed(sch, "B1").count("sample_compute_location") == count


def test_partial_results_get_a_place_too() -> None:
    func = row_means()
    sch = apply(AddRFactor(), func, "B")[0]
    before = len(methods(sch))
    (after,) = RandomComputeLocation().apply(
        sch, sch.get_block("B"), TuneContext(sch.mod, target(CPU))
    )
    assert methods(after)[before:][-5:] == ["unannotate", *MOVED[1:], *MOVED[1:]]
    assert not after.get(after.get_block("B")).annotations
    assert_same(func, [after])


def test_a_block_without_loops_stays() -> None:
    func = chain(lambda x: x + 1.0, lambda x: x * 2.0, shape=())
    assert placed(Schedule(func), "B0") == []


def test_blocks_inside_of_others_stay() -> None:
    func = script("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    for n in range(4):
        with T.block("outer"):
            x = T.axis.spatial(4, n)
            B = T.alloc_buffer((8,), "float32")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[x, v] + 1.0
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    C[x, v] = B[v] * 2.0
""")
    assert placed(Schedule(func), "B") == []
