"""Random sequences of primitives: no accepted step changes a result, and isl agrees."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from schedule.common import check_trace
from schedule.random_steps import PROGRAMS, Walker, matmul
from tileloom import Schedule, UserError, build
from tileloom.tir import PrimFunc, run

STEPS = (6, 9, 18)


def inputs_of(func: PrimFunc, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 9, b.static_shape).astype("int32")
        if b.dtype == "int32"
        else rng.uniform(-1, 1, b.static_shape).astype("float32")
        for b in func.buffers
    ]


def try_sequence(seed: int, judge: bool) -> tuple[Counter[str], str]:
    """One random sequence; the names of the steps that were accepted, and the verdict on them."""
    func = PROGRAMS[seed % len(PROGRAMS)]()
    sch = Schedule(func, debug_mask="all", seed=seed + 1)
    walker = Walker(sch, seed)
    for _ in range(STEPS[seed // len(PROGRAMS) % len(STEPS)]):
        walker.step()
    return Counter(walker.accepted), check(sch, func, seed, judge)


def check(sch: Schedule, func: PrimFunc, seed: int, judge: bool) -> str:
    """The results are those of the function, isl agrees, the trace replays now and then.

    Answers the verdict of isl, or why there is none.
    """
    arrays = inputs_of(func, seed)
    wanted, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(func, *wanted)
    scheduled = sch.mod["main"]
    if not sch._layouts:  # the arguments are where they were
        run(scheduled, *got)
        np.testing.assert_allclose(
            got[-1], wanted[-1], rtol=2e-4, atol=2e-5, err_msg=str(sch.trace)
        )
    verdict = ""
    if judge:
        report = sch.verify("main")
        assert not report.violations, f"{report}\n{sch.trace}\n{sch.mod}"
        verdict = report.state if not report.unknown else f"unknown: {report.unknown[0]}"
    if seed % 7 == 0:
        check_trace(sch, func)
    return verdict


def test_some_sequences() -> None:
    accepted: Counter[str] = Counter()
    for seed in range(14):
        accepted += try_sequence(seed, judge=seed % 5 == 0)[0]
    assert len(accepted) >= 12, accepted  # the steps are not all refused


def try_under_a_sum(seed: int) -> Counter[str]:
    """Random steps after a consumer was put where it runs after each step of a sum."""
    func = matmul()
    sch = Schedule(func, debug_mask="all", seed=seed + 1)
    i, j, k = sch.get_loops("C")
    sch.reorder(*[(i, j, k), (i, k, j), (k, i, j)][seed % 3])
    sch.reverse_compute_at("D", k)
    walker = Walker(sch, seed)
    for _ in range(6):
        walker.step()
    check(sch, func, seed, judge=False)
    if [b.static_shape for b in sch.mod["main"].buffers] == [b.static_shape for b in func.buffers]:
        wanted, got = inputs_of(func, seed), inputs_of(func, seed)
        run(func, *wanted)
        try:
            kernel = build(sch.mod["main"])
        except UserError as error:  # stages that blocks do not have (any more)
            assert "pipeline" in error.message, error
            return Counter(walker.accepted)
        kernel(*got)
        np.testing.assert_allclose(got[-1], wanted[-1], rtol=2e-4, atol=2e-5)
    return Counter(walker.accepted)


def test_steps_after_a_consumer_under_a_sum() -> None:
    accepted: Counter[str] = Counter()
    for seed in range(12):
        accepted += try_under_a_sum(seed)
    assert len(accepted) >= 8, accepted


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_sequences(part: int) -> None:
    first = 1000 + part * 100
    verdicts = Counter(try_sequence(seed, judge=True)[1] for seed in range(first, first + 100))
    print(verdicts)
    assert verdicts["ok"] >= 97, verdicts
    for seed in range(part * 10, part * 10 + 10):
        try_under_a_sum(seed)
