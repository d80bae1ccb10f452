"""Graphs of real networks: all compile, and match NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from frontend.akg import corpus, reference
from tileloom.akg import load

#: Graphs with more data than this are left to the slow tests.
SMALL = 300_000
needs_sample = pytest.mark.skipif(not corpus.SAMPLE.exists(), reason="the sample is not here")


def numbers(small: bool) -> list[int]:
    """The graphs that are tried: of those with equal operators and small data one."""
    chosen: dict[str, int] = {}
    for k, graph in enumerate(corpus.graphs()):
        kind = " ".join(op["name"] for op in graph["op_desc"]) if small else str(k)
        if not small or corpus.nbytes(graph) < SMALL:
            chosen.setdefault(kind, k)
    return list(chosen.values())


def results(graph: corpus.Graph, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs and changed inputs; `given` is changed."""
    model = load(graph)
    found = dict(zip([info.name for info in model.outputs], model.run(None, given), strict=True))
    return found | {info.name: given[info.name] for info in model.inputs if info.written}


def try_graph(graph: corpus.Graph, given: dict[str, np.ndarray]) -> None:
    kept = {name: array.copy() for name, array in given.items()}
    ours = results(graph, given)
    assert corpus.excess(graph, kept, ours) <= 1
    changed = {op["input_desc"][0][0]["tensor_name"] for op in graph["op_desc"]
               if op["name"] in ("Assign", "InplaceAssign")}  # fmt: skip
    for name in kept.keys() - changed:
        assert np.array_equal(kept[name], given[name], equal_nan=kept[name].dtype.kind == "f")


@needs_sample
@pytest.mark.parametrize("number", numbers(small=True))
def test_small_graphs(number: Any) -> None:
    graph = corpus.graphs()[number]
    try_graph(graph, corpus.sensible(graph))
    try_graph(graph, corpus.feeds(graph, number, "special"))


@pytest.mark.slow
@needs_sample
@pytest.mark.parametrize("number", numbers(small=False))
def test_all_graphs(number: Any) -> None:
    graph = corpus.scaled(corpus.graphs()[number])
    try_graph(graph, corpus.sensible(graph))


@needs_sample
def test_only_one_graph_is_tried_with_smaller_shapes() -> None:
    whole = [k for k, graph in enumerate(corpus.graphs()) if corpus.scaled(graph) is not graph]
    assert whole == [105]


@needs_sample
def test_the_judge_notices_small_errors() -> None:
    graph = next(g for g in corpus.graphs() if g["op_desc"][0]["name"] == "ReduceSum")
    given = corpus.sensible(graph)
    ours = reference.run(graph, given)
    assert corpus.excess(graph, given, ours) == 0
    name = next(iter(ours))
    wrong = ours[name].copy()
    wrong.reshape(-1)[0] += 1e-4 * corpus.reduction_length(graph) ** 0.5
    assert corpus.excess(graph, given, {**ours, name: wrong}) > 1
    wrong.reshape(-1)[0] = np.nan
    assert corpus.excess(graph, given, {**ours, name: wrong}) > 1
