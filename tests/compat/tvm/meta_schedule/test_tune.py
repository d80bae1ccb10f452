"""Tuning by TVM's names: with parts that do nothing, and once in earnest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom.compat.tvm as tvm
from tileloom.compat.tvm import meta_schedule as ms
from tileloom.compat.tvm.meta_schedule import _checked
from tileloom.compat.tvm.meta_schedule.runner import EvaluatorConfig
from tileloom.compat.tvm.meta_schedule.testing.dummy_object import DummyBuilder, DummyRunner
from tileloom.tuner.measure import Measurement

from .programs import product, sums

CPU = tvm.target.Target("llvm -num-cores 2")


def tiles(sch: Any) -> None:
    loop = sch.get_loops("C")[0]
    sch.split(loop, sch.sample_perfect_tile(loop, n=2))


def context(mod: Any, strategy: Any, **options: Any) -> Any:
    space = ms.space_generator.ScheduleFn(tiles, postprocs=[], mutator_probs={}, **options)
    return ms.TuneContext(
        mod, target=CPU, space_generator=space, search_strategy=strategy, rand_state=3
    )


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func"])
def test_replays_fill_batches(strategy: str) -> None:
    task = context(product(), strategy)
    task.pre_tuning(5, 2)
    sizes = []
    while (found := task.generate_measure_candidates()) is not None:
        sizes.append(len(found))
    assert sizes == [2, 2, 1]
    task.post_tuning()
    with pytest.raises(tvm.TVMError, match="pre_tuning"):
        task.generate_measure_candidates()


def test_a_search_ends_when_nothing_is_new() -> None:
    """16 has five tilings in two."""
    config = {"population_size": 8, "init_min_unmeasured": 8, "genetic_num_iters": 1}
    task = context(product(), ms.search_strategy.EvolutionarySearch(**config))
    database, model = ms.database.MemoryDatabase(), ms.cost_model.RandomModel(seed=1)
    task.pre_tuning(100, 3, database=database, cost_model=model)
    found: list[Any] = []
    while (batch := task.generate_measure_candidates()) is not None:
        results = [ms.runner.RunnerResult([1.0], None) for _ in batch]
        task.notify_runner_results(batch, results)
        found += batch
    texts = {str(candidate.sch.mod) for candidate in found}
    assert len(found) == len(texts) == 5


def test_a_search_goes_on_for_a_while_where_nothing_is_new() -> None:
    """Mutators of the user's are asked, with a seed if they take one."""
    seeds = []

    class Same(ms.mutator.PyMutator):
        def apply(self, trace: Any, seed: int = 0) -> Any:
            seeds.append(seed)
            return trace

    space = ms.space_generator.ScheduleFn(lambda sch: None, postprocs=[], mutator_probs={Same(): 1})
    config = {"population_size": 4, "init_min_unmeasured": 4, "genetic_num_iters": 1}
    strategy = ms.search_strategy.EvolutionarySearch(**config)
    task = ms.TuneContext(
        product(), target=CPU, space_generator=space, search_strategy=strategy, rand_state=1
    )
    database, model = ms.database.MemoryDatabase(), ms.cost_model.RandomModel(seed=1)
    task.pre_tuning(100, 3, database=database, cost_model=model)
    sizes = []
    while (batch := task.generate_measure_candidates()) is not None:
        sizes.append(len(batch))
    assert sizes == [1, 0, 0, 0, 0]
    assert len(set(seeds)) > 1


def test_a_task_without_candidates_does_not_end_the_others() -> None:
    class Nothing(ms.search_strategy.PySearchStrategy):
        def pre_tuning(self, *_args: Any, **_options: Any) -> None:
            pass

        def generate_measure_candidates(self) -> None:
            return None

    database = ms.tune_tasks(
        tasks=[context(product(), Nothing()), context(product(8), "replay-trace")],
        task_weights=[1.0, 1.0],
        work_dir="",
        max_trials_global=4,
        builder=DummyBuilder(),
        runner=DummyRunner(),
        database="memory",
        cost_model="none",
    )
    assert len(database) == 4
    assert not database.has_workload(product())


def test_candidates_that_compute_something_else_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Measurement("ok", (0.5,)), Measurement("wrong", error="C is off by 1")]
    monkeypatch.setattr(_checked, "measure", lambda tasks, executor: found)
    candidates = [ms.MeasureCandidate(tvm.tir.Schedule(product()), []) for _ in found]
    task = context(product(), "replay-trace")
    code, futures = _checked.measure_checked(task, candidates, ms.runner.LocalRunner())
    results = [future.result() for future in futures]
    assert [result.run_secs for result in results] == [[0.5], None]
    assert results[1].error_msg == "LocalRunner: C is off by 1"
    assert len(code) == 2
    with pytest.raises(ValueError, match="the context has no program"):
        _checked.measure_checked(ms.TuneContext(), candidates, ms.runner.LocalRunner())


def test_callbacks_by_name() -> None:
    found = ms.MeasureCallback.create("default")
    assert [type(each).__name__ for each in found] == [
        "AddToDatabase", "RemoveBuildArtifact", "UpdateCostModel",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="unknown callback 'nothing', known are"):
        ms.MeasureCallback.create("nothing")


def test_turns_until_the_trials_are_spent() -> None:
    told = []

    class Told(ms.measure_callback.PyMeasureCallback):
        def apply(self, scheduler: Any, task_id: int, candidates: Any, *_rest: Any) -> None:
            told.append((task_id, len(candidates)))

    database = ms.database.MemoryDatabase()
    ms.task_scheduler.RoundRobin().tune(
        [context(product(), "replay-trace"), context(product(8), "replay-trace")],
        [1.0, 1.0],
        max_trials_global=10,
        max_trials_per_task=4,
        num_trials_per_iter=3,
        builder=DummyBuilder(),
        runner=DummyRunner(),
        measure_callbacks=[ms.measure_callback.AddToDatabase(), Told()],
        database=database,
        cost_model=None,
    )
    assert len(database) == 8
    assert sorted(told) == [(0, 1), (0, 3), (1, 1), (1, 3)]


def test_what_cannot_be_built_is_not_learnt_from() -> None:
    learnt: list[Any] = []

    class Half(ms.builder.PyBuilder):
        def build(self, build_inputs: Any) -> Any:
            errors = [None if k % 2 else "too hard" for k in range(len(build_inputs))]
            return [ms.builder.BuilderResult(None if e else "path", e) for e in errors]

    class Model(ms.cost_model.PyCostModel):
        def update(self, _context: Any, candidates: Any, results: Any) -> None:
            learnt.extend(result.error_msg for result in results)

        def predict(self, _context: Any, candidates: Any) -> Any:
            return np.zeros(len(candidates))

    database = ms.tune_tasks(
        tasks=[context(product(), "replay-trace")],
        task_weights=[1.0],
        work_dir="",
        max_trials_global=4,
        builder=Half(),
        runner=DummyRunner(),
        database="memory",
        cost_model=Model(),
        measure_callbacks=[
            ms.MeasureCallback.create(n) for n in ("add_to_database", "update_cost_model")
        ],
    )
    assert learnt == [None, None]
    assert len(database) == 4
    times = [record.run_secs for record in database.get_all_tuning_records()]
    assert times.count([1e10]) == 2


def test_a_generator_of_the_user(caplog: pytest.LogCaptureFixture) -> None:
    """Which names no rules, postprocessors or mutators; what fails is told."""

    @ms.derived_object
    class Tiles(ms.space_generator.PySpaceGenerator):
        sch_rules = postprocs = mutator_probs = None

        def _initialize_with_tune_context(self, context: Any) -> None:
            pass

        def generate_design_space(self, mod: Any) -> Any:
            sch = tvm.tir.Schedule(mod)
            tiles(sch)
            return [sch]

    class Fails(ms.runner.PyRunner):
        def run(self, runner_inputs: Any) -> Any:
            failed = ms.runner.RunnerResult(None, "out of order")
            return [ms.runner.RunnerFuture.of(failed) for _ in runner_inputs]

    database = ms.tune_tir(
        product(), CPU, "", 3, space=Tiles(), builder=DummyBuilder(), runner=Fails(),
        database="memory", cost_model="random", seed=1,
        strategy=ms.search_strategy.EvolutionarySearch(population_size=8, init_min_unmeasured=4),
    )  # fmt: skip
    assert len(database) == 3
    assert ms.tir_integration.compile_tir(database, product(), CPU) is None
    assert "main: 3 of 3 candidates failed, the first with: out of order" in caplog.text


def test_builders_and_runners_in_processes_of_their_own() -> None:
    """With functions of the user's, which are closures, fail, and take too long."""
    builder = ms.builder.LocalBuilder()
    [built] = builder.build([ms.builder.BuilderInput(sums(), CPU)])
    assert built.error_msg is None and built.artifact_path is not None
    types = ms.arg_info.ArgInfo.from_entry_func(sums())
    given = ms.runner.RunnerInput(built.artifact_path, "llvm", types)
    config = EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)

    def check(code: Any, dev: Any, config: Any, sets: Any) -> list[float]:
        [(a, c)] = sets
        code(a, c)
        np.testing.assert_array_equal(c.numpy(), a.numpy() * 2 + 1)
        return [0.25]

    def fail(*_args: Any) -> Any:
        raise ValueError("no arguments")

    def hang() -> None:
        while True:
            pass

    def ran(seconds: float = 20.0, **functions: Any) -> Any:
        runner = ms.runner.LocalRunner(seconds, config, **functions)
        return runner.run([given])[0].result()

    assert len(ran().run_secs) == 2
    assert ran(f_run_evaluator=check).run_secs == [0.25]
    assert "no arguments" in ran(f_alloc_argument=fail).error_msg
    late = ran(0.05, initializer=hang)
    assert late.error_msg.startswith("LocalRunner: Timeout, killed after") and not late.run_secs
    folder = os.path.dirname(built.artifact_path)
    ms.utils.remove_build_dir(built.artifact_path)
    assert not os.path.exists(folder)


def test_names_of_functions_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="wrong-name"):
        ms.builder.LocalBuilder(f_build="wrong-name")
    with pytest.raises(tvm.TVMError, match="LocalRunner"):
        ms.runner.RPCRunner()


@pytest.mark.slow
def test_a_product_is_tuned(tmp_path: Path) -> None:
    """And the schedule that comes of it computes what it should."""
    strategy = ms.search_strategy.EvolutionarySearch(
        population_size=16, init_min_unmeasured=8, genetic_num_iters=1
    )
    mod = product(32)
    database = ms.tune_tir(
        mod, CPU, str(tmp_path), 6, num_trials_per_iter=3, strategy=strategy, seed=1
    )
    assert len(database) == 6
    sch = ms.tir_integration.compile_tir(database, mod, CPU)
    assert sch is not None
    a, b = (np.random.default_rng(0).random((32, 32), "float32") for _ in range(2))
    arrays = [tvm.nd.array(x) for x in (a, b, np.zeros_like(a))]
    tvm.build(sch.mod, CPU)["main"](*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a @ b, rtol=1e-5)
