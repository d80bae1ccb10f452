"""Kernels of graphs as programs to tune, and what was found as what they are made by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import te
from tileloom.base.errors import UserError
from tileloom.base.settings import override
from tileloom.driver import compile_graph, graphs, plan_graph, tuning
from tileloom.driver.tuning import kernels_of
from tileloom.graph.nodes import Graph
from tileloom.records import Record, open_records, target_key, workload_key
from tileloom.schedule import Schedule, Trace
from tileloom.target import Target
from tileloom.tir import structural_equal
from tileloom.tuner.search import SearchConfig
from tileloom.tuner.tune_program import TuneKeywords, TuneOptions
from tileloom.tuner.tuner import TuningTask

HOST = Target.host()


def row_graph(columns: int = 40) -> Graph:
    graph: Graph = tileloom.jit(lambda x: np.exp(x) * 2.0).graph(np.ones((8, columns), "float32"))
    return graph


def twice() -> Graph:
    """One kernel, which is called twice."""

    def function(x: Any, weight: Any) -> Any:
        return np.exp(np.exp(x @ weight) @ weight)

    square = np.ones((64, 64), "float32")
    graph: Graph = tileloom.jit(function).graph(square, square)
    return graph


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with override(records=str(tmp_path / "records.db"), cache_dir=tmp_path / "cache"):
        yield tmp_path / "records.db"


def choose(place: Path, task: TuningTask, change: Any) -> None:
    """Have a kernel made by other steps."""
    sch = Schedule(task.context.mod)
    change(sch)
    assert sch.trace is not None
    keys = workload_key(task.context.mod), target_key(task.context.target)
    with open_records(place) as store:
        store.choose(Record(*keys, sch.trace.as_json(), (1e-6,)))


def only_kernel(graph: Graph) -> Any:
    (planned,) = plan_graph(graph, HOST).planned.values()
    return planned


def unrolled(sch: Schedule) -> None:
    sch.unroll(sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[-1])[0])


def test_kernels_begin_with_what_the_planner_makes_of_them() -> None:
    (task,) = kernels_of(row_graph(), HOST)
    sch = Schedule(task.context.mod)
    Trace.from_json(task.firsts[0]).apply_to_schedule(sch, remove_postproc=False)
    planned = only_kernel(row_graph())
    assert structural_equal(sch.mod["main"], planned.func.with_attr("global_symbol", "main"))
    assert task.weight == 1 and task.context.name == planned.func.name


def test_equal_kernels_are_one_program() -> None:
    (task,) = kernels_of(twice(), HOST)
    assert task.weight == 2


def test_nothing_to_tune_is_said() -> None:
    graph = tileloom.jit(lambda x: x).graph(np.ones(4, "float32"))
    with pytest.raises(UserError, match="no kernel of static sizes"):
        kernels_of(graph, HOST)


def test_what_was_found_is_what_kernels_are_made_by(place: Path) -> None:
    before = only_kernel(row_graph())
    (task,) = kernels_of(row_graph(), HOST)
    choose(place, task, unrolled)
    after = only_kernel(row_graph())
    assert "T.unroll" in after.func.script() and "T.unroll" not in before.func.script()
    (again,) = kernels_of(row_graph(), HOST)
    assert again.firsts == task.firsts  # the planner's, all the same
    x = np.linspace(-1, 1, 320, dtype="float32").reshape(8, 40)
    (result,) = compile_graph(row_graph())(x)
    np.testing.assert_allclose(result, 2 * np.exp(x), rtol=1e-6)


def test_compiled_graphs_are_made_anew_where_a_kernel_of_theirs_was_tuned(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = graphs._make

    def counted(graph: Graph, *rest: Any) -> Any:
        made.append("x".join(map(str, graph.inputs[0].shape)))
        return make(graph, *rest)

    monkeypatch.setattr(graphs, "_make", counted)
    compile_graph(row_graph())
    compile_graph(row_graph())
    compile_graph(row_graph(41))
    assert made == ["8x40", "8x41"]
    (task,) = kernels_of(row_graph(), HOST)
    choose(place, task, unrolled)
    for _ in range(2):
        compile_graph(row_graph())
        compile_graph(row_graph(41))
    assert made == ["8x40", "8x41", "8x40"]


def test_what_was_compiled_before_there_were_records(tmp_path: Path) -> None:
    with override(cache_dir=tmp_path, records=""):
        compile_graph(row_graph())
        (task,) = kernels_of(row_graph(), HOST)
        choose(tmp_path / "records.db", task, unrolled)
        x = np.ones((8, 40), "float32")
        np.testing.assert_allclose(compile_graph(row_graph())(x)[0], 2 * np.exp(x), rtol=1e-6)
        assert "T.unroll" in only_kernel(row_graph()).func.script()


def test_steps_that_do_not_apply_any_more_are_left(place: Path) -> None:
    (task,) = kernels_of(row_graph(), HOST)
    keys = workload_key(task.context.mod), target_key(task.context.target)
    with open_records(place) as store:
        store.choose(Record(*keys, [[["Unroll", ["l0"], [], []]], []], (1e-6,)))
    with pytest.warns(UserWarning, match="the planner schedules it"):
        planned = only_kernel(row_graph())
    with override(records="none"):
        assert structural_equal(planned.func, only_kernel(row_graph()).func)


@pytest.mark.slow
def test_a_graph_from_beginning_to_end(place: Path) -> None:
    """Whatever was found, the next compilation takes it, and it is no slower than the planner's."""
    few = SearchConfig(population_size=6, init_min_unmeasured=4, genetic_num_iters=1)
    found = tileloom.tune(row_graph(), trials=4, batch=4, workers=1, search=few)
    (kernel,) = found.kernels
    assert 1 < kernel.trials <= 4 and kernel.speedup >= 1 and found.speedup >= 1
    assert structural_equal(
        only_kernel(row_graph()).func.with_attr("global_symbol", "main"),
        kernel.schedule().mod["main"],
    )


def test_functions_are_tuned_before_they_are_compiled(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that was not done before; the next process finds what was chosen."""
    asked: list[tuple[int, int]] = []

    def tuned(tasks: list[TuningTask], options: TuneOptions) -> None:
        asked.append((len(tasks), options.trials))
        for task in tasks:
            choose(place, task, unrolled)

    monkeypatch.setattr(tuning, "tune_programs", tuned)
    x = np.linspace(-1, 1, 320, dtype="float32").reshape(8, 40)
    for _ in range(2):
        function = tileloom.jit(lambda x: np.exp(x) * 2.0, tune=12)
        np.testing.assert_allclose(function(x), 2 * np.exp(x), rtol=1e-6)
    assert asked == [(1, 12)]
    same = tileloom.jit(lambda x: x, tune=12)
    np.testing.assert_array_equal(same(x), x)  # there is nothing to tune


def test_what_cannot_be_timed_is_not_tuned(place: Path) -> None:
    with pytest.raises(UserError, match="open sizes cannot be tuned"):
        tileloom.jit(lambda x: x, dynamic=True, tune=4)
    function = tileloom.jit(lambda x: x + 1, target="cuda -arch=sm_80", device="emulator", tune=4)
    with pytest.raises(UserError, match="emulator say nothing"):
        function(np.ones(4, "float32"))


def test_products_of_tensor_ir_begin_with_the_planners_tiles() -> None:
    a, b, k = te.placeholder((64, 96)), te.placeholder((96, 128)), te.reduce_axis((0, 96), name="k")
    c = te.compute((64, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    task = tuning._program_task(te.create_prim_func([a, b, c]), HOST)
    scripts = []
    for trace in task.firsts:
        sch = Schedule(task.context.mod)
        Trace.from_json(trace).apply_to_schedule(sch, remove_postproc=False)
        scripts.append(sch.mod.script())
    assert len(scripts) == 2 and "C_reindex" in scripts[0]
    assert "C_reindex" not in scripts[1]


def test_keywords_are_typed_as_options_are() -> None:
    assert TuneKeywords.__annotations__.keys() == TuneOptions.__annotations__.keys()
    written = {name: hint.__forward_arg__ for name, hint in TuneKeywords.__annotations__.items()}
    assert written == TuneOptions.__annotations__
