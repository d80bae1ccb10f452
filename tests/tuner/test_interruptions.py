"""Processes killed in the middle of a run, and runs at the same time: nothing is lost or twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from records.places import Server, running_server
from tileloom.records import open_records
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import RandomModel
from tileloom.tuner.measure import LocalExecutor, Measurement
from tileloom.tuner.proposals import Candidate, TraceJSON
from tileloom.tuner.tuner import MeasureOn, TuneConfig, TuningTask, tune_tasks
from tuner.interruptions import TunerProcess, check, children, recorded, wait_until
from tuner.tuner_process import FEW, QUICK, machine, program

WORKER = "tileloom.tuner.measure.worker"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of PostgreSQL."""
    yield from running_server()


@pytest.fixture(params=["sqlite", "jsonl", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty place for records."""
    if request.param == "postgresql":
        found: Server = request.getfixturevalue("server")
        yield found.url
        found.clear()
    else:
        yield f"sqlite:///{tmp_path}/r.db" if request.param == "sqlite" else f"jsonl:{tmp_path}/r"


@dataclass
class KillsWorkers:
    """Measures, and kills the worker process after each result: while it has the next candidate."""

    measure: MeasureOn
    killed: list[int] = field(default_factory=list)

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: TraceJSON | None
    ) -> Iterable[Measurement]:
        for outcome in self.measure(context, candidates, best):
            for process in children(os.getpid(), WORKER):
                os.kill(process, signal.SIGKILL)
                self.killed.append(process)
            yield outcome


def are_gone(processes: Sequence[int]) -> bool:
    return not any(Path(f"/proc/{process}").exists() for process in processes)


@pytest.mark.slow
def test_workers_that_are_killed_cost_no_candidate(tmp_path: Path) -> None:
    url = str(tmp_path / "records.db")
    with LocalExecutor() as executor, open_records(url) as store:
        measure = KillsWorkers(MeasureOn(executor, QUICK))
        config = TuneConfig(8, batch=4, search=FEW)
        task = TuningTask(TuneContext(program(), machine()))
        tune_tasks([task], measure, store, RandomModel(1), config)
    assert len(check(url)) == 8 and len(set(measure.killed)) >= 4


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(url: str) -> None:
    """Again and again, at different places of a batch; its workers end with it."""
    runs: list[list[str]] = []
    for count in (1, 3, 6):
        run = TunerProcess(url, trials=64)
        run.wait_for(count)
        workers = children(run.process.pid, WORKER)
        runs.append(run.kill())
        assert workers and len(runs[-1]) >= count
        wait_until(partial(are_gone, workers))
        # One may have been recorded of which the process had no time to tell.
        told = sum(map(len, runs))
        assert told <= len(check(url, *runs)) <= told + len(runs)
    before = len(recorded(url))
    runs.append(TunerProcess(url, trials=4).finish())
    assert len(runs[-1]) == 4 and len(check(url, *runs)) == before + 4


@pytest.mark.slow
def test_two_runs_at_once(url: str) -> None:
    """Of the same seed, begun together."""
    first, second = TunerProcess(url, trials=8), TunerProcess(url, trials=8)
    names = first.finish(), second.finish()
    assert [len(found) for found in names] == [8, 8]
    assert len(check(url, *names)) == 16


@pytest.mark.slow
def test_one_of_two_runs_is_killed(url: str) -> None:
    first, second = TunerProcess(url, trials=64), TunerProcess(url, trials=12)
    first.wait_for(3)
    names = first.kill(), second.finish()
    assert len(names[1]) == 12
    assert 12 + len(names[0]) <= len(check(url, *names)) <= 13 + len(names[0])
