"""Composite ops as machine code against references: odd, unit and empty shapes, NaN, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph.ops.checks import close, graph_of
from tileloom.driver import compile_graph, plan_graph, runnable
from tileloom.graph import ops
from tileloom.graph.run import run

SHAPES = [(0, 4), (3, 0), (1, 1), (5, 7), (2, 3, 5)]
TOLERANCE = {"float16": 2e-2, "float32": 3e-4, "float64": 1e-9}


class Operands:
    """Arrays of the shapes that ops over rows or channels of a shape take."""

    def __init__(self, shape: tuple[int, ...], kind: str, special: bool = False) -> None:
        self.random = np.random.default_rng(sum(shape))
        self.shape, self.kind = shape, kind
        self.x, self.dy = self.normal(*shape), self.normal(*shape)
        if special and self.x.size > 6:
            self.x.reshape(-1)[[1, 4, 6]] = np.nan, np.inf, -np.inf
        self.last, self.channel = self.normal(shape[-1]), self.normal(shape[1])
        self.rows = self.normal(*shape[:-1])
        self.p = (1 / (1 + np.exp(-self.normal(*shape).astype("float64")))).astype(kind)
        self.classes = self.random.integers(0, max(shape[1], 1), (shape[0], *shape[2:]))
        self.mask = self.random.random(shape) > 0.5

    def normal(self, *shape: int) -> np.ndarray:
        return np.asarray(self.random.standard_normal(shape)).astype(self.kind)

    def number(self, value: float) -> np.ndarray:
        return np.asarray(value, self.kind)


def positive(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(x) + np.asarray(0.5, x.dtype))


def both(build: Any) -> Any:
    return lambda *tensors: list(build(*tensors))


CASES: dict[str, Any] = {
    "softmax_grad": lambda o: (ops.softmax_grad, o.dy, o.p),
    "log_softmax_grad": lambda o: (ops.log_softmax_grad, o.dy, -positive(o.x)),
    "layer_norm_grad": lambda o: (
        both(ops.layer_norm_grad), o.dy, o.x, o.rows, positive(o.rows), o.last),
    "rms_norm_grad": lambda o: (both(ops.rms_norm_grad), o.dy, o.x, o.last),
    "layer_norm_with_stats": lambda o: (both(ops.layer_norm_with_stats), o.x, o.last, o.last),
    "batch_norm_training": lambda o: (
        lambda *t: list(ops.batch_norm_training(*t, unbiased=False)),
        o.x, o.channel, o.channel, o.channel, positive(o.channel)),
    "batch_norm_grad": lambda o: (
        both(ops.batch_norm_grad), o.dy, o.x, o.channel, o.channel, positive(o.channel)),
    "bias_add": lambda o: (ops.bias_add, o.x, o.channel),
    "bias_add_grad": lambda o: (ops.bias_add_grad, o.x),
    "dropout": lambda o: (ops.dropout, o.x, o.mask),
    "gelu_grad": lambda o: (ops.gelu_grad, o.dy, o.x),
    "relu_grad": lambda o: (ops.relu_grad, o.dy, o.x),
    "hard_swish_grad": lambda o: (ops.hard_swish_grad, o.dy, o.x),
    "swiglu_grad": lambda o: (both(ops.swiglu_grad), o.dy, o.x, o.p),
    "div_grad": lambda o: (both(ops.div_grad), o.dy, o.x, positive(o.last)),
    "maximum_grad": lambda o: (both(ops.maximum_grad), o.dy, o.x, o.last),
    "erfc": lambda o: (ops.erfc, o.x),
    "lerp": lambda o: (ops.lerp, o.x, o.dy, o.last),
    "reduce_as": lambda o: (lambda x: ops.reduce_as(x, (1, o.shape[-1])), o.x),
    "p_norm": lambda o: (lambda x: ops.p_norm(x, 3.0, -1), o.x),
    "clip_by_norm": lambda o: (lambda x: ops.clip_by_norm(x, 1.0), o.x),
    "square_sum_all": lambda o: (both(ops.square_sum_all), o.x, o.dy),
    "equal_count": lambda o: (ops.equal_count, o.x, o.x),
    "float_status": lambda o: (ops.float_status, o.x),
    "adamw": lambda o: (lambda *t: list(ops.adamw(*t, 2.0, 0.1)), o.x, o.dy, positive(o.x), o.dy),
    "lamb": lambda o: (lambda *t: list(ops.lamb(*t, 2.0, 0.1)), o.x, o.dy, positive(o.x), o.dy),
    "mse_loss": lambda o: (ops.mse_loss, o.x, o.dy),
    "huber_loss": lambda o: (ops.huber_loss, o.x, o.dy),
    "kl_div": lambda o: (ops.kl_div, o.x, o.p),
    "bce_loss": lambda o: (ops.bce_loss, o.p, o.p),
    "sigmoid_cross_entropy": lambda o: (ops.sigmoid_cross_entropy_with_logits, o.x, o.p),
    "softmax_cross_entropy": lambda o: (both(ops.softmax_cross_entropy_with_logits), o.x, o.p),
    "cross_entropy": lambda o: (ops.cross_entropy, o.x, o.classes),
    "nll_loss_grad": lambda o: (
        ops.nll_loss_grad, o.number(1.0), o.x, o.classes, o.number(3.0)),
    "argmax_with_value": lambda o: (lambda x: list(ops.argmax_with_value(x, 1)), o.x),
}  # fmt: skip
NEED_CLASSES = {"cross_entropy", "nll_loss_grad", "argmax_with_value"}


def compare(name: str, operands: Operands) -> None:
    build, *arrays = CASES[name](operands)
    graph = graph_of(build, *arrays)
    for found, expected in zip(compile_graph(graph)(*arrays), run(graph, arrays), strict=True):
        close(found, expected, TOLERANCE[operands.kind], name)


@pytest.mark.parametrize("name", CASES)
def test_odd_shape(name: Any) -> None:
    compare(name, Operands((5, 7), "float32"))


@pytest.mark.parametrize("name", CASES)
def test_special_values(name: Any) -> None:
    """NaN and infinities come out where the reference has them."""
    compare(name, Operands((5, 7), "float32", special=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_types(shape: Any, kind: Any) -> None:
    for name in CASES:
        if shape[1] or name not in NEED_CLASSES:
            compare(name, Operands(shape, kind))


@pytest.mark.parametrize("name", ["softmax_grad", "log_softmax_grad", "gelu_grad", "adamw",
                                  "layer_norm_with_stats", "softmax_cross_entropy"])  # fmt: skip
def test_one_kernel(name: str) -> None:
    build, *arrays = CASES[name](Operands((8, 12), "float32"))
    assert plan_graph(graph_of(build, *arrays), runnable("cpu")).kernel_count == 1
