"""The plans of AKG's own graphs, for CPUs and GPUs: all of them are proven right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frontend.akg import corpus
from tileloom.driver.plan import plan_graph
from tileloom.driver.plan_cuda import plan_gpu
from tileloom.frontend.akg.importer import import_composite
from tileloom.frontend.akg.source import read_source
from tileloom.graph.nodes import Graph
from tileloom.graph.program import Program
from tileloom.schedule.verify import verify_program
from tileloom.target import Target, target

pytestmark = pytest.mark.skipif(not corpus.SAMPLE.exists(), reason="the sample is not here")

#: How graphs are planned, and for what.
PLANS: dict[str, tuple[Callable[[Graph, Target], Program], Target]] = {
    "CPU": (plan_graph, target("cpu -num-cores=2 -mattr=+avx512f")),
    "CPU with narrow vectors": (plan_graph, target("cpu -num-cores=16 -mattr=+avx2,+fma")),
    "GPU": (plan_gpu, target("cuda -arch=sm_80")),
}
#: Plans of which it takes too long to tell.
UNDECIDED = {("GPU", 299)}
#: Statistics of rows, a transpose, a product: proven in no time.
SOME = (11, 101, 174)


def check(number: int, where: str) -> int:
    """The plans of a graph; how many there are."""
    plan, machine = PLANS[where]
    program = plan(import_composite(read_source(corpus.graphs()[number])).graph, machine)
    assert len(program.planned) == program.kernel_count
    for planned in program.planned.values():
        report = verify_program(planned.func, original=planned.blocks)
        late = report.state == "unknown" and (where, number) in UNDECIDED
        assert report.ok or late, f"graph {number}: {report}"
    return len(program.planned)


@pytest.mark.parametrize("where", ["CPU", "GPU"])
@pytest.mark.parametrize("number", SOME)
def test_some_plans_are_proven(number: int, where: str) -> None:
    pytest.importorskip("islpy")
    assert check(number, where)


@pytest.mark.slow
@pytest.mark.parametrize("where", PLANS)
@pytest.mark.parametrize("part", range(10))
def test_all_plans_are_proven(part: int, where: str) -> None:
    pytest.importorskip("islpy")
    assert sum(check(number, where) for number in range(part, len(corpus.graphs()), 10)) >= 20
