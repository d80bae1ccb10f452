"""The kernels of real networks, of known and of open sizes, are made again by their traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corpus.models import CASES, export
from plan.replay import check_traces
from plan.test_replay import PLANS
from tileloom.cli.models import graph_of
from tileloom.driver import compile_polymorphic
from tileloom.frontend.onnx import load
from tileloom.graph.nodes import Graph

NAMES = ("resnet18", "bert", "mobilenetv3_small", "vit_small")


@pytest.fixture(scope="module", params=NAMES)
def network(request: pytest.FixtureRequest, torchvision_operators: Any) -> Any:
    return CASES[request.param], export(CASES[request.param])


@pytest.mark.parametrize("where", PLANS)
def test_kernels_of_known_sizes(network: Any, where: str) -> None:
    case, data = network
    plan, machine = PLANS[where]
    assert len(check_traces(plan(graph_of(load(data), case.feeds), machine))) > 10


@pytest.mark.parametrize("where", PLANS)
def test_kernels_of_open_sizes(network: Any, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, data = network
    if case.dynamic is None:
        pytest.skip("all dimensions are fixed")
    found: list[Graph] = []

    def noting(graph: Graph, *where: Any) -> Any:
        found.append(graph)
        return compile_polymorphic(graph, *where)

    monkeypatch.setattr("tileloom.frontend.onnx.dynamic.compile_polymorphic", noting)
    model = load(data)
    for count in (2, 3):
        model.run(None, {k: np.concatenate([v] * count) for k, v in case.feeds.items()})
    plan, machine = PLANS[where]
    assert sum(len(check_traces(plan(graph, machine))) for graph in found) > 10
