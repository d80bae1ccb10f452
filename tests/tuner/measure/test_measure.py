"""Many candidates on executors, in order, whatever happens to some of them."""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from functools import partial
from typing import Any

import pytest

from tileloom.base.errors import UserError
from tileloom.tuner.measure import (
    Limits,
    LocalExecutor,
    MeasureError,
    Measurement,
    MeasureTask,
    Timing,
    executor_of,
    measure,
)
from tileloom.tuner.measure.executors import RayExecutor
from tileloom.tuner.measure.measure import outcome
from tuner.measure.programs import MATMUL, tiled

QUICK = Timing(samples=3, sample_seconds=1e-4, seconds=0.05)
#: Waits for what no input is.
ENDLESS = """
@T.prim_func
def main(A: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
    while A[0] != 77:
        B[0] = B[0] + A[0]
"""
CRASH = """
@T.prim_func
def main(A: T.Buffer((1,), "int32")):
    T.evaluate(T.call_extern("int32", "abort"))
"""
NO_STEP = '[[["GetBlock", [], ["D", "main"], ["b0"]]], []]'


def test_candidates_on_a_local_executor() -> None:
    right, wrong = MeasureTask(MATMUL, tiled(), timing=QUICK), MeasureTask(MATMUL, NO_STEP)
    with LocalExecutor() as executor:
        assert [m.status for m in measure([right, wrong], executor)] == ["ok", "error"]
        with pytest.raises(UserError, match="limits of its own"):
            measure([right], executor, Limits())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LocalExecutor, ThreadPoolExecutor, ProcessPoolExecutor])
def test_candidates_that_take_their_process_along(kind: type[Executor]) -> None:
    """On executors that have no limits and survive no crash, too."""
    programs = (MATMUL, ENDLESS, CRASH, MATMUL)
    traces = (tiled(), "[[], []]", "[[], []]", tiled(tile=2))
    tasks = [MeasureTask(*pair, timing=QUICK) for pair in zip(programs, traces)]
    limits = Limits(seconds=5.0)
    own = {"limits": limits} if kind is LocalExecutor else {}
    with kind(1, **own) as executor:  # type: ignore[call-arg]
        found = list(measure(tasks, executor, None if own else limits))
    assert [m.status for m in found] == ["ok", "timeout", "crash", "ok"]
    assert "longer than 5 seconds" in found[1].error and "SIGABRT" in found[2].error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MeasureError("timeout", "too long"), "timeout"),
        (MeasureError("crash", "SIGSEGV"), "crash"),
        (MeasureError("memory", "too much"), "crash"),
        (MeasureError("killed", "twice"), "crash"),
        (MeasureError("error", "Stubborn"), "error"),
        (RuntimeError("worker lost"), "lost"),
        (CancelledError(), "lost"),
    ],
)
def test_an_outcome_for_every_fate(error: Exception, status: str) -> None:
    future: Future[Measurement] = Future()
    future.set_exception(error)
    found = outcome(future)
    assert found.status == status and not found.seconds
    assert (str(error) or "cancelled") in found.error


class Broken(Executor):
    """An executor that has lost its workers."""

    def submit(self, *_: object, **__: object) -> Future[Measurement]:  # type: ignore[override]
        raise RuntimeError("no worker is left")


def test_a_broken_executor_leaves_measurements() -> None:
    found = list(measure([MeasureTask(MATMUL, "[[], []]")] * 2, Broken()))
    assert [m.status for m in found] == ["lost"] * 2 and "no worker is left" in found[0].error


def test_a_closed_iterator_cancels_what_is_left() -> None:
    futures: list[Future[Measurement]] = []

    class Slow(Executor):
        def submit(self, *_: object, **__: object) -> Future[Measurement]:  # type: ignore[override]
            futures.append(Future())
            return futures[-1]

    found = measure([MeasureTask(MATMUL, "[[], []]")] * 3, Slow())
    futures[0].set_result(Measurement("ok", (1.0,)))
    assert next(found).median == 1.0
    found.close()  # type: ignore[attr-defined]
    assert [future.cancelled() for future in futures] == [False, True, True]


# ---------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("url", ["", "local:", "local:x", "local4", "dask://", "http://x:1", "ray"])
def test_addresses_that_mean_nothing(url: str) -> None:
    with pytest.raises(UserError, match="the address of no executor"):
        executor_of(url)
    with pytest.raises(UserError, match="at least one worker"):
        executor_of("local:0")


@pytest.mark.parametrize(("scheme", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_named(
    scheme: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileloom.tuner.measure.executors.find_spec", lambda _: None)
    with pytest.raises(UserError, match=rf"'{package}'(?s:.)*tileloom\[{scheme}\]"):
        executor_of(f"{scheme}://localhost:1")


def test_local_addresses() -> None:
    limits = Limits(seconds=3.0)
    with executor_of("local:3", limits) as executor:
        assert isinstance(executor, LocalExecutor)
        assert (executor.workers, executor.limits) == (3, limits)


class Ray:
    """A stand-in for the package: tasks run in a thread, and what is cancelled runs on."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.asked: list[object] = []

    def remote(self, **options: object) -> Callable[[Callable[..., object]], object]:
        self.asked.append(options)
        return lambda function: types.SimpleNamespace(remote=partial(self.start, function))

    def start(self, *call: Any) -> object:
        future: Future[object] = self.pool.submit(*call)
        return types.SimpleNamespace(future=lambda: future)

    def cancel(self, _: object) -> None:
        self.asked.append("cancel")


def test_tasks_of_ray_are_futures() -> None:
    with ThreadPoolExecutor(1) as pool:
        ray = Ray(pool)
        with RayExecutor(ray) as executor:
            assert executor.submit(max, 3, 4).result(10) == 4
            with pytest.raises(ZeroDivisionError):
                executor.submit(divmod, 1, 0).result(10)
            slow = executor.submit(time.sleep, 0.05)
            assert slow.cancel() and slow.cancelled()
            last = executor.submit(max, 5, 6)
        assert last.result() == 6
    assert ray.asked == [{"max_retries": 1, "num_cpus": 1}, "cancel"] and not executor._open
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(max, 3, 4)
