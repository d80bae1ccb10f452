"""Searches that draw at random: without repetition, in spaces of any size, the same for a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tileloom.schedule.random import Random
from tileloom.target import target
from tileloom.tir import IRModule
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import FAILED, RandomModel
from tileloom.tuner.design_space import design_spaces
from tileloom.tuner.postprocs.defaults import default_postprocs
from tileloom.tuner.proposals import Candidate, Proposer
from tileloom.tuner.replay import REPLAY, ReplayFunc, ReplayTrace
from tileloom.tuner.workers import InThisProcess, WorkerPool
from tuner.workloads import WORKLOADS

CPU = target("cpu -mcpu=x86-64-v3 -num-cores=2")


@dataclass
class Numbers:
    """Candidates are numbers below a limit; two of them make one program, every fifth none."""

    limit: int = 1000
    tasks: list[str] = field(default_factory=list)

    def map(self, task: str, arguments: Sequence[tuple[Any, ...]]) -> list[Candidate | None]:
        self.tasks.append(task)
        if task == "exact":
            return [self.made(trace[0]) if trace[0] % 7 else None for (trace,) in arguments]
        return [self.made(Random(seed).integer(0, self.limit)) for (seed,) in arguments]

    def made(self, number: int) -> Candidate | None:
        if number % 5 == 0:
            return None
        return Candidate(f"[{number}]", number, np.array([[float(number)]]), number // 2 + 1)


def test_each_program_is_proposed_once() -> None:
    search = ReplayTrace("numbers", Numbers(), RandomModel())
    batches = [search.propose(30) for _ in range(6)]
    found = [c for batch in batches for c in batch or ()]
    assert [len(batch or ()) for batch in batches] == [30] * 6
    assert len({c.program for c in found}) == len(found)
    assert all(c.key % 7 for c in found)


def test_a_small_space_is_measured_to_its_end() -> None:
    """Of the numbers below 20, ten are in pairs of which both are legal, and then it is over."""
    search = ReplayTrace("numbers", Numbers(limit=20), RandomModel())
    found = search.propose(64) or []
    legal = {n // 2 for n in range(20) if n % 5 and n % 7}
    assert {c.program - 1 for c in found} == legal
    assert search.propose(64) is None


def test_nothing_that_is_known_is_proposed() -> None:
    search = ReplayTrace("numbers", Numbers(limit=20), RandomModel())
    known = Numbers().made(8)
    assert known is not None
    search.record([known, known], [2.0, FAILED])
    assert search.best == [(2.0, known)]
    assert known.program not in {c.program for c in search.propose(64) or ()}


@pytest.mark.parametrize(("kind", "task"), [(ReplayTrace, "sampled"), (ReplayFunc, "generated")])
def test_where_candidates_come_from(kind: Callable[..., ReplayTrace], task: str) -> None:
    numbers = Numbers()
    kind("numbers", numbers, RandomModel()).propose(4)
    assert set(numbers.tasks) == {task, "exact"}


# ---------------------------------------------------------------------------- programs


def nothing(mod: IRModule) -> np.ndarray:
    return np.zeros((1, 1))


def proposer(name: str = "GMM") -> Proposer:
    context = TuneContext(IRModule({"main": WORKLOADS[name]()}), CPU)
    spaces = [sch.trace.as_json() for sch in design_spaces(context) if sch.trace is not None]
    return Proposer(context, spaces, default_postprocs("llvm"), [], nothing)


@pytest.mark.parametrize("name", REPLAY)
def test_the_same_seed_proposes_the_same(name: str) -> None:
    made = proposer()

    def keys(seed: int) -> list[int]:
        search = REPLAY[name]("gmm", InThisProcess(made), RandomModel(), seed)
        return [c.key for _ in range(2) for c in search.propose(3) or ()]

    first = keys(7)
    assert len(first) == 6 and first == keys(7) != keys(8)


def test_generated_candidates_are_what_their_traces_make() -> None:
    made = proposer()
    found = [c for c in map(made.generated, range(1, 5)) if c is not None]
    assert found
    for candidate in found:
        again = made.exact(candidate.trace)
        assert again is not None and again.key == candidate.key


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAY)
def test_any_number_of_processes_proposes_the_same(name: str) -> None:
    made = proposer()
    found = []
    for count in (1, 2):
        with WorkerPool(count) as pool:
            search = REPLAY[name]("gmm", pool.workers(made), RandomModel(), 3)
            found.append([c.key for c in search.propose(8) or ()])
    assert found[0] == found[1] and len(found[0]) == 8
