"""Integers that wrap around, also where a comparison or a division follows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run

EXTREMES = {
    kind: np.array(
        [np.iinfo(kind).min, np.iinfo(kind).min + 1, -2, -1, 0, 1, 2, 3, np.iinfo(kind).max - 1,
         np.iinfo(kind).max], kind)
    for kind in ("int8", "int16", "int32", "int64")
}  # fmt: skip


@pytest.mark.parametrize("kind", list(EXTREMES))
@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: ops.greater(ops.sub(x, y), 0),
        lambda x, y: ops.greater(ops.add(x, 1), x),
        lambda x, y: ops.less(ops.mul(x, 2), ops.mul(y, 2)),
        lambda x, y: ops.floor_divide(ops.mul(x, 2), 2),
        lambda x, y: ops.mod(ops.add(ops.mul(x, 4), y), 4),
        lambda x, y: ops.minimum(ops.add(x, y), ops.sub(x, y)),
        lambda x, y: ops.equal(ops.abs(ops.neg(x)), x),
        lambda x, y: ops.less(ops.neg(x), ops.square(y)),
        lambda x, y: ops.sign(ops.sub(x, y)),
        lambda x, y: ops.maximum(ops.neg(ops.sub(x, y)), ops.add(x, 7)),
    ],
)
def test_integers_wrap_around(build: Callable[[Tensor, Tensor], Tensor], kind: str) -> None:
    x, y = (Tensor(tensor_type((10, 10), kind), name) for name in "xy")
    graph = Graph([x, y], [build(x, y)])
    grid = np.meshgrid(EXTREMES[kind], EXTREMES[kind])
    left, right = (np.ascontiguousarray(part) for part in grid)
    with np.errstate(all="ignore"):
        [want] = run(graph, [left, right])
    [got] = compile_graph(graph)(left, right)
    assert np.array_equal(got, want)
