"""Reductions that are merged, made narrower or freed of factors; and counts of equal terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.optimize.rule_checks import check_example, examples_of
from graph.optimize.rule_examples import Example
from tileloom.base import dtype
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.optimize import optimize
from tileloom.graph.optimize.reductions import _is_exact
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol


@examples_of("reductions")
def test_function_holds_in_its_class(rule: Any, example: Example) -> None:
    check_example(rule, example)


@pytest.mark.parametrize(
    ("kind", "exact", "rounded"),
    [
        ("float16", [1, 2047, 2048, 2050, 65504], [2049, 4099, 65536, 70000]),
        ("bfloat16", [1, 256, 258, 1 << 127], [257, 1001]),
        ("float32", [1 << 24, (1 << 24) + 2], [(1 << 24) + 1]),
        ("float64", [(1 << 24) + 1, 1 << 53], []),
        ("int8", [1, 300, 1 << 20], []),
        ("uint32", [1 << 40], []),
    ],
)
def test_counts_that_are_numbers_of_a_type(kind: str, exact: list[int], rounded: list[int]) -> None:
    """Integers wrap around, as their sums do."""
    assert all(_is_exact(count, dtype(kind)) for count in exact)
    assert not any(_is_exact(count, dtype(kind)) for count in rounded)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int8", "int32"])
@pytest.mark.parametrize("most", [1000, (1 << 31) - 1, 1 << 31])
def test_counts_that_are_not_known(most: int, kind: str) -> None:
    """They must fit an index, and narrow floats have too few of them."""
    count = symbol(Space(), "n", 1, most, 7)
    assert _is_exact(count, dtype(kind)) == (most < 1 << 31 and kind not in ("float16", "bfloat16"))


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_what_may_be_repeated_not_at_all_stays(name: str, least: int) -> None:
    """The maximum of nothing is not the maximum of what would have been repeated."""
    n = symbol(Space(), "n", least, 100, 7)
    x = Tensor(TensorType((1, 3), dtype("float32")), "x")
    spread = ops.broadcast_to(x, (n, 3))
    made = ops.sum(spread, 0) if name == "sum" else ops.max(spread, 0, empty_ok=True)
    names = [node.op.name for node in optimize(Graph([x], [made]), "reassociating").nodes]
    assert ("broadcast_to" in names) == (least == 0), names


def test_a_count_that_is_not_known_is_a_factor() -> None:
    n = symbol(Space(), "n", 1, 100, 7)
    x = Tensor(TensorType((1, 3), dtype("float32")), "x")
    made = ops.sum(ops.broadcast_to(x, (n, 3)), 0)
    names = {node.op.name for node in optimize(Graph([x], [made]), "reassociating").nodes}
    assert {"extent", "mul"} <= names and "reduce_sum" not in names
    assert np.prod(made.shape) == 3
