"""The tuning loop: trials, records, going on after an interruption, several programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tileloom import UserError, te, tune
from tileloom.base.settings import override
from tileloom.records import Record, RecordStore, open_records, target_key, workload_key
from tileloom.schedule import Schedule, Trace
from tileloom.target import target
from tileloom.tir import IRModule, structural_equal
from tileloom.tuner import program_records
from tileloom.tuner.context import TuneContext
from tileloom.tuner.cost_model import FAILED, RandomModel
from tileloom.tuner.measure import Measurement
from tileloom.tuner.proposals import Candidate, Proposer
from tileloom.tuner.search import EvolutionarySearch, SearchConfig
from tileloom.tuner.task_scheduler import Progress
from tileloom.tuner.tuner import TuneConfig, TuningTask, tune_tasks

CPU = target("cpu -mcpu=x86-64-v3 -num-cores=2")
FEW = SearchConfig(population_size=6, init_min_unmeasured=4, genetic_num_iters=1)


def matmul(n: int) -> IRModule:
    k: Any
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return IRModule({"main": te.create_prim_func([a, b, c])})


@dataclass
class Counted:
    """Says that a candidate takes as many seconds as its key has units; every fifth is wrong."""

    keys: list[int] = field(default_factory=list)
    bests: list[object] = field(default_factory=list)
    dies_at: int = 10**9

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: object
    ) -> Iterator[Measurement]:
        self.bests.append(best)
        for candidate in candidates:
            if len(self.keys) == self.dies_at:
                raise KeyboardInterrupt
            self.keys.append(candidate.key)
            if len(self.keys) % 5 == 0:
                yield Measurement("wrong", error="differs by 1.0")
            else:
                yield Measurement("ok", (1e-3 + candidate.key % 97,))


def config(trials: int, **more: Any) -> TuneConfig:
    return TuneConfig(trials, batch=4, search=FEW, **more)


def go(
    store: RecordStore, measure: Counted, trials: int, *mods: IRModule, **more: Any
) -> list[Progress]:
    tasks = [TuningTask(TuneContext(mod, CPU)) for mod in mods or [matmul(16)]]
    return tune_tasks(tasks, measure, store, RandomModel(1), config(trials, **more))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with open_records(tmp_path / "records.db") as opened:
        yield opened


def test_trials_are_spent_and_recorded(store: RecordStore) -> None:
    measure = Counted()
    (progress,) = go(store, measure, 10)
    assert len(measure.keys) == 10 == len(set(measure.keys)) and len(progress.best) == 3
    known = list(store.all(workload_key(matmul(16)), target_key(CPU)))
    assert [record.error for record in known].count("differs by 1.0") == 2 and len(known) == 10
    assert progress.seconds == min(record.latency for record in known)
    assert progress.best == sorted(progress.best, reverse=True)
    fastest = store.best(workload_key(matmul(16)), target_key(CPU), 1)[0]
    assert measure.bests[0] is None and measure.bests[-1] is not None
    assert fastest.latency == progress.seconds


def test_the_next_search_learns_from_the_records_of_other_programs(store: RecordStore) -> None:
    """And of its own as before, from their traces."""

    class Pupil(RandomModel):
        def learn(self, known: Any) -> None:
            self.known = known

    go(store, Counted(), 5)
    pupil = Pupil(1)
    tasks = [TuningTask(TuneContext(matmul(8), CPU))]
    tune_tasks(tasks, Counted(), store, pupil, config(1))
    ((features, seconds),) = pupil.known.values()
    latencies = [min(record.latency, FAILED) for record in store.all()][:5]
    assert list(seconds) == latencies and {rows.shape[1] for rows in features} == {164}


def test_it_goes_on_where_it_was_interrupted(store: RecordStore) -> None:
    """What was measured until then counts, and is not measured again."""
    first = Counted(dies_at=6)
    with pytest.raises(KeyboardInterrupt):
        go(store, first, 12)
    known = list(store.all(workload_key(matmul(16)), target_key(CPU)))
    chosen = store.chosen(workload_key(matmul(16)), target_key(CPU))
    assert len(known) == 6 and chosen is not None
    assert chosen.latency == min(record.latency for record in known)
    second = Counted()
    (progress,) = go(store, second, 4)
    assert not set(first.keys) & set(second.keys) and len(second.keys) == 4
    assert second.bests[0] is not None and len(progress.best) == 2


@pytest.mark.parametrize(("barren", "trials"), [(4, 3), (5, 0)])
def test_a_few_proposals_may_hold_nothing(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch, barren: int, trials: int
) -> None:
    """As all of a batch may turn out to be illegal; five in a row are the end."""
    propose, calls = EvolutionarySearch.propose, iter(range(barren))

    def sometimes(self: EvolutionarySearch, count: int) -> list[Candidate] | None:
        return [] if next(calls, None) is not None else propose(self, count)

    monkeypatch.setattr(EvolutionarySearch, "propose", sometimes)
    measure = Counted()
    (progress,) = go(store, measure, 3)
    assert len(measure.keys) == trials and progress.is_over is (trials == 0)


def test_what_is_lost_is_not_recorded(store: RecordStore) -> None:
    """A worker that disappears says nothing about a candidate."""

    batches = 0

    def loses(context: TuneContext, candidates: Sequence[Candidate], best: Any) -> Any:
        nonlocal batches
        batches += 1
        first, *others = Counted()(context, candidates, best)
        return [Measurement("lost") if batches == 1 else first, *others]

    def loses_all(context: TuneContext, candidates: Sequence[Candidate], best: Any) -> Any:
        return [Measurement("lost", error="no worker is left") for _ in candidates]

    tasks = [TuningTask(TuneContext(matmul(16), CPU))]
    tune_tasks(tasks, loses, store, RandomModel(1), config(3))
    known = store.all()
    assert len(known) == 3 and not any(record.failed for record in known)
    with pytest.raises(UserError, match="no worker is left"):
        tune_tasks(tasks, loses_all, store, RandomModel(1), config(3))
    assert store.all() == known


def test_two_runs_share_what_they_find(tmp_path: Path) -> None:
    """With one seed, on one file: the other one measures while the first waits for its batch."""
    place = tmp_path / "records.db"
    other = Counted()

    @dataclass
    class Interrupted(Counted):
        def __call__(self, *about: Any) -> Iterator[Measurement]:
            if not self.keys:
                with open_records(place) as store:
                    go(store, other, 4)
            yield from super().__call__(*about)

    first = Interrupted()
    with open_records(place) as store:
        (progress,) = go(store, first, 8)
        known = store.summaries(workload_key(matmul(16)), target_key(CPU))
    assert len(set(first.keys)) == 8 and len(set(other.keys)) == 4
    assert len({s.candidate for s in known}) == 12 == progress.trials == len(known)
    assert not set(first.keys) & set(other.keys) and progress.seconds == min(
        s.latency for s in known
    )


def test_only_some_of_many_records_are_made_anew(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(store, Counted(), 8)
    made: list[object] = []
    exact = Proposer.exact

    def counted(self: Proposer, trace: Any) -> Candidate | None:
        made.append(trace)
        return exact(self, trace)

    monkeypatch.setattr(program_records, "LEARNT", 4)
    monkeypatch.setattr(Proposer, "exact", counted)
    monkeypatch.setattr(EvolutionarySearch, "propose", lambda self, count: None)
    go(store, Counted(), 4)
    known = store.all()
    fastest = sorted(known, key=lambda record: record.latency)[:2]
    wanted = [record.trace for record in known if record in (*fastest, *known[-2:])]
    assert made == wanted and 2 <= len(made) <= 4


def test_the_first_traces_are_measured_first(store: RecordStore) -> None:
    sch = Schedule(matmul(16))
    sch.parallel(sch.get_loops("C")[0])
    assert sch.trace is not None
    task = TuningTask(TuneContext(matmul(16), CPU), firsts=[sch.trace.as_json()])
    told: list[Record] = []
    phases: list[str] = []

    def on_trial(tasks: Sequence[Progress], chosen: int, record: Record | None) -> None:
        told.extend([record] if record is not None else [])
        phases.extend([] if record is not None else [tasks[chosen].phase])

    (progress,) = tune_tasks([task], Counted(), store, RandomModel(1), config(5), on_trial=on_trial)
    assert phases == ["proposing", "measuring", "", "proposing", "measuring", "", "comparing", ""]
    assert [(r.trace, r.seconds) for r in told] == [(r.trace, r.seconds) for r in store.all()]
    assert progress.trials == 5 and progress.failures == {"wrong": 1}
    assert progress.default_seconds == told[0].latency and progress.fastest == progress.seconds
    assert [record.extra["status"] for record in told] == ["ok"] * 4 + ["wrong"]
    assert all(0 <= record.extra["score"] <= 1 for record in told)
    first = next(iter(sorted(store.all(), key=lambda record: record.created)))
    again = Schedule(matmul(16))
    Trace.from_json(first.trace).apply_to_schedule(again, remove_postproc=False)
    assert structural_equal(again.mod, sch.mod)


@dataclass
class Finals(Counted):
    """Measures the first one as 4, then 1, 2 and 3; in the end, times next to the fastest's 1."""

    times: Sequence[Any] = ()
    compared: list[Any] = field(default_factory=list)
    rounds: list[tuple[float, ...]] = field(default_factory=lambda: [(4.0,), (1.0, 2.0, 3.0)])

    def __call__(
        self, context: TuneContext, candidates: Sequence[Candidate], best: object
    ) -> Iterator[Measurement]:
        if self.rounds:
            return (Measurement("ok", (time,)) for time in self.rounds.pop(0))
        self.compared = [best, *(candidate.trace for candidate in candidates)]
        samples = (time if isinstance(time, tuple) else (time,) for time in self.times)
        return (Measurement("ok", times, (1.0,) * len(times)) for times in samples)


@pytest.mark.parametrize(
    ("times", "winner", "seconds"),
    [
        ((1.2, 1.3, 9.0), 0, 1.0),
        ((0.9, 1.3, 9.0), 1, 0.9),
        ((0.9, 0.8, 9.0), 2, 0.8),
        ((1.2, 1.3, 1.005), 3, 1.005),  # the default, unless another is clearly faster
    ],
)
def test_the_fastest_are_compared_once_more(
    store: RecordStore, times: tuple[float, ...], winner: int, seconds: float
) -> None:
    sch = Schedule(matmul(16))
    sch.parallel(sch.get_loops("C")[0])
    assert sch.trace is not None
    task = TuningTask(TuneContext(matmul(16), CPU), firsts=[sch.trace.as_json()])
    measure = Finals(times=times)
    tune_tasks([task], measure, store, RandomModel(1), config(4))
    (default, *others) = (record.trace for record in store.all())
    assert measure.compared == [*others, default]
    chosen = store.chosen(workload_key(matmul(16)), target_key(CPU))
    assert chosen is not None and chosen.trace == measure.compared[winner]
    assert chosen.latency == seconds and chosen.extra["default_seconds"] == [times[-1]]


@pytest.mark.parametrize(
    ("samples", "stays"), [((1.1, 0.9, 1.1, 0.95), True), ((1.1, 0.9, 1.1, 1.05), False)]
)
def test_the_default_stays_where_samples_do_not_agree(
    store: RecordStore, samples: tuple[float, ...], stays: bool
) -> None:
    """Another one is faster by the median, but not in three of four samples."""
    sch = Schedule(matmul(16))
    sch.parallel(sch.get_loops("C")[0])
    assert sch.trace is not None
    task = TuningTask(TuneContext(matmul(16), CPU), firsts=[sch.trace.as_json()])
    measure = Finals(times=(1.2, 1.3, samples))
    tune_tasks([task], measure, store, RandomModel(1), config(4))
    chosen = store.chosen(workload_key(matmul(16)), target_key(CPU))
    assert chosen is not None and (chosen.trace == measure.compared[-1]) == stays


@pytest.mark.slow
def test_several_programs_share_the_trials(store: RecordStore) -> None:
    found = go(store, Counted(), 8, matmul(16), matmul(8), trials_per_task=4)
    assert [len(progress.best) for progress in found] == [1, 1]
    (few,) = go(store, Counted(), 16, matmul(4), trials_per_task=6)
    assert few.is_over and len(list(store.all(workload_key(matmul(4)), target_key(CPU)))) == 6


@pytest.mark.slow
def test_the_same_seed_measures_the_same(tmp_path: Path) -> None:
    found = []
    for k, seed in enumerate((3, 3, 4)):
        with open_records(tmp_path / f"{k}.db") as store:
            measure = Counted()
            go(store, measure, 4, seed=seed)
            found.append(measure.keys)
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func"])
def test_a_search_at_random(store: RecordStore, strategy: str) -> None:
    measure = Counted()
    (progress,) = go(store, measure, 5, strategy=strategy)
    assert len(set(measure.keys)) == 5 and len(progress.best) == 2


def test_strategies_are_known_by_name() -> None:
    with pytest.raises(UserError, match="evolutionary, replay-trace, replay-func, not 'random'"):
        TuneConfig(1, strategy="random")


@pytest.mark.parametrize(("trials", "batch", "workers"), [(0, 1, 1), (4, 0, 1), (4, 1, 0)])
def test_counts_are_positive(trials: int, batch: int, workers: int) -> None:
    with pytest.raises(UserError, match="at least 1"):
        TuneConfig(trials, batch=batch, workers=workers)


def test_a_program_has_one_function(tmp_path: Path) -> None:
    mod = IRModule({"one": matmul(4)["main"], "two": matmul(4)["main"]})
    with pytest.raises(UserError, match="one, two"):
        tune(mod, CPU, records=tmp_path / "none.db")


@pytest.mark.slow
def test_a_program_from_beginning_to_end(tmp_path: Path) -> None:
    """On this machine: measured in a process of its own, found again without measuring."""
    place = tmp_path / "records.db"
    found = tune(matmul(128), trials=4, batch=4, records=place, search=FEW)
    assert found.trials == 4 and 0 < found.seconds < 1
    again = tune(matmul(128), trials=1, batch=1, records=place, search=FEW)
    assert again.trials == 5 and 0 < again.seconds < 1 and again.speedup >= 1
    assert "parallel" in found.schedule().mod.script()


@pytest.mark.slow
def test_the_example_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With fewer trials, on a smaller program."""
    pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    small = code.replace("512", "20").replace("trials=64", "trials=2, workers=1, search=FEW")
    space: dict[str, Any] = {"FEW": FEW}
    with override(records=str(tmp_path / "tuned.db")):
        exec(compile(small, "tuning.md", "exec"), space)
    name, seconds, speedup = capsys.readouterr().out.split()
    assert "matmul" in name and 0 < float(seconds) < 1 <= float(speedup)
    assert (tmp_path / "tuned.db").exists()
