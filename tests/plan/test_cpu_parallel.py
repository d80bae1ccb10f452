"""What workers share: rows, blocks of columns, chunks of one long row, and parts of reductions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from plan.shapes import PROGRAMS, Program
from plan.test_cpu import CPU, check, scheduled
from plan.test_cpu_symbolic import check as check_shapes
from plan.test_cpu_symbolic import symbolic
from sampling import sampled
from tileloom import te
from tileloom.driver import plan_graph
from tileloom.expr import free_vars
from tileloom.expr.evaluate import evaluate
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.program import Program as GraphProgram
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.graph.variants import Bucket
from tileloom.lower.blocks import limit_workers
from tileloom.plan import schedule_cpu
from tileloom.plan.cpu import choices, split_reduction
from tileloom.schedule import Schedule
from tileloom.tir import Block, For, collect


def parallel_loops(sch: Schedule) -> int:
    return str(sch.mod).count("T.parallel(")


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if small groups were large ones."""
    for module, name, value in (
        (choices, "PARALLEL_WORK", 1), (choices, "CHUNK", 16), (choices, "NARROWEST", 1),
        (choices, "WIDEST", 16), (split_reduction, "PARALLEL_WORK", 1),
        (split_reduction, "CHUNK", 16),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", PROGRAMS)
def test_shared_groups_compute_what_they_should(name: str) -> None:
    program = PROGRAMS[name]
    sch = scheduled(program, program.small)
    assert parallel_loops(sch) or 1 in program.small
    check(program, sch, program.small)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", sampled(PROGRAMS, 3))
def test_shared_groups_are_proven(name: str) -> None:
    pytest.importorskip("islpy")
    program = PROGRAMS[name]
    assert scheduled(program, program.small).verify().ok
    assert symbolic(program).verify().ok


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", sampled(PROGRAMS, 3))
def test_shared_groups_of_unknown_sizes(name: str) -> None:
    program = PROGRAMS[name]
    longer = tuple(n + 30 for n in program.small[-1:])
    shapes = (program.small, (*program.small[:-1], *longer), (1,) * len(program.small))
    check_shapes(program, symbolic(program), *shapes)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("last_reduce_2", (300_007,)), ("all_reduce", (512, 512)), ("softmax", (1, 1 << 18)),
        ("softmax", (2, 200_003)), ("first_reduce", (100_003, 5)), ("layer_norm", (2, 1 << 18)),
        ("elementwise_triple_reduce", (1, 100_000)), ("shuffled_reduce_1", (64, 2, 32, 320)),
        ("reduce_broadcast_3", (2, 20_000, 10)),
    ],
)  # fmt: skip
def test_few_results_are_reduced_in_parts(name: str, shape: tuple[int, ...]) -> None:
    program = PROGRAMS[name]
    sch = scheduled(program, shape)
    assert "_rf" in str(sch.mod)
    assert parallel_loops(sch)
    check(program, sch, shape, 1e-4)


def test_reductions_of_the_same_data_share_a_pass_in_parts() -> None:
    sch = scheduled(PROGRAMS["elementwise_triple_reduce"], (1, 100_000))
    assert parallel_loops(sch) == 1


@pytest.mark.parametrize("shape", [(20_011, 20), (20, 20_011), (403, 509)])
def test_tiles_are_shared_along_either_axis(shape: tuple[int, int]) -> None:
    program = PROGRAMS["transpose"]
    sch = scheduled(program, shape)
    loop = sch.get(sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0])[0])
    assert loop.kind == "parallel" and int(loop.extent) >= 4 * CPU.cores
    check(program, sch, shape)


def test_small_groups_run_on_one_thread() -> None:
    assert parallel_loops(scheduled(PROGRAMS["softmax"], (8, 64))) == 0
    one = schedule_cpu(PROGRAMS["softmax"].function((4096, 1024)), CPU.with_cores(1))
    assert parallel_loops(one) == 0


def test_groups_of_unknown_size_wake_workers_by_what_there_is_to_do() -> None:
    sch = symbolic(PROGRAMS["softmax"])
    loop = sch.get(sch.get_loops("max")[0])
    assert loop.kind == "parallel"
    assert int(loop.annotations["worker_work"]) > 1
    sure = symbolic(PROGRAMS["softmax"], (4096, None))
    assert "worker_work" not in sure.get(sure.get_loops("max")[0]).annotations


def test_rows_along_two_axes_of_unknown_size_are_shared_as_one() -> None:
    """Either may be 1, and the other one long; workers come by the work of all rows."""
    space = Space()
    n, m = (symbol(space, name, 4, 4096, 512) for name in ("n", "m"))
    x = Tensor(tensor_type((n, m, 256), "float32"), "x")
    program = plan_graph(Graph([x], [ops.softmax(x)]), CPU.with_cores(4))
    found = [f for name, f in program.module.functions.items() if name.startswith("kernel")]
    loops = [loop for f in found for loop in collect(limit_workers(f).body, For)]
    (loop,) = (loop for loop in loops if loop.kind == "parallel")
    assert str(loop.extent) == "n * m"
    sizes = {var.name: var for var in free_vars(loop.extent)}

    def workers(rows: int, columns: int) -> int:
        at = {sizes["n"]: rows, sizes["m"]: columns}
        return int(evaluate(loop.annotations["max_workers"], at))

    assert workers(4, 2048) == workers(2048, 4) > 2 and workers(4, 4) == 1
    assert abs(workers(64, 256) - 2 * workers(64, 128)) <= 1


def test_columns_of_unknown_number_are_shared_evenly() -> None:
    """Few long columns in parts of some rows, if there is much to do; many in narrow blocks."""
    space = Space()
    n, m = (symbol(space, name, 1, 1 << 15, 512) for name in ("n", "m"))
    x = Tensor(tensor_type((n, m), "float32"), "x")
    program = plan_graph(Graph([x], [ops.log_softmax(x, 0)]), CPU.with_cores(4))
    lanes = CPU.lanes(32)
    many, much, little = program.buckets["kernel0_max_sub_exp_sum_log"]
    assert [str(p) for p in many.predicates] == [f"m - {16 * lanes}"]
    assert _splits(program, many) == {4 * lanes} and _splits(program, little) == {8 * lanes}
    rows = choices.CHUNK // (16 * lanes - 1)
    assert _splits(program, much) == {rows, 8 * lanes}


def _splits(program: GraphProgram, bucket: Bucket) -> set[int]:
    """By what the loops of a kernel are split."""
    steps = str(program.planned[bucket.kernel].trace)
    return {int(factor) for factor in re.findall(r"factors=\[None, (\d+)\]", steps)}


def test_choices_run_in_vectors_by_themselves() -> None:
    """What else is reduced along the rows shares a loop, as an arg-minimum does not."""
    x = Tensor(tensor_type((300, 2609), "float32"), "x")
    graph = Graph([x], [ops.argmin(x, 1), ops.max(x, (1,)), ops.min(x, (1,)), ops.argmax(x, 1)])
    program = plan_graph(graph, CPU)
    (func,) = (f for name, f in program.module.functions.items() if name.startswith("kernel"))
    found = [loop for loop in collect(func.body, For) if "vector_lanes" in loop.annotations]
    assert sorted(len(collect(loop.body, Block)) for loop in found) == [1, 1, 2]


def test_rows_are_fused_only_where_there_are_few() -> None:
    many = scheduled(PROGRAMS["reduce_broadcast_1"], (640, 64, 1024))
    few = scheduled(PROGRAMS["reduce_broadcast_4"], (6, 32, 16, 64))
    assert many.get(many.get_loops("sum")[0]).loop_var.name.startswith("i0")
    extent = few.get(few.get_loops("sum")[0]).extent
    assert int(extent) == 6 * 16
    np.testing.assert_equal(few.get(few.get_loops("sum")[0]).kind, "parallel")


def test_independent_formulas_of_one_size_share_a_loop() -> None:
    def build(xp: Any, x: Any, y: Any) -> Any:
        return xp.exp(x), y * 2.0

    program = Program("two", build, (512, 512), (7, 9), (lambda shape: shape,))
    sch = scheduled(program, (512, 512))
    assert parallel_loops(sch) == 1
    check(program, sch, (512, 512))


def _shapes(count: int, seed: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    usual = [3, 7, 8, 14, 16, 28, 56, 64, 105, 112, 256, 1024]
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        rank = int(rng.integers(2, 5))
        shape = tuple(
            int(rng.choice(usual) if rng.random() < 0.5 else rng.integers(2, 300))
            for _ in range(rank)
        )
        found += [shape] if 1 << 18 <= int(np.prod(shape)) < 1 << 28 else []
    return found


@pytest.mark.parametrize(
    "shape",
    [(8, 256, 105, 105), (3, 175, 184, 7), (203, 19, 213, 8), (7, 256, 218, 112), *_shapes(25, 0)],
    ids=str,
)
def test_workers_share_large_groups_of_any_extents(shape: tuple[int, ...]) -> None:
    a, row = te.placeholder(shape, name="A"), te.placeholder(shape[-1:], name="R")
    k = te.reduce_axis((0, shape[0]), name="k")
    for result in (
        te.compute(shape, lambda *i: a[i] + 1.0, name="B"),
        te.compute(shape, lambda *i: a[i] * row[i[-1]], name="B"),
        te.compute(shape[1:], lambda *i: te.sum(a[(k.var, *i)], axis=k), name="B"),
    ):
        sch = schedule_cpu(te.create_prim_func([a, row, result]), CPU)
        assert parallel_loops(sch), str(sch.mod)
