"""Groups as CPU kernels: results of every shape, proofs, parallelism, and what shares a nest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from plan.shapes import ODD_SHAPES, OF_ROWS, PROGRAMS, Program
from sampling import sampled
from tileloom.driver import build
from tileloom.plan import schedule_cpu
from tileloom.schedule import Schedule
from tileloom.target import Target, target

CPU = target("cpu -num-cores=2")


#: NumPy refuses to take the maximum of an empty row.
WITH_MAXIMUM = {
    "last_reduce_max", "elementwise_double_reduce", "elementwise_triple_reduce",
    "broadcast_double_reduce", "broadcast_triple_reduce", "softmax", "log_softmax",
}  # fmt: skip


def check(program: Program, sch: Schedule, shape: tuple[int, ...], tolerance: float = 2e-5) -> None:
    """The results of machine code against NumPy's, in float64."""
    kernel = build(sch.mod["main"])
    inputs = program.inputs(np.random.default_rng(0), shape)
    wanted = program.results(inputs)
    results = [np.full(w.shape, np.nan, "float32") for w in wanted]
    kernel(*inputs, *results)
    for have, want in zip(results, wanted, strict=True):
        scale = max(1.0, float(np.max(np.abs(want), initial=0)))
        np.testing.assert_allclose(have, want, tolerance, tolerance * scale)


def scheduled(program: Program, shape: tuple[Any, ...], cpu: Target = CPU) -> Schedule:
    return schedule_cpu(program.function(shape), cpu)


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_compute_what_they_should(name: str) -> None:
    program = PROGRAMS[name]
    check(program, scheduled(program, program.small), program.small)


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
@pytest.mark.parametrize("name", sampled(OF_ROWS, 4))
def test_odd_extents(name: str, shape: tuple[int, int]) -> None:
    program = PROGRAMS[name]
    if shape[1] == 0 and name in WITH_MAXIMUM:
        pytest.skip("NumPy knows no maximum of nothing")
    check(program, scheduled(program, shape), shape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_schedules_are_proven(name: str) -> None:
    pytest.importorskip("islpy")
    program = PROGRAMS[name]
    assert scheduled(program, program.small).verify().ok


def test_schedules_are_traces() -> None:
    func = PROGRAMS["softmax"].function((5, 67))
    sch = schedule_cpu(func, CPU)
    again = Schedule(func)
    assert sch.trace is not None
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert str(again.mod) == str(sch.mod)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_at_full_size(name: str) -> None:
    program = PROGRAMS[name]
    check(program, scheduled(program, program.shape), program.shape, 1e-3)
