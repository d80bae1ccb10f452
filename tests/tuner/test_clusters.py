"""Runs on real clusters of Dask and Ray on this machine, whose workers are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tileloom.records import open_records
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import RandomModel
from tileloom.tuner.measure import Limits, Measurement, executor_of
from tileloom.tuner.proposals import Candidate, TraceJSON
from tileloom.tuner.tuner import MeasureOn, TuneConfig, TuningTask, tune_tasks
from tuner.interruptions import TunerProcess, check, children, started, wait_until
from tuner.tuner_process import FEW, QUICK, machine, program

pytestmark = [pytest.mark.cluster]
WORKER = "tileloom.tuner.measure.worker"


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Dask:
    """A scheduler and two workers without nannies, which would start them anew."""

    url: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    pytest.importorskip("distributed")
    port = free_port()
    run = (sys.executable, "-m", "distributed.cli")
    with ExitStack() as opened:
        scheduler = (f"{run[-1]}.dask_scheduler", "--host", "127.0.0.1", "--port", str(port))
        head = opened.enter_context(started(*run[:2], *scheduler, "--no-dashboard"))
        wait_until(lambda: listens(port))
        options = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        worker = (f"{run[-1]}.dask_worker", f"tcp://127.0.0.1:{port}", *options)
        place = ("--local-directory", str(tmp_path))
        workers = [opened.enter_context(started(*run[:2], *worker, *place)) for _ in range(2)]
        yield Dask(f"dask://127.0.0.1:{port}", head, workers)


@dataclass
class KillsOneOf:
    """Measures, and kills the first of some processes that has a candidate, after a result."""

    measure: MeasureOn
    processes: Callable[[], Sequence[int]]
    killed: list[int] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: TraceJSON | None
    ) -> Iterable[Measurement]:
        for outcome in self.measure(context, candidates, best):
            self.statuses.append(outcome.status)
            busy = [process for process in self.processes() if children(process, WORKER)]
            if busy and not self.killed:
                os.kill(busy[0], signal.SIGKILL)
                self.killed.append(busy[0])
            yield outcome


def run_and_kill(
    url: str, executor: Executor, processes: Callable[[], Sequence[int]], trials: int
) -> KillsOneOf:
    """A run in which one of some processes is killed."""
    with executor, open_records(url) as store:
        measure = KillsOneOf(MeasureOn(executor, QUICK, Limits()), processes)
        task = TuningTask(TuneContext(program(), machine()))
        config = TuneConfig(trials, batch=4, search=FEW)
        tune_tasks([task], measure, store, RandomModel(1), config)
    return measure


def test_a_worker_of_dask_is_killed(dask: Dask, tmp_path: Path) -> None:
    """What it had is measured by the other one."""
    url = str(tmp_path / "records.db")
    found = run_and_kill(url, executor_of(dask.url), lambda: [w.pid for w in dask.workers], 12)
    assert len(found.killed) == 1 and [w.poll() for w in dask.workers].count(None) == 1
    assert found.statuses == ["ok"] * len(found.statuses) and len(check(url)) == 12


def test_a_run_on_dask_is_killed_and_goes_on(dask: Dask, tmp_path: Path) -> None:
    url = str(tmp_path / "records.db")
    first = TunerProcess(url, dask.url, 64)
    first.wait_for(3)
    names = first.kill(), TunerProcess(url, dask.url, 8).finish()
    assert len(names[1]) == 8 and 8 + len(names[0]) <= len(check(url, *names)) <= 9 + len(names[0])
    assert [w.poll() for w in dask.workers] == [None, None]


def test_a_run_ends_when_its_scheduler_is_gone(dask: Dask, tmp_path: Path) -> None:
    """With an error; what was measured is kept, and no candidate is called a failure."""
    url = str(tmp_path / "records.db")
    run = TunerProcess(url, dask.url, 64)
    run.wait_for(3)
    dask.scheduler.kill()
    with pytest.raises(ValueError, match="ended with 1"):
        run.finish()
    assert len(check(url, run.names)) == len(run.names)


# ---------------------------------------------------------------------------- Ray


@pytest.fixture
def ray_url() -> Iterator[str]:
    """A head of Ray's with two CPUs."""
    ray = pytest.importorskip("ray")
    ports = [free_port() for _ in range(2)]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    options = [f"--port={ports[0]}", f"--ray-client-server-port={ports[1]}", "--num-cpus=2"]
    few = ["--include-dashboard=false", "--disable-usage-stats", "--object-store-memory=80000000"]
    with started(*command, *options, *few):
        wait_until(lambda: listens(ports[1]))
        yield f"ray://127.0.0.1:{ports[1]}"
        ray.shutdown()  # the connection of this process


def test_a_worker_of_ray_is_killed(ray_url: str, tmp_path: Path) -> None:
    url = str(tmp_path / "records.db")
    found = run_and_kill(url, executor_of(ray_url), ray_workers, 12)
    assert len(found.killed) == 1
    assert found.statuses == ["ok"] * len(found.statuses) and len(check(url)) == 12


def ray_workers() -> list[int]:
    """The processes of Ray that run tasks."""
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if is_task(path)]


def is_task(command: Path) -> bool:
    try:
        return command.read_text().startswith("ray::_called")
    except OSError:
        return False
