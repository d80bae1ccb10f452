"""ParallelizeVectorizeUnroll: annotations of the root block."""

from __future__ import annotations

from typing import Any

import pytest

from tileloom.tuner.rules.parallelize_vectorize_unroll import ParallelizeVectorizeUnroll

from .programs import CPU, CUDA, apply, chain, methods, row_sums

PLAIN = {"meta_schedule.parallel": 64, "meta_schedule.vectorize": 64}


def notes(rule: ParallelizeVectorizeUnroll, func: Any, machine: str = CPU) -> dict[str, Any]:
    (sch,) = apply(rule, func, "root", machine)
    return dict(sch.get(sch.get_block("root")).annotations)


def test_reductions_are_unrolled_and_other_programs_are_not() -> None:
    rule = ParallelizeVectorizeUnroll(unroll_max_steps=(16,))
    assert notes(rule, chain(lambda x: x + 1.0)) == PLAIN
    assert notes(rule, row_sums()) == {**PLAIN, "meta_schedule.unroll_explicit": 16}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ParallelizeVectorizeUnroll(max_jobs_per_core=2, unroll_max_steps=()),
         {"meta_schedule.parallel": 8, "meta_schedule.vectorize": 64}),
        (ParallelizeVectorizeUnroll(-1, 32, ()), {"meta_schedule.vectorize": 32}),
        (ParallelizeVectorizeUnroll(-1, -1, ()), {}),
        (ParallelizeVectorizeUnroll(-1, -1, (64,), False), {"meta_schedule.unroll_implicit": 64}),
    ],
)  # fmt: skip
def test_each_attribute(rule: ParallelizeVectorizeUnroll, expected: dict[str, Any]) -> None:
    assert notes(rule, row_sums()) == expected


def test_steps_are_drawn_with_the_same_chance() -> None:
    (sch,) = apply(ParallelizeVectorizeUnroll(), row_sums(), "root")
    trace: Any = sch.trace
    (draw,) = [s for s in trace.insts if s.kind.name == "SampleCategorical"]
    assert draw.attrs == [[0, 16, 64, 512], [0.25] * 4]


def test_other_blocks_are_left_alone() -> None:
    (sch,) = apply(ParallelizeVectorizeUnroll(), row_sums(), "B", CUDA)
    assert methods(sch) == []
