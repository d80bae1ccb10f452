"""Ops on symbolic extents: one program, right for every size, against the ops' NumPy meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sampling import sampled
from tileloom.base import dtype
from tileloom.base.errors import UnsupportedError, UserError
from tileloom.driver import compile_graph, compile_polymorphic
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol

RNG = np.random.default_rng(5)
SIZES = [(2, 7), (1, 1), (5, 3), (3, 33), (1, 70), (17, 2)]
FILTER = RNG.standard_normal((8, 4, 3, 3)).astype("float32")
WEIGHT = RNG.standard_normal((12, 40)).astype("float32")
FOUR = RNG.standard_normal(4).astype("float32")

Shape = Callable[[Any, Any], tuple[Any, ...]]
Build = Callable[[Tensor], Any]


def matrix(b: Any, s: Any) -> tuple[Any, ...]:
    return (b, s)


def tokens(b: Any, s: Any) -> tuple[Any, ...]:
    return (b, s, 12)


def images(b: Any, s: Any) -> tuple[Any, ...]:
    return (b, 4, s + 2, 9)


CASES: dict[str, tuple[Shape, Build]] = {
    "conv": (images, lambda x: ops.relu(ops.conv(x, ops.constant(FILTER), pads=1))),
    "conv, strides": (images, lambda x: ops.conv(x, ops.constant(FILTER), strides=2)),
    "pools": (images, lambda x: ops.add(ops.max_pool(x, [3, 3], pads=1),
                                        ops.sum_pool(x, [3, 3], pads=1))),
    "group norm": (images, lambda x: ops.group_norm(
        x, 2, ops.constant(FOUR), ops.constant(FOUR), 1e-5)),
    "mean of an image": (images, lambda x: ops.mean(x, (2, 3))),
    "matmul, transposed": (tokens, lambda x: ops.matmul(x, x, transpose_b=True)),
    "channels last": (images, lambda x: ops.mul(ops.transpose(x, (0, 2, 3, 1)), 2.0)),
    "matmul of depth": (tokens, lambda x: ops.matmul(x, x, transpose_a=True)),
    "matmul in front": (tokens, lambda x: ops.matmul(
        ops.constant(np.ascontiguousarray(WEIGHT.T)), ops.transpose(x, (0, 2, 1)))),
    "two layers": (tokens, lambda x: ops.layer_norm(ops.add(x, ops.matmul(
        ops.gelu(ops.matmul(x, ops.constant(WEIGHT))),
        ops.constant(np.ascontiguousarray(WEIGHT.T)))))),
    "var of columns": (tokens, lambda x: ops.var(x, 0, correction=1.0)),
    "statistics": (tokens, lambda x: [ops.mean(x, (0, 1)), ops.var(x, (0, 1))]),
    "log softmax of columns": (matrix, lambda x: ops.log_softmax(x, 0)),
    "argmax": (matrix, lambda x: [ops.argmax(x, 0), ops.argmax(x, 1)]),
    "outer": (matrix, lambda x: ops.mul(ops.expand_dims(x, 2), ops.expand_dims(x, 1))),
    "pad": (tokens, lambda x: ops.pad(x, [(0, 1), (2, 0), (0, 0)], "edge")),
    "reflect": (matrix, lambda x: ops.pad(x, [(0, 0), (0, 0)], "reflect")),
    "roll and tile": (matrix, lambda x: ops.tile(ops.roll(x, 1, 1), (2, 1))),
    "shift": (tokens, lambda x: ops.sub(
        ops.strided_slice(x, [1], [1 << 30], [1]), ops.strided_slice(x, [0], [-1], [1]))),
    "as it is, and transposed": (matrix, lambda x: [
        y := ops.strided_slice(ops.exp(x), [1], [1 << 30], [1]), ops.transpose(y)]),
    "as it is, and rows in another order": (matrix, lambda x: [
        y := ops.mul(ops.expand_dims(x, 1), ops.constant(FILTER[:1, :, 0, :1])),
        ops.transpose(y, (1, 0, 2))]),
    "product of a part, turned too": (tokens, lambda x: [
        y := ops.matmul(part := ops.strided_slice(x, [1], [1 << 30], [0]), part, transpose_b=True),
        ops.transpose(ops.add(y, 1.0), (1, 0, 2))]),
    "first and last rows": (images, lambda x: [
        ops.gather(x, ops.constant(np.array(rows)), 2) for rows in ([0, -1], [-3, -1], [2, 1])]),
    "sum of what is repeated": (matrix, lambda x: [
        ops.sum(ops.broadcast_to(x, (7 * x.shape[0], *x.shape)), (0, 2)),
        ops.max(ops.broadcast_to(x, (x.shape[1], *x.shape)), (0, 2))]),
    "rolled, and as it is": (matrix, lambda x: ops.mul(ops.roll(x, 3, 1), ops.roll(x, -1, 0))),
    "parts in another order": (matrix, lambda x: ops.add(x, ops.concat(
        ops.split(x, [x.shape[1] // 3, x.shape[1] - x.shape[1] // 3], 1)[::-1], 1))),
    "parts that end at another extent": (matrix, lambda x: ops.concat(
        [ops.strided_slice(x, [x.shape[0]], [1 << 30], [1]),
         ops.strided_slice(x, [0], [x.shape[0]], [1])], 1)),
    "four parts": (matrix, lambda x: ops.split(x, 4, 1)),
    "cumsum": (tokens, lambda x: ops.cumsum(x, 1, reverse=True)),
    "triangle": (matrix, lambda x: ops.tril(x, 1)),
    "regroup": (tokens, lambda x: ops.reshape(
        ops.transpose(ops.reshape(x, (x.shape[0], -1, 4, 3)), (2, 0, 1, 3)), (4, -1))),
    "ten in groups": (matrix, lambda x: ops.reshape(
        ops.concat([x] * 10, 0), (10 * x.shape[1], -1))),
    "batched columns": (tokens, lambda x: ops.max(x, 1)),
    "bfloat16": (matrix, lambda x: ops.softmax(ops.cast(x, "bfloat16"), 1)),
    "integers": (matrix, lambda x: ops.sum(ops.cast(ops.mul(x, 100.0), "int32"), 1)),
    "sort on the host": (matrix, lambda x: ops.neg(ops.sort(ops.mul(x, 2.0), 1))),
}  # fmt: skip


def graph(shape: Shape, build: Build, b: Any, s: Any) -> Graph:
    x = Tensor(TensorType(shape(b, s), dtype("float32")), "x")
    made = build(x)
    return Graph([x], made if isinstance(made, list) else [made])


@pytest.mark.parametrize("name", sampled(CASES, 6))
def test_one_program_for_all_sizes(name: str) -> None:
    shape, build = CASES[name]
    space = Space()
    b, s = symbol(space, "b", 1, 1000, 8), symbol(space, "s", 1, 1000, 37)
    family: Any = compile_polymorphic(graph(shape, build, b, s))
    for sizes in SIZES:
        named = dict(zip(("b", "s"), sizes, strict=True))
        assert family.holds(named), family.recipe.guards
        x = RNG.standard_normal(shape(*sizes)).astype("float32")
        want = run(graph(shape, build, *sizes), [x])
        for one, other in zip(family.at(named)(x), want, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            loose = 2e-2 if name == "bfloat16" else 2e-4
            np.testing.assert_allclose(
                one.astype("float64"), other.astype("float64"), rtol=loose, atol=loose
            )


@pytest.mark.slow
def test_intermediates_lie_apart_for_every_size() -> None:
    """Places in the scratch memory are found for the sizes of the call."""
    space = Space()
    b, s = 3, symbol(space, "s", 1, 1000, 37)

    def build(x: Tensor) -> Tensor:
        first, second = ops.matmul(x, x, transpose_b=True), ops.cumsum(x, 1)
        return ops.add(ops.matmul(ops.softmax(first), second), ops.cumsum(second, 0))

    family = compile_polymorphic(graph(tokens, build, b, s))
    for size in (7, 1, 33, 100):
        x = (RNG.standard_normal(tokens(b, size)) * 0.3).astype("float32")
        (got,) = family.at({"s": size})(x)
        (want,) = run(graph(tokens, build, b, size), [x])
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_arrays_beyond_32_bits_are_refused() -> None:
    space = Space()
    n = symbol(space, "n", 1, (1 << 31) - 1, (1 << 31) - 1)
    x = Tensor(TensorType((n, 4), dtype("int8")), "x")
    with pytest.raises(UnsupportedError, match="more than 2147483647 elements"):
        compile_polymorphic(Graph([x], [ops.neg(x)]))


@pytest.mark.parametrize("where", [(), ("cuda -arch=sm_80", "emulator")], ids=["cpu", "gpu"])
def test_a_small_first_call_leaves_a_guard_for_large_arrays(where: tuple[str, ...]) -> None:
    space = Space()
    n = symbol(space, "n", 1, (1 << 31) - 1, 5)
    x = Tensor(TensorType((n, 4), dtype("int8")), "x")
    family = compile_polymorphic(Graph([x], [ops.neg(x)]), *where)
    assert family.holds({"n": 1 << 28})
    assert not family.holds({"n": 1 << 30})


def test_a_graph_for_many_sizes_is_no_graph_for_one() -> None:
    n = symbol(Space(), "n", 1, 9, 5)
    x = Tensor(TensorType((n, 4), dtype("int8")), "x")
    with pytest.raises(UserError, match="symbolic extents"):
        compile_graph(Graph([x], [ops.neg(x)]))
