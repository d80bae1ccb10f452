"""A candidate in this process: replayed, built, compared with its program, timed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom.runtime import get_num_threads, num_threads
from tileloom.target import Target
from tileloom.tir import IRModule, PrimFunc
from tileloom.tuner.context import TuneContext
from tileloom.tuner.measure import Measurement, MeasureTask, Timing, measure_task
from tileloom.tuner.measure import task as task_module
from tileloom.tuner.measure.inputs import Ranges
from tileloom.tuner.measure.task import Reference, _reference, check_and_time
from tuner.measure.programs import MATMUL, function, tiled

QUICK = Timing(samples=3, sample_seconds=1e-4, seconds=0.05, alone=False)
STEP = "            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"


def wrong(script: str, old: str, new: str, seed: int = 0) -> Measurement:
    """What is found of the program with a part replaced, where the one without it is meant."""
    assert script.count(old) == 1
    kernel = tileloom.build(function(script.replace(old, new)))
    return check_and_time(kernel, _reference(script, seed), MeasureTask(script, "", timing=QUICK))


def test_a_right_candidate_is_timed() -> None:
    found = measure_task(MeasureTask(MATMUL, tiled(), timing=QUICK))
    assert found.status == "ok" and found.is_ok and not found.error
    assert 2 <= len(found.seconds) <= 3 and 0 < found.median < 1e-2
    assert found.build_seconds > 0 and found.spread >= 0
    assert found.baseline_seconds == () and math.isnan(found.ratio)
    # Inputs are such that sums come out the same in every order.
    assert found.greatest_error == 0


def test_a_baseline_is_measured_in_turns() -> None:
    task = MeasureTask(MATMUL, tiled(), baseline=tiled(tile=2), timing=QUICK)
    found = measure_task(task)
    assert len(found.seconds) == len(found.baseline_seconds) > 0 and 0.01 < found.ratio < 100
    found = measure_task(MeasureTask(MATMUL, tiled(), baseline="[[], 7]", timing=QUICK))
    assert found.is_ok and not found.baseline_seconds
    assert found.error.startswith("the baseline cannot be built: UserError")


def test_what_was_measured_before_says_what_is_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([(3.0, 2.0, 9.0), (4.0,), (1.0,)])
    incumbents: list[float | None] = []

    def sample(
        _kernel: object, _baseline: object, incumbent: float | None, _timing: Timing
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        incumbents.append(incumbent)
        return next(found), ()

    monkeypatch.setattr("tileloom.tuner.measure.task.sample_times", sample)
    script = f"{MATMUL}\n"  # nothing was measured of it
    for known in (None, None, 2.5):
        measure_task(MeasureTask(script, tiled(), incumbent=known, timing=QUICK))
    assert incumbents == [None, 3.0, 2.5]


def test_the_task_of_a_trace() -> None:
    sch = tileloom.Schedule(IRModule({"main": function(MATMUL)}), seed=2)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    tiles = sch.sample_perfect_tile(sch.get_loops(block)[0], n=2)
    sch.split(sch.get_loops(block)[0], tiles)
    context = TuneContext(IRModule({"main": function(MATMUL)}), Target.host())
    assert sch.trace is not None
    task = MeasureTask.of(context, sch.trace, seed=3, timing=QUICK)
    assert task.target == Target.host() and task.seed == 3
    assert json.loads(task.trace) == sch.trace.as_json()
    assert measure_task(task).is_ok


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (STEP, STEP.replace("B[vk, vj]", "B[vk, (vj + 1) % 32]"), "C is off by"),
        (STEP, STEP.replace(STEP[12:], "if vk < 23:\n                ") + STEP[12:], "C is off by"),
        (STEP, STEP + " + T.float32(0.01)", "C is off by"),
        (STEP, STEP + "\n            A[0, 0] = T.float32(3)", "A is only read, but changed"),
        (STEP, STEP + " / T.float32(0)", "C is off by inf"),
    ],
    ids=["another element", "a term too few", "a constant", "an input", "infinity"],
)
def test_a_wrong_candidate_is_rejected(old: str, new: str, said: str) -> None:
    found = wrong(MATMUL, old, new)
    assert found.status == "wrong" and found.error.startswith(said)
    assert not found.seconds and found.median == math.inf and found.greatest_error > 1e-3


def test_a_write_outside_is_seen_and_does_not_stay() -> None:
    kernel = tileloom.build(function(MATMUL))
    reference = _reference(MATMUL, 0)
    assert reference.terms == 24  # of each sum, which the tolerance goes by

    def writes_too_far(a: Any, b: Any, c: Any) -> None:
        kernel(a, b, c)
        beyond = np.lib.stride_tricks.as_strided(c, (c.size + 1,), (4,))
        beyond[c.size] = 1.0

    task = MeasureTask(MATMUL, "", timing=QUICK)
    found = check_and_time(writes_too_far, reference, task)
    assert found.status == "wrong" and found.error == "something was written outside of C"
    assert check_and_time(kernel, reference, task).is_ok


@pytest.mark.parametrize(
    ("script", "trace", "said"),
    [
        (MATMUL, "[[", "JSONDecodeError"),
        (MATMUL, '[[["GetBlock", [], ["D", "main"], ["b0"]]], []]', "ScheduleError"),
        ("def", "[[], []]", "ParseError"),
        (MATMUL.replace("16, 24", "T.int64(16), n"), "[[], []]", "ParseError"),
        (MATMUL.replace("A: ", "n: T.int32, A: ").replace("16, 24", "16, n"), "[[], []]", "size"),
    ],
    ids=["json", "step", "script", "undefined size", "open size"],
)
def test_an_error_is_a_measurement(script: str, trace: str, said: str) -> None:
    found = measure_task(MeasureTask(script, trace, timing=QUICK))
    assert found.status == "error" and said in found.error and not found.seconds


GATHER = """
@T.prim_func
def main(A: T.Buffer((9, 4)), rows: T.Buffer((16,), "int32"), C: T.Buffer((16, 4))):
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.log(A[{row}, vj])
"""


@pytest.mark.parametrize("row", ["rows[vi]", "rows[vi] * 2", "rows[vi] * 8 + 8"])
def test_inputs_suit_the_program(row: str) -> None:
    """Indices lie within what they index, and a logarithm is given positive numbers."""
    script = GATHER.format(row=row)
    reference = _reference(script, 0)
    a, _, _ = reference.inputs
    assert (a > 0).all() and np.isfinite(reference.outputs[2]).all()
    assert measure_task(MeasureTask(script, tiled(script), timing=QUICK)).is_ok


def test_inputs_are_a_matter_of_the_seed() -> None:
    first = _reference(MATMUL, 5)
    _reference.cache_clear()
    again, other = _reference(MATMUL, 5), _reference(MATMUL, 6)
    for old, new, another in zip(first.inputs, again.inputs, other.inputs):
        np.testing.assert_array_equal(old, new)
        assert not np.array_equal(old, another)


def test_a_program_runs_once_as_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Ranges] = []
    run = task_module._run

    def counted(func: PrimFunc, kernel: Any, seed: int, ranges: Ranges) -> Any:
        runs.append(ranges)
        return run(func, kernel, seed, ranges)

    monkeypatch.setattr(task_module, "_run", counted)
    _reference.cache_clear()
    for tile in (2, 4):
        assert measure_task(MeasureTask(MATMUL, tiled(tile=tile), timing=QUICK)).is_ok
    assert runs == [Ranges()]


def test_gpu_code_is_checked_on_the_emulator() -> None:
    sch = tileloom.Schedule(IRModule({"main": function(MATMUL)}))
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    assert sch.trace is not None
    text = json.dumps(sch.trace.as_json())
    timing = Timing(samples=1, sample_seconds=0.0, alone=False)
    target = "cuda -arch=sm_80"
    found = measure_task(MeasureTask(MATMUL, text, target, device="emulator", timing=timing))
    assert found.is_ok and found.greatest_error == 0


STEP_IN_PLACE = """
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,))):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = A[vi] * T.float32(3)
            B[vi] = A[vi]
"""


def test_each_sample_begins_with_the_inputs() -> None:
    """Else numbers would grow without end."""
    reference = _reference(STEP_IN_PLACE, 0)
    run = reference.running(tileloom.build(function(STEP_IN_PLACE)))
    for count in (4, 2, 2):
        run.clock(count)
        np.testing.assert_array_equal(reference.arguments[0], reference.inputs[0] * 3**count)
    assert reference.restored == (0,) and _reference(MATMUL, 0).restored == ()


def test_threads_of_the_tuner_are_those_of_the_worker() -> None:
    timing = Timing(samples=1, sample_seconds=0.0, alone=False)
    seen: list[int] = []

    def judge(*_: Any) -> tuple[float, str]:
        seen.append(get_num_threads())
        return 0.0, ""

    with pytest.MonkeyPatch.context() as patch, num_threads(3):
        patch.setattr(Reference, "judge", judge)
        measure_task(MeasureTask(MATMUL, tiled(), threads=5, timing=timing))
        measure_task(MeasureTask(MATMUL, tiled(), timing=timing))
    assert seen == [5, 3]


def test_code_for_the_processor_of_another_machine_is_not_run() -> None:
    other = replace(Target.host(), identity="of another processor")
    found = measure_task(MeasureTask(MATMUL, tiled(), other, timing=QUICK))
    assert found.status == "lost" and "another machine" in found.error
