"""Ops of each family as compiled kernels, against their references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import close, graph_of
from tileloom.driver import compile_graph
from tileloom.graph import ops
from tileloom.graph.run import run


def normal(*shape: int, kind: str = "float32") -> Any:
    seed = sum(shape) + len(shape)
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(kind)


def integers(low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng(high).integers(low, high, shape)


IMAGE, DEPTH = normal(2, 4, 9, 7), normal(4, 1, 3, 3)
CASES: dict[str, Any] = {
    "tril": (ops.tril, normal(5, 7)),
    "one_hot": (lambda i: ops.one_hot(i, 5), np.array([1, 4, -1])),
    "iota": (lambda x: ops.add(ops.iota((3, 4), 1, "float32"), x), normal(3, 1)),
    "gather": (lambda a, i: ops.gather(a, i, 1), normal(4, 9), np.array([3, -1])),
    "gather_elements": (
        lambda a, i: ops.gather_elements(a, i, 1), normal(3, 4), integers(-4, 4, 3, 2)),
    "pad": (lambda a: ops.pad(a, [(1, 2), (3, 0)], "reflect"), normal(5, 6)),
    "roll": (lambda a: ops.roll(ops.flip(a, 1), 2, 0), normal(5, 6)),
    "concat": (lambda a, b: ops.concat([a, b, a], 1), normal(3, 2), normal(3, 5)),
    "mixed division": (ops.floor_divide, integers(-9, 9, 33), integers(-2, 3, 33)),
    "integer power": (ops.pow, integers(-3, 4, 33), integers(0, 9, 33)),
    "argmax": (lambda a: ops.argmax(a, 1), normal(4, 9)),
    "sum of nothing": (lambda x: ops.sum(x, 0), normal(0, 5)),
    "sum of one": (ops.sum, normal(1)),
    "product of ones": (ops.matmul, normal(1, 1), normal(1, 1)),
    "var": (ops.var, normal(24)),
    "var over all": (lambda x: ops.var(x, None, True), normal(2, 3, 4)),
    "mean": (lambda x: ops.mean(ops.exp(x)), normal(3, 5)),
    "logsumexp": (lambda x: ops.logsumexp(x, (0, 1), True), normal(2, 2)),
    "softmax": (ops.softmax, normal(33, 17)),
    "softmax of doubles": (ops.softmax, normal(3, 4, 5, kind="float64")),
    "softmax of columns": (lambda x: ops.softmax(x, 0), normal(5, 33)),
    "layer_norm": (lambda x, s: ops.layer_norm(x, s, s), normal(5, 33), normal(33)),
    "group_norm": (lambda x, s: ops.group_norm(x, 2, s, s), IMAGE, normal(4)),
    "batch_norm": (lambda x, s: ops.batch_norm(x, s, s, s, ops.exp(s)), IMAGE, normal(4)),
    "attention": (lambda q: ops.attention(q, q, q, causal=True), normal(2, 3, 9, 16)),
    "matmul": (
        lambda a, b: ops.gelu(ops.add(ops.matmul(a, b), 1.0)), normal(33, 17), normal(17, 29)),
    "half matmul": (ops.matmul, normal(9, 17, kind="float16"), normal(17, 5, kind="float16")),
    "einsum": (
        lambda a, b: ops.einsum("bij,bkj->bik", a, b), normal(2, 3, 4), normal(2, 5, 4)),
    "conv": (
        lambda a, b: ops.relu(ops.conv(a, b, pads=1, strides=2)), IMAGE, normal(8, 4, 3, 3)),
    "depthwise conv": (lambda a, b: ops.conv(a, b, pads=1, groups=4), IMAGE, DEPTH),
    "conv_transpose": (
        lambda a, b: ops.conv_transpose(a, b, strides=2, pads=1), IMAGE, normal(4, 3, 3, 3)),
    "avg_pool": (lambda a: ops.avg_pool(a, (3, 3), 2, 1), IMAGE),
    "max_pool": (lambda a: list(ops.max_pool_with_indices(a, (3, 3), 2, 1)), IMAGE),
    "resize": (lambda a: ops.resize(a, (2, 4, 13, 11), "cubic"), IMAGE),
    "cumsum between": (lambda a: ops.exp(ops.cumsum(ops.neg(a), 1)), normal(4, 9)),
    "topk": (lambda a: list(ops.topk(a, 3)), normal(4, 9)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_compiled(name: Any) -> None:
    build, *arrays = CASES[name]
    graph = graph_of(build, *arrays)
    found = compile_graph(graph)(*arrays)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    for a, b in zip(found, run(graph, arrays), strict=True):
        close(np.asarray(a), b, 1e-4 if b.dtype == np.float32 else None, name)
