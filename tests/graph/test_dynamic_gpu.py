"""One program for many sizes on a GPU: compiled once, right for all, on the checking emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileloom as tl
from tileloom.base.errors import ArgumentError

BATCH, SEQ = tl.Dim("batch", max=1 << 14), tl.Dim("seq", max=1 << 16)
#: Around warps and blocks, of both kinds of rows: many short ones, and few long ones.
SHAPES = [(1, 1), (2, 1), (1, 2), (31, 33), (33, 31), (32, 32), (7, 127), (5, 521), (3, 2053),
          (2, 9001), (1031, 3), (1, 40009), (17, 16411), (2053, 7), (4099, 40)]  # fmt: skip

Function = Callable[..., Any]


def on_gpu(function: Function, dims: dict[int, tl.Dim] | None = None) -> Any:
    shapes = {"x": {0: BATCH, 1: SEQ} if dims is None else dims}
    return tl.jit(function, dynamic_shapes=shapes, target="cuda -arch=sm_80", device="emulator")


def check(run: Any, reference: Function, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")
    found, wanted = run(x), reference(x.astype("float64"))
    assert found.shape == wanted.shape
    # Sums of many numbers around zero are right relative to what was added up.
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6 * max(100, x.size))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(xp: Any) -> Function:
    def run(x: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    return run


def cross_entropy(xp: Any, log_sum: Function) -> Function:
    return lambda x: xp.mean(log_sum(x) - x[:, 0])


def log_sum_exp(x: Any) -> Any:
    top = tl.max(x, axis=1)
    return tl.log(tl.sum(tl.exp(x - tl.expand_dims(top, axis=1)), axis=1)) + top


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "formula": (lambda x: tl.tanh(x) * 2.0 + x, lambda x: np.tanh(x) * 2 + x),
    "softmax": (tl.softmax, softmax),
    "layer_norm": (layer_norm(tl), layer_norm(np)),
    "cross_entropy": (
        cross_entropy(tl, log_sum_exp),
        cross_entropy(np, lambda x: np.log(np.exp(x).sum(1))),
    ),
    "sum_of_rows": (lambda x: tl.sum(x, axis=1), lambda x: x.sum(1)),
    "sum_of_columns": (lambda x: tl.sum(x, axis=0), lambda x: x.sum(0)),
    "columns_used_again": (
        lambda x: x / tl.sum(abs(x), axis=0),
        lambda x: x / np.abs(x).sum(0),
    ),
    "sum": (tl.sum, np.sum),
    "largest": (lambda x: tl.argmax(x, axis=1), lambda x: x.argmax(1)),
    "transpose": (lambda x: tl.matrix_transpose(x) + 1.0, lambda x: x.T + 1),
    "of_columns": (
        lambda x: x - tl.expand_dims(tl.mean(x, axis=1), axis=1) + tl.mean(x, axis=0),
        lambda x: x - x.mean(1, keepdims=True) + x.mean(0),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_compilation(name: str) -> None:
    function, reference = FUNCTIONS[name]
    run = on_gpu(function)
    for shape in SHAPES:
        check(run, reference, shape)
    assert run.compilations == 1
    about = run.explain(np.ones((3, 5), "float32"))
    assert "each size" not in about and "right where" not in about.replace("2147483647", "")
