"""Samples in turns, outliers, kernels that are not worth more samples; with clocks of our own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time

import pytest

from tileloom.tuner.measure import Timing
from tileloom.tuner.measure import timing as timing_module
from tileloom.tuner.measure.timing import sample_times, turn, without_outliers


class Clock:
    """A kernel that takes so long, call by call, and remembers for how many calls it was asked."""

    def __init__(self, seconds: float, log: list[str] | None = None, name: str = "") -> None:
        self.seconds, self.log, self.name = seconds, log, name
        self.counts: list[int] = []

    def __call__(self, count: int) -> float:
        self.counts.append(count)
        if self.log is not None:
            self.log.append(self.name)
        return self.seconds * count


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_module, "_preemptions", lambda: 0)


def test_a_sample_takes_a_while() -> None:
    clock = Clock(1e-6)
    seconds, others = sample_times(clock, None, None, Timing(samples=5, sample_seconds=2e-3))
    assert len(seconds) == 5 and others == () and seconds[0] == pytest.approx(1e-6)
    assert 2000 <= clock.counts[-1] <= 2500 and clock.counts[0] == 1


def test_samples_take_turns() -> None:
    log: list[str] = []
    clocks = Clock(1.0, log, "a"), Clock(2.0, log, "b")
    seconds, others = sample_times(*clocks, None, Timing(samples=4, hopeless=9.0))
    assert "".join(log[2:]) == "abbaabba"
    assert (seconds, others) == ((1.0,) * 4, (2.0,) * 4)


def test_short_calls_find_caches_as_their_own_kernel_leaves_them() -> None:
    short, long = Clock(1e-3), Clock(1e-2)
    sample_times(short, long, None, Timing(samples=2))
    assert short.counts == [1, 1, 3, 1, 3, 1, 3] and long.counts == [1, 1, 1, 1]


def test_a_slow_first_call_says_nothing() -> None:
    first = itertools.chain([5e-3], itertools.repeat(1e-3))
    found, _ = sample_times(lambda count: next(first) * count, None, 1e-3, Timing())
    assert set(found) == {1e-3} and len(found) == 10


@pytest.mark.parametrize(
    ("seconds", "baseline", "incumbent", "samples"),
    [
        *((2.0, None, 1.0, 3), (1.2, None, 1.0, 10), (2.0, 1.0, None, 3), (2.0, 1.9, None, 10)),
        *((2.0, 1.9, 1.0, 10), (4.1, None, 1.0, 1), (4.1, 1.0, None, 1)),
    ],
)
def test_what_is_clearly_slower_is_not_measured_for_long(
    seconds: float, baseline: float | None, incumbent: float | None, samples: int
) -> None:
    other = None if baseline is None else Clock(baseline)
    found, _ = sample_times(Clock(seconds), other, incumbent, Timing())
    assert len(found) == samples


def test_there_is_an_end_to_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(0.0, 0.3)
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    assert len(sample_times(Clock(1.0), None, None, Timing(seconds=1.0))[0]) == 4


def test_samples_that_were_interrupted_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second round is; `_preemptions` is asked before and after each."""
    calls = itertools.count()
    monkeypatch.setattr(timing_module, "_preemptions", lambda: (next(calls) + 1) // 4)
    clock = Clock(1.0)
    found, _ = sample_times(clock, None, None, Timing(samples=10, seconds=60))
    assert len(found) == 10 and len(clock.counts) == 20


def test_a_disturbed_sample_gives_nothing_up_that_may_be_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing_module, "_preemptions", itertools.count().__next__)
    for seconds, samples in ((4.1, 3), (20.1, 1)):
        assert len(sample_times(Clock(seconds), None, 1.0, Timing(seconds=60))[0]) == samples


def test_on_a_busy_machine_interrupted_samples_are_better_than_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing_module, "_preemptions", itertools.count().__next__)
    clock = Clock(1.0)
    found, _ = sample_times(clock, None, None, Timing(samples=4))
    assert len(found) == 12 and len(clock.counts) == 13


def test_outliers_take_their_partners_along() -> None:
    rounds = [[1.0, 2.0], [1.01, 2.02], [0.99, 1.98], [1.0, 9.0], [5.0, 2.0]]
    assert without_outliers(rounds) == rounds[:3]
    assert without_outliers([[1.0]] * 9 + [[1.001]]) == [[1.0]] * 9 + [[1.001]]
    assert without_outliers([[1.0], [9.0]]) == [[1.0], [9.0]]


def test_one_process_at_a_time(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    log = os.path.join(str(tmp_path), "log")
    processes = [
        multiprocessing.get_context("fork").Process(target=take_turns, args=(log,))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with open(log) as file:
        text = file.read()
    assert text == "<>" * 40


def take_turns(log: str) -> None:
    for _ in range(20):
        with turn(True), open(log, "a", buffering=1) as file:
            file.write("<")
            file.flush()
            os.sched_yield()
            file.write(">")


def test_who_stands_still_is_not_waited_for_for_ever(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(timing_module, "TURN_SECONDS", 0.02)
    with turn(True):
        start = time.monotonic()
        with turn(True):
            assert 0.02 <= time.monotonic() - start < 2
