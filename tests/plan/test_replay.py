"""Every kernel has a trace, and its JSON makes the kernel again: of each tactic, for CPUs and GPUs.

The slow tests do so for all recorded graphs, the built-in programs and AKG's graphs;
`tests/corpus/test_traces.py` for ResNet-18, BERT and others.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frontend.akg import corpus
from graph.planned_graphs import CASES, given, graph_of
from plan.replay import check_traces
from tileloom.cli.programs import PROGRAMS, TrialProgram, program_graph
from tileloom.driver.plan import plan_graph
from tileloom.driver.plan_cuda import plan_gpu
from tileloom.frontend.akg.importer import import_composite
from tileloom.frontend.akg.source import read_source
from tileloom.graph import ops
from tileloom.graph.inplace import write_in_place
from tileloom.graph.nodes import Graph
from tileloom.graph.program import Program
from tileloom.lower import lower
from tileloom.target import Target, target
from tileloom.tir import assert_structural_equal

Plan = Callable[[Graph, Target], Program]
PLANS: dict[str, tuple[Plan, Target]] = {
    "CPU": (plan_graph, target("cpu -num-cores=2 -mattr=+avx512f,+avx512vnni")),
    "CPU with narrow vectors": (plan_graph, target("cpu -num-cores=16 -mattr=+avx2,+fma")),
    "GPU": (plan_gpu, target("cuda -arch=sm_80")),
}
#: A few of each tactic.
SMALL = [
    "chain of 8", "statistics", "normalized twice", "sums side by side", "transposed",
    "sum of everything", "matmul odd", "matmul one row", "linear 33", "matmul int8",
    "matmul bfloat16 odd", "conv odd", "conv depthwise two", "max pool stride 1", "gather",
    "cumsum", "gram", "conv whole image", "open softmax", "open column sum", "open transpose",
    "open matmul", "open conv",
]  # fmt: skip
#: What the library has whole kernels for, which no schedule makes.
OF_LIBRARY = {("GPU", "cumsum"), ("GPU", "sorted")}
#: Convolutions of words, which templates of loops make.
OF_TEMPLATES = {
    (where, name) for where in PLANS if where != "GPU" for name in ("conv int8", "conv bfloat16")
}
CASES_OF = {
    where: [name for name in CASES if (where, name) not in OF_LIBRARY | OF_TEMPLATES]
    for where in PLANS
}


def check(graph: Graph, where: str, lowered: bool = False) -> int:
    """How many kernels a graph has, all of which their traces make again."""
    plan, machine = PLANS[where]
    program = plan(graph, machine)
    made = check_traces(program)
    for func in made if lowered else ():
        name = next(n for n, p in program.planned.items() if p.func.name == func.name)
        flat = lower(program.module.functions[name], machine)
        assert_structural_equal(lower(func, machine), flat)
    return len(made)


@pytest.mark.parametrize("where", ["CPU", "GPU"])
@pytest.mark.parametrize("name", SMALL)
def test_kernels_of_each_tactic(name: str, where: str) -> None:
    if (where, name) not in OF_LIBRARY:
        assert check(graph_of(name), where)


@pytest.mark.parametrize("where", ["CPU", "GPU"])
@pytest.mark.parametrize("name", ["softmax axis 1", "matmul odd", "conv depthwise two"])
def test_what_is_lowered_is_equal_too(name: str, where: str) -> None:
    assert check(graph_of(name), where, lowered=True)


@pytest.mark.parametrize(("kind", "out"), [("uint8", "int32"), ("bfloat16", "float32")])
def test_products_of_one_word_are_no_products_of_panels(kind: str, out: str) -> None:
    a, b = given((3, 2), (2, 8), kind=kind)
    assert check(Graph([a, b], [ops.matmul(a, b, out_dtype=out)]), "CPU")


def test_a_result_in_place_has_a_trace() -> None:
    (x,) = given((20, 30))
    program = plan_graph(Graph([x], [ops.add(ops.exp(x), 1.0)]), PLANS["CPU"][1])
    assert write_in_place(program, {0: 0})
    (func,) = check_traces(program)
    assert len(func.params) == 1 and "_in_place" in func.name


@pytest.mark.slow
@pytest.mark.parametrize("where", PLANS)
def test_all_recorded_graphs(where: str) -> None:
    assert sum(check(graph_of(name), where) for name in CASES_OF[where]) > len(CASES_OF[where])


@pytest.mark.slow
@pytest.mark.parametrize("where", PLANS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_built_in_programs(program: TrialProgram, where: str) -> None:
    assert check(program_graph(program.name, 0), where)


@pytest.mark.slow
@pytest.mark.skipif(not corpus.SAMPLE.exists(), reason="the sample is not here")
@pytest.mark.parametrize("where", PLANS)
@pytest.mark.parametrize("part", range(10))
def test_the_graphs_of_akg(part: int, where: str) -> None:
    numbers = range(part, len(corpus.graphs()), 10)
    graphs = [import_composite(read_source(corpus.graphs()[number])).graph for number in numbers]
    assert sum(check(graph, where) for graph in graphs) >= 20  # some are views alone
