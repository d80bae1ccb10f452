"""Convolutions of words: constant weights are packed, signs flipped with what is padded."""

from __future__ import annotations

from itertools import product as every
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sampling import sampled
from tileloom.base import dtype
from tileloom.base.settings import override
from tileloom.driver import compile_graph, compile_polymorphic, plan, plan_graph
from tileloom.graph import ops
from tileloom.graph.flip_signs import flip_signs
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.pack import pack_weights
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.graph.to_tir.machine import Machine
from tileloom.plan import GroupRefused
from tileloom.plan.cpu import schedule
from tileloom.target import Target, target

Array = np.ndarray[Any, Any]
NO_TILES = "-amx-bf16,-amx-int8,-amx-tile"
TARGETS = {
    "dots": (f"cpu -mattr={NO_TILES}", ("avx512vnni", "avx512bf16")),
    "narrow dots": (f"cpu -mattr={NO_TILES},-avx512f,-avx512bf16,-avx512vnni", ("avxvnni",)),
}
KINDS = [
    ("uint8", "int8"), ("int8", "uint8"), ("int8", "int8"), ("uint8", "uint8"),
    ("bfloat16", "bfloat16"),
]  # fmt: skip
#: The input, outputs, the window, strides, pads, dilations, groups.
CASES: dict[str, tuple[Any, ...]] = {
    "edges": ((1, 5, 9, 11), 7, (3, 3), 1, 1, 1, 1),
    "points": ((2, 17, 6, 6), 33, (1, 1), 1, 0, 1, 1),
    "strides": ((1, 3, 13, 13), 8, (5, 5), 2, 2, 1, 1),
    "dilations": ((1, 8, 11, 11), 16, (3, 3), 1, 2, 2, 1),
    "groups": ((2, 20, 7, 9), 12, (3, 3), 1, 1, 1, 2),
    "one side": ((1, 6, 5, 8), 5, (3, 2), (2, 1), (2, 0, 1, 1), 1, 1),
    "a line": ((3, 7, 19), 6, (4,), 1, 1, 1, 1),
    "a volume": ((1, 5, 4, 5, 6), 5, (2, 3, 3), 1, 1, 1, 1),
    "one row, many channels": ((1, 67, 1, 40), 9, (1, 3), 1, (0, 1), 1, 1),
}
MACHINE = Machine(features=frozenset(["avx512vnni", "avx512bf16"]))


def numbers(rng: np.random.Generator, shape: Any, kind: str) -> Array:
    """Any bytes, with many of the least and of the greatest; small whole numbers of bfloat16."""
    if kind == "bfloat16":
        return np.asarray(rng.integers(-8, 9, shape), ml_dtypes.bfloat16)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return np.asarray(rng.choice([low, high, *rng.integers(low, high, 3)], shape), kind)


def convolution(name: str, kinds: tuple[str, str], pad_value: int) -> tuple[Graph, Array]:
    (shape, outputs, window, strides, pads, dilations, groups), (left, right) = CASES[name], kinds
    rng = np.random.default_rng(0)
    weight = numbers(rng, (outputs, shape[1] // groups, *window), right)
    x = Tensor(tensor_type(shape, left), "x")
    rank = len(window)
    padding = [*pads, *pads] if isinstance(pads, tuple) and len(pads) == rank else pads
    result = ops.conv(
        x, ops.constant(weight), strides=strides, pads=padding, dilations=dilations, groups=groups,
        out_dtype="float32" if left == "bfloat16" else "int32",
        pad_value=0 if left == "bfloat16" else pad_value,
    )  # fmt: skip
    return Graph([x], [result]), numbers(rng, shape, left)


def on(name: str) -> Target:
    text, needed = TARGETS[name]
    if not all(map(Target.host().has, needed)):
        pytest.skip(f"the machine lacks {needed}")
    return target(text)


@pytest.mark.parametrize(
    ("case", "kinds", "name"), sampled(every(CASES, KINDS, TARGETS), 7, several=True)
)
def test_convolutions_are_exact(
    case: str, kinds: tuple[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a schedule, in one kernel."""

    def template(*_: Any) -> None:
        raise AssertionError("no schedule was found")

    monkeypatch.setattr(plan, "group_kernel", template)
    where = on(name)
    for pad_value in (0, 77):
        graph, x = convolution(case, kinds, pad_value)
        program = plan_graph(graph, where)
        assert "dot_" in str(program.module) or kinds[0] == "bfloat16"
        assert all(kernel.trace.as_json()[0] for kernel in program.planned.values())
        with override(cache=False):
            [got] = compile_graph(graph, where)(x)
        [want] = run(graph, [x])
        assert np.array_equal(got, want), pad_value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kinds", KINDS)
def test_what_the_graph_becomes_means_the_same(kinds: tuple[str, str], case: str) -> None:
    for pad_value in (0, 77):
        graph, x = convolution(case, kinds, pad_value)
        flipped = flip_signs(graph, MACHINE)
        packed = pack_weights(flipped, MACHINE)
        same = kinds[0] == kinds[1] != "bfloat16"
        assert any(node.attrs.get("flips") for node in flipped.nodes) == same
        assert "packed_conv" in {node.op.name for node in packed.nodes}
        [want] = run(graph, [x])
        for made in (flipped, packed):
            [got] = run(made, [x])
            assert np.array_equal(got, want) and got.dtype == want.dtype


@pytest.mark.parametrize("kinds", KINDS)
def test_where_no_tiles_are_had_plain_loops_unpack_weights(
    kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise GroupRefused("no tiles today")

    monkeypatch.setattr(schedule, "tile_product", refused)
    graph, x = convolution("edges", kinds, 77)
    with override(cache=False):
        [got] = compile_graph(graph, on("dots"))(x)
    assert np.array_equal(got, run(graph, [x])[0])


def test_images_in_any_number() -> None:
    where, space, rng = on("dots"), Space(), np.random.default_rng(0)
    count = symbol(space, "n", 0, 100, 4)
    x = Tensor(TensorType((count, 6, 7, 9), dtype("int8")), "x")
    weight = ops.constant(numbers(rng, (10, 6, 3, 3), "int8"))
    result = ops.conv(x, weight, pads=1, out_dtype="int32", pad_value=-5)
    family = compile_polymorphic(Graph([x], [result]), where)
    for n in (0, 1, 3):
        images = numbers(rng, (n, 6, 7, 9), "int8")
        own = Tensor(tensor_type(images.shape, "int8"), "x")
        whole = Graph([own], [ops.conv(own, weight, pads=1, out_dtype="int32", pad_value=-5)])
        [got] = family.at({"n": n})(images)
        assert np.array_equal(got, run(whole, [images])[0])


def test_what_keeps_its_weights() -> None:
    """Weights that change, tiles in registers, images of open extents."""
    graph, _ = convolution("edges", ("uint8", "int8"), 0)
    tiles = Machine(features=MACHINE.features | {"amx-int8"})
    for machine in (tiles, Machine()):
        made = pack_weights(flip_signs(graph, machine), machine)
        assert "packed_conv" not in {node.op.name for node in made.nodes}
    side = symbol(Space(), "s", 3, 99, 20)
    x = Tensor(TensorType((1, 4, side, 9), dtype("int8")), "x")
    y = Tensor(tensor_type((1, 4, 9, 9), "int8"), "y")
    w = Tensor(tensor_type((8, 4, 3, 3), "int8"), "w")
    known = ops.constant(np.ones((8, 4, 3, 3), "int8"))
    for inputs, result in (
        ([x], ops.conv(x, known, out_dtype="int32")),
        ([y, w], ops.conv(y, w, out_dtype="int32")),
    ):
        other = Graph(inputs, [result])
        assert flip_signs(other, MACHINE) is other
        made = pack_weights(other, MACHINE)
        assert "packed_conv" not in {node.op.name for node in made.nodes}
