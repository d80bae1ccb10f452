"""Random sequences of primitives: no accepted step changes a result, and isl agrees."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from schedule.common import check_trace
from schedule.random_steps import PROGRAMS, Walker
from tileloom import Schedule
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


def try_sequence(seed: int, judge: bool) -> Counter[str]:
    """One random sequence; the names of the steps that were accepted."""
    func = PROGRAMS[seed % len(PROGRAMS)]()
    sch = Schedule(func, debug_mask="all", seed=seed + 1)
    walker = Walker(sch, seed)
    for _ in range(STEPS[seed // len(PROGRAMS) % len(STEPS)]):
        walker.step()
    arrays = inputs_of(func, seed)
    wanted, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(func, *wanted)
    scheduled = sch.mod["main"]
    shapes = [b.static_shape for b in scheduled.buffers]
    if shapes == [b.static_shape for b in func.buffers]:
        run(scheduled, *got)
        np.testing.assert_allclose(
            got[-1], wanted[-1], rtol=2e-4, atol=2e-5, err_msg=str(sch.trace)
        )
        if judge:
            report = sch.verify("main")
            # Iterations that a condition leaves out are called missing where the comparison with
            # the original cannot tell that no term is lost; consumers that run after each step of
            # a sum take unfinished ones before the last. For both the results above speak.
            wrong = [v for v in report.violations if v.kind not in ("missing", "unfinished")]
            assert not wrong, f"{report}\n{sch.trace}\n{sch.mod}"
    if seed % 7 == 0:
        check_trace(sch, func)
    return Counter(walker.accepted)


def test_some_sequences() -> None:
    accepted: Counter[str] = Counter()
    for seed in range(60):
        accepted += try_sequence(seed, judge=seed % 6 == 0)
    assert len(accepted) >= 12, accepted  # the steps are not all refused


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_sequences(part: int) -> None:
    for seed in range(1000 + part * 100, 1000 + part * 100 + 100):
        try_sequence(seed, judge=seed % 3 == 0)
