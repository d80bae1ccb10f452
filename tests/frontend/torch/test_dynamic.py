"""Shapes that change between calls, and shapes that depend on data."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tileloom.frontend.torch import report, tileloom  # noqa: E402

from .helpers import assert_same, compiled  # noqa: E402


def test_symbolic_sizes_compile_once() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.softmax(x @ y, -1)[:, : x.shape[0] // 2] + x.shape[0], x.new_zeros(x.shape[0])

    run = compiled(function, dynamic=True)
    for n in (4, 7, 9, 4, 7):
        x, y = torch.randn(n, 5), torch.randn(5, 8)
        assert_same(run(x, y), function(x, y))
    assert report().graphs == 1
    assert not report().fallbacks


def test_kernels_read_their_own_sizes() -> None:
    """Whatever else the process keeps numbers for."""

    def function(x: Any) -> Any:
        return (x * 2).exp()

    run, kept = compiled(function, dynamic=True), []
    for n in (4, 7, 9, 4, 7, 9):
        x = torch.randn(n, 300)
        kept.append(run(x))
        gc.collect()
        kept += [np.full(count, 1) for count in range(1, 30) for _ in range(10)]
        assert_same(run(x), function(x))
    assert report().graphs == 1


@pytest.mark.slow
def test_sizes_become_symbols_in_training() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    run = compiled(model)
    for n in (4, 7, 9):
        x, gradients = torch.randn(n, 5), []
        for each in (model, run):
            model.zero_grad()
            each(x).square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        assert_same(gradients[1], gradients[0])
    assert not report().fallbacks


def test_strides_are_part_of_a_shape() -> None:
    run = compiled(lambda x: x * 2, dynamic=True)
    x = torch.randn(6, 4)
    assert_same(run(x), x * 2)
    assert_same(run(torch.randn(4, 6).t() * 0 + x), x * 2, strides=False)


def test_sizes_that_depend_on_data() -> None:
    def function(x: Any) -> Any:
        return x[x > 0] * 2, x.nonzero(), x + 1

    x = torch.tensor([1.0, -2.0, 3.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = compiled(function)
        assert_same(run(x), function(x))
        assert_same(run(-x), function(-x))


def test_numbers_that_depend_on_data() -> None:
    def function(x: Any) -> Any:
        return x * x.sum().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert_same(compiled(function)(torch.ones(3)), function(torch.ones(3)))


def test_decisions_break_the_graph_where_pytorch_breaks_it() -> None:
    def function(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x.exp()

    torch._dynamo.reset()
    run = torch.compile(function, backend=tileloom)
    for x in (torch.ones(3), -torch.ones(3)):
        assert_same(run(x), function(x))
