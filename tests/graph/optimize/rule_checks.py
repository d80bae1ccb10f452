"""Trying the rules that are written as functions on the graphs of `rule_examples`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.optimize.near_misses import NEAR_MISSES
from graph.optimize.rule_examples import EXAMPLES, Example
from graph.optimize.rule_values import Array, same_bits
from tileloom.base import dtype
from tileloom.graph.nodes import Graph, Tensor
from tileloom.graph.optimize import RULES, OptimizeReport, optimize
from tileloom.graph.optimize.rule import kind_of
from tileloom.graph.run import run


def examples_of(family: str) -> pytest.MarkDecorator:
    """Every example of the rules of a family, as parameters `rule` and `example`."""
    found = [
        pytest.param(rule, example, id=f"{rule.id}-{number}")
        for rule in RULES
        if rule.family == family
        for number, example in enumerate((*EXAMPLES[rule.id], *NEAR_MISSES.get(rule.id, ())))
    ]
    return pytest.mark.parametrize(("rule", "example"), found)


def check_example(rule: Any, example: Example) -> None:
    """It fires or not, leaves the nodes that it should, and keeps the values as its class says."""
    for kind in example.kinds:
        safety = rule.safety.get(kind_of(dtype(kind)))
        if safety is None:
            continue
        report = OptimizeReport()
        graph = example.graph(kind)
        after = optimize(graph, f"none,+fold,+{rule.id}", report)
        fired = report.fired[rule.id]
        assert (fired > 0) is example.fires, f"{fired} times in\n{graph}\nleft\n{after}"
        if example.after is not None:
            assert [node.op.name for node in after.nodes] == example.after.split()
        _compare(graph, after, safety, example)


def _compare(graph: Graph, after: Graph, safety: str, example: Example) -> None:
    arrays = [_values(t, k) for k, t in enumerate(graph.inputs)]
    # References want axes in one form, which graphs need not have.
    before, now = run(optimize(graph, "none,+sort-axes"), arrays), run(after, arrays)
    for a, b in zip(before, now, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if safety == "exact":
            assert same_bits(a, b).all(), (a, b)
        else:
            near = 2e-2 if any(t.dtype.bits < 32 for t in graph.inputs) else 1e-5
            np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=near, atol=near)


def _values(t: Tensor, number: int) -> Array:
    rng = np.random.default_rng(number)
    if t.dtype.is_float:
        return np.asarray(rng.standard_normal(t.shape)).astype(t.dtype.numpy)
    return np.asarray(rng.integers(0, 2 if t.dtype.is_bool else 100, t.shape)).astype(t.dtype.numpy)
