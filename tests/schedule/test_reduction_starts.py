"""What a reduction with an init is: its start, its places, and who relies on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from schedule.common import check_same, check_trace, parse, refused, schedule
from tileloom import Schedule, build
from tileloom.lower import lower
from tileloom.simt import run_kernels
from tileloom.target import target
from tileloom.tir import PrimFunc, run

SUM = """
@T.prim_func
def main(A: T.Buffer((4, 12), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = START
            C[vi] = COMBINED
"""

PAIR = """
@T.prim_func
def main(
    A: T.Buffer((4, 12), "float32"), C: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")
):
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(FIRST)
                D[vi] = T.float32(SECOND)
            C[vi] = C[vi] + A[vi, vk]
            D[vi] = D[vi] + A[vi, vk] * A[vi, vk]
"""

PLACES = """
@T.prim_func
def main(A: T.Buffer((6, 6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for i, j, k in T.grid(6, 6, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[INIT] = T.float32(0)
            C[UPDATE] = C[UPDATE] + A[vi, vj, vk]
"""


def total(start: str, combined: str = "C[vi] + A[vi, vk]") -> str:
    return SUM.replace("START", start).replace("COMBINED", combined)


def pair(first: int, second: int) -> str:
    return PAIR.replace("FIRST", str(first)).replace("SECOND", str(second))


def places(init: str, update: str) -> str:
    return PLACES.replace("INIT", init).replace("UPDATE", update)


@pytest.mark.parametrize(
    "text",
    [
        total("T.float32(1)"),
        total("A[vi, 0]"),
        total("T.float32(0)", "C[vi] * A[vi, vk]"),
        total("T.float32(2)", "C[vi] * A[vi, vk]"),
        pair(0, 1),
        pair(1, 0),
    ],
)
def test_parts_of_a_sum_start_at_the_neutral_value(text: str) -> None:
    sch = schedule(text)
    refused(sch, "each count that", "rfactor", sch.get_loops("C")[1], 0)


@pytest.mark.parametrize(
    "text",
    [
        total("T.float32(0)"),
        total("T.float32(-0.0)"),
        total("T.float32(1)", "C[vi] * A[vi, vk]"),
        total("T.float32(1.5)", "T.max(C[vi], A[vi, vk])"),
        total("A[vi, 3]", "T.min(C[vi], A[vi, vk])"),
        pair(0, 0),
    ],
)
@pytest.mark.parametrize("factors", [[3, None], [None, 5]])
def test_parts_may_repeat_some_starts(text: str, factors: list[int | None]) -> None:
    sch = schedule(text)
    outer, _ = sch.split(sch.get_loops("C")[1], factors)
    sch.rfactor(outer, 0)
    check_same(sch, text)
    check_trace(sch, text)
    assert not sch.verify().violations


def decompose(sch: Schedule) -> tuple[object, ...]:
    return "decompose_reduction", sch.get_block("C"), sch.get_loops("C")[2]


def split_off(sch: Schedule) -> tuple[object, ...]:
    return "loop_partition", sch.get_loops("C")[2], [2, None]


STEPS: list[Callable[[Schedule], tuple[object, ...]]] = [
    decompose, split_off,
    lambda sch: ("rfactor", sch.get_loops("C")[2], 0),
    lambda sch: ("bind", sch.get_loops("C")[2], "threadIdx.x"),
    lambda sch: ("parallel", sch.get_loops("C")[0]),
    lambda sch: ("reorder", *reversed(sch.get_loops("C"))),
    lambda sch: ("blockize", sch.get_loops("C")[1]),
    lambda sch: ("cache_write", sch.get_block("C"), 0, "local"),
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("init", "update", "why"),
    [
        ("vj, vi", "vi, vj", r"starts C\[vj, vi\], and what it updates is C\[vi, vj\]"),
        ("vi, 0", "vi, vj", "starts"),
        ("vi, vk", "vi, vj", "reduction variable 'vk'"),
        ("vi, 0", "vi, 0", "'vj' is in no index"),
    ],
)
def test_starts_are_at_the_places_of_the_sums(
    step: Callable[[Schedule], tuple[str, object]], init: str, update: str, why: str
) -> None:
    sch = schedule(places(init, update))
    method, *args = step(sch)
    refused(sch, f"{why}|writes more of", str(method), *args)


def test_a_start_of_the_reduction_variable() -> None:
    text = total("A[vi, vk]")
    sch = schedule(text)
    refused(
        sch, "depends on the reduction", "decompose_reduction", sch.get_block("C"),
        sch.get_loops("C")[1],
    )  # fmt: skip


def test_other_starts_can_be_decomposed() -> None:
    for text in (total("T.float32(3)"), total("A[vi, 2]"), pair(1, 2)):
        sch = schedule(text)
        sch.decompose_reduction("C", sch.get_loops("C")[0])
        check_same(sch, text)


@pytest.mark.parametrize("text", [total("T.float32(3)"), pair(1, 2), pair(0, 5)])
@pytest.mark.parametrize("factor", [12, 4, 5])
def test_threads_count_a_start_once(text: str, factor: int) -> None:
    sch = schedule(text)
    i, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, factor])[1], "threadIdx.x")
    func = parse(text)
    wanted, got = inputs(func), inputs(func)
    run(func, *wanted)
    run_kernels(lower(sch.mod["main"], target("cuda")), *got)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


def test_annotations_stay_with_both_parts() -> None:
    sch = schedule(total("T.float32(3)"))
    block = sch.get_block("C")
    sch.annotate(block, "meta_schedule.tiling_structure", "SSRSRS")
    init = sch.decompose_reduction(block, sch.get_loops(block)[1])
    for part in (init, block):
        assert sch.get(part).annotations == {"meta_schedule.tiling_structure": "SSRSRS"}
    arrays = inputs(parse(total("T.float32(3)")))
    build(sch.mod["main"])(*arrays)
    np.testing.assert_allclose(arrays[1], arrays[0].sum(1) + 3, rtol=1e-5)


def inputs(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.uniform(1, 2, b.static_shape).astype("float32") for b in func.buffers]
