"""Graphs compiled for GPUs, run by the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileloom
from tileloom import numpy as tnp
from tileloom.base.errors import ArgumentError, UnsupportedError
from tileloom.cli.programs import encoder, encoder_layer
from tileloom.driver import compile_graph, plan_graph, show_stage
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.lower import lower
from tileloom.lower.analysis.threads import kernels
from tileloom.target import target

GPU = target("cuda -arch=sm_80")


def tensor(*shape: int, kind: str = "float32", name: str = "x") -> Tensor:
    return Tensor(tensor_type(shape, kind), name)


def check(graph: Graph, seed: int = 0, rtol: float = 2e-5) -> None:
    rng = np.random.default_rng(seed)
    arrays = [
        np.asarray(rng.standard_normal(t.shape), t.dtype.numpy)
        if t.dtype.is_float
        else np.asarray(rng.integers(-9, 9, t.shape), t.dtype.numpy)
        for t in graph.inputs
    ]
    found = compile_graph(graph, GPU, device="emulator")(*arrays)
    for array, wanted in zip(found, run(graph, arrays), strict=True):
        assert array.dtype == wanted.dtype and array.shape == wanted.shape
        np.testing.assert_allclose(array, wanted, rtol=rtol, atol=rtol / 10)


def test_a_layer_and_what_follows() -> None:
    x, w, b = tensor(7, 33), tensor(33, 20, name="w"), tensor(20, name="b")
    hidden = ops.gelu(ops.add(ops.matmul(x, w), b))
    check(Graph([x, w, b], [ops.softmax(hidden), ops.sum(hidden, 0)]))


@pytest.mark.parametrize("rows", [20, 5])  # tiled, and an element a thread
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_products_store_in_another_order(rows: int, kind: str) -> None:
    """A transposed result takes no kernel of its own; a second result does, of tiled products."""
    x, w, b = (
        tensor(rows, 18, kind=kind),
        tensor(18, 24, kind=kind, name="w"),
        tensor(24, kind=kind),
    )
    shifted = ops.add(ops.matmul(x, w), b)
    heads = ops.reshape(shifted, (rows, 2, 12))
    for order in ((1, 2, 0), (2, 0, 1), (1, 0, 2)):
        graph = Graph([x, w, b], [ops.neg(ops.transpose(heads, order))])
        assert plan_graph(graph, GPU).kernel_count == 1
        check(graph, rtol=2e-5 if kind == "float32" else 1e-2)
    if kind == "float32":
        graph = Graph([x, w, b], [shifted, ops.tanh(shifted)])
        assert plan_graph(graph, GPU).kernel_count == (2 if rows == 20 else 1)
        check(graph)


def test_views_constants_and_repeated_outputs() -> None:
    x = tensor(4, 6)
    turned = ops.reshape(ops.transpose(x, (1, 0)), (24,))
    table = ops.add(turned, np.arange(24, dtype="float32"))  # type: ignore[arg-type]
    check(Graph([x], [table, turned, turned, x, ops.reshape(x, (2, 12))]))


def test_steps_on_the_host_between_kernels() -> None:
    x = tensor(5, 9)
    check(Graph([x], [ops.neg(ops.sort(ops.exp(x), 1))]))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0, 3), (3, 0)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    total = ops.sum(x, 0) if shape else ops.neg(x)
    check(Graph([x], [ops.exp(x), total, ops.add(x, 1.0)]))


def test_integers() -> None:
    x, y = tensor(37, kind="int32"), tensor(37, kind="int32", name="y")
    check(Graph([x, y], [ops.maximum(ops.mul(x, y), 3), ops.sum(x, 0)]))


def test_an_input_that_is_replaced_is_changed() -> None:
    x, g = tensor(8), tensor(8, name="g")
    graph = Graph([x, g], [ops.sub(x, ops.mul(g, 0.5)), ops.sum(x, 0)])
    step = compile_graph(graph, GPU, replaced={0: 0}, device="emulator")
    a, b = np.arange(8, dtype="float32"), np.ones(8, "float32")
    new, total = step(a, b)
    assert new is a and total == 28
    np.testing.assert_array_equal(a, np.arange(8) - 0.5)


def test_wrong_arguments() -> None:
    x = tensor(8)
    compiled = compile_graph(Graph([x], [ops.exp(x)]), GPU, device="emulator")
    with pytest.raises(ArgumentError, match=r"\(x\): expected .* shape \(8,\), got shape \(9,\)"):
        compiled(np.zeros(9, "float32"))
    with pytest.raises(ArgumentError, match=r"takes 1 arguments \(x\), got 2"):
        compiled(np.zeros(8, "float32"), np.zeros(8, "float32"))
    with pytest.raises(UnsupportedError, match="no device 'tpu'"):
        compile_graph(Graph([x], [ops.exp(x)]), GPU, device="tpu")
    with pytest.raises(UnsupportedError, match="no device 'emulator' for the target cpu"):
        compile_graph(Graph([x], [ops.exp(x)]), "cpu", device="emulator")


def test_jit_runs_on_the_emulator() -> None:
    @tileloom.jit(target="cuda -arch=sm_80", device="emulator")
    def normalise(x: Any) -> Any:
        e = tnp.exp(x - tnp.max(x, axis=1, keepdims=True))
        return e / tnp.sum(e, axis=1, keepdims=True)

    x = np.random.default_rng(0).standard_normal((64, 128)).astype("float32")
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(normalise(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(normalise(x[::2, ::2]).sum(1), 1, rtol=1e-5)


def test_every_group_of_an_encoder_is_one_launch() -> None:
    rng = np.random.default_rng(0)
    layers = [encoder_layer(rng, 32, 64) for _ in range(2)]
    x = rng.standard_normal((17, 32)).astype("float32")
    compiled: Any = tileloom.jit(encoder, target=str(GPU), device="emulator")
    program = plan_graph(compiled.graph(x, layers, 2), GPU)
    assert program.kernel_count == 2 * 12 and len(program.module.functions) == 11
    for func in program.module.functions.values():
        assert len(list(kernels(lower(func, GPU).body))) == 1
    wanted = encoder(x.astype("float64"), layers, 2)
    np.testing.assert_allclose(compiled(x, layers, 2), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        ("graph", "exp"),
        ("groups", "kernel"),
        ("tir", "blockIdx.x"),
        ("flat", "threadIdx.x"),
        ("llvm", "nvvm"),
        ("asm", ".visible .entry"),
    ],
)
def test_stages(stage: str, says: str) -> None:
    x = tensor(4, 300)
    assert says in show_stage(Graph([x], [ops.exp(x)]), stage, GPU)


@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_scans_and_histograms_are_kernels_of_the_library(kind: str) -> None:
    x = tensor(3, 4, 331, kind=kind)
    shifted = ops.add(x, x)
    results = [ops.cumsum(shifted, 2), ops.cumsum(x, 0, exclusive=True, reverse=True)]
    graph = Graph([x], [*results, ops.add(results[0], 1), ops.cumprod(ops.mul(x, 0), 1)])
    program = plan_graph(graph, GPU)
    assert all(segment.node is None for segment in program.segments)
    assert sum("alone" in name or "cum" in name for name in program.module.functions) == 3
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (3, 4, 331)).astype(kind)
    for found, wanted in zip(
        compile_graph(graph, GPU, device="emulator")(a), run(graph, [a]), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64"])
def test_counting(kind: str) -> None:
    x = tensor(3001, kind=kind)
    graph = Graph([x], [ops.add(ops.bincount(x, 9), 1)])
    a = np.random.default_rng(0).integers(0, 12, 3001).astype(kind)
    (found,) = compile_graph(graph, GPU, device="emulator")(a)
    assert found.tolist() == (np.bincount(a, minlength=12)[:9] + 1).tolist()


def test_nothing_to_scan() -> None:
    x = tensor(3, 0)
    check(Graph([x], [ops.cumsum(x, 1)]))


@pytest.mark.parametrize("reduction", ["none", "add", "max", "mul"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_scatters(reduction: str, kind: str) -> None:
    d, u = tensor(9, 6, kind=kind, name="d"), tensor(4, 6, kind=kind, name="u")
    i, p = tensor(4, 6, kind="int64", name="i"), tensor(4, 1, kind="int32", name="p")
    graph = Graph(
        [d, u, i, p],
        [ops.scatter_elements(d, i, u, 0, reduction), ops.scatter_nd(ops.neg(d), p, u, reduction)],
    )
    compiled = compile_graph(graph, GPU, device="emulator")
    on_host = [segment for segment in plan_graph(graph, GPU).segments if segment.node is not None]
    exact = reduction == "mul" or (reduction == "add" and kind == "float16")
    assert bool(on_host) == exact
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, t.shape).astype(kind) for t in (d, u)]
    arrays += [
        np.stack([rng.permutation(9)[:4] for _ in range(6)], 1),
        np.array([[3], [0], [-1], [5]]),
    ]
    arrays = [a.astype(t.dtype.numpy) for a, t in zip(arrays, graph.inputs, strict=True)]
    for found, wanted in zip(compiled(*arrays), run(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
