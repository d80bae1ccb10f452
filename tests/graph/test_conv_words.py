"""Convolutions of words: weights are packed, signs flipped with what is padded."""

from __future__ import annotations

from itertools import product as every
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sampling import sampled
from tileloom.base import dtype
from tileloom.base.settings import override
from tileloom.driver import compile_graph, compile_polymorphic, plan_graph
from tileloom.graph import ops
from tileloom.graph.flip_signs import flip_signs
from tileloom.graph.hoist import hoist
from tileloom.graph.machine import Machine
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.pack import pack_weights
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol
from tileloom.plan import GroupRefused
from tileloom.plan.cpu import schedule
from tileloom.target import Target, target

Array = np.ndarray[Any, Any]
NO_TILES = "-amx-bf16,-amx-int8,-amx-tile"
TARGETS = {
    "dots": (f"cpu -mattr={NO_TILES}", ("avx512vnni", "avx512bf16")),
    "narrow dots": (f"cpu -mattr={NO_TILES},-avx512f,-avx512bf16,-avx512vnni", ("avxvnni",)),
    "tiles": ("cpu", ("amx-bf16", "amx-int8")),
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


def convolution(
    name: str, kinds: tuple[str, str], pad_value: int, known: bool = True
) -> tuple[Graph, list[Array]]:
    """A graph and its inputs; the last are the weights, where they are not known."""
    (shape, outputs, window, strides, pads, dilations, groups), (left, right) = CASES[name], kinds
    rng = np.random.default_rng(0)
    weight = numbers(rng, (outputs, shape[1] // groups, *window), right)
    x = Tensor(tensor_type(shape, left), "x")
    y = ops.constant(weight) if known else Tensor(tensor_type(weight.shape, right), "w")
    rank = len(window)
    padding = [*pads, *pads] if isinstance(pads, tuple) and len(pads) == rank else pads
    result = ops.conv(
        x, y, strides=strides, pads=padding, dilations=dilations, groups=groups,
        out_dtype="float32" if left == "bfloat16" else "int32",
        pad_value=0 if left == "bfloat16" else pad_value,
    )  # fmt: skip
    image = numbers(rng, shape, left)
    return Graph([x], [result]) if known else Graph([x, y], [result]), (
        [image] if known else [image, weight]
    )


def on(name: str) -> Target:
    text, needed = TARGETS[name]
    if not all(map(Target.host().has, needed)):
        pytest.skip(f"the machine lacks {needed}")
    return target(text)


@pytest.mark.parametrize(
    ("case", "kinds", "name"), sampled(every(CASES, KINDS, TARGETS), 23, several=True)
)
def test_convolutions_are_exact(case: str, kinds: tuple[str, str], name: str) -> None:
    """In words, of weights that are known and of such that are not."""
    where = on(name)
    for pad_value, known in ((0, True), (77, True), (77, False)):
        graph, given = convolution(case, kinds, pad_value, known)
        program = plan_graph(graph, where)
        words = ("amx_dot_" if name == "tiles" else "dot_") in str(program.module)
        assert words or (name == "narrow dots" and kinds[0] == "bfloat16")
        with override(cache=False):
            [got] = compile_graph(graph, where)(*given)
        [want] = run(graph, given)
        assert np.array_equal(got, want), pad_value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kinds", KINDS)
def test_what_the_graph_becomes_means_the_same(kinds: tuple[str, str], case: str) -> None:
    for pad_value, known in every((0, 77), (True, False)):
        graph, given = convolution(case, kinds, pad_value, known)
        flipped = flip_signs(graph, MACHINE)
        packed = pack_weights(flipped, MACHINE)
        same = kinds[0] == kinds[1] != "bfloat16"
        assert any(node.attrs.get("flips") for node in flipped.nodes) == same
        names = [node.op.name for node in packed.nodes]
        assert "packed_conv" in names and ("pack_words" in names) != known
        [want] = run(graph, given)
        for made in (flipped, packed):
            [got] = run(made, given)
            assert np.array_equal(got, want) and got.dtype == want.dtype


@pytest.mark.parametrize("kinds", KINDS)
def test_where_no_tiles_are_had_plain_loops_unpack_weights(
    kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise GroupRefused("no tiles today")

    monkeypatch.setattr(schedule, "tile_product", refused)
    for known in (True, False):
        graph, given = convolution("edges", kinds, 77, known)
        with override(cache=False):
            [got] = compile_graph(graph, on("dots"))(*given)
        assert np.array_equal(got, run(graph, given)[0])


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


#: Of an open image: the window, strides and pads.
OPEN = {"edges": (3, 1, 1), "every other": (3, 2, 1), "points": (1, 1, 0)}


@pytest.mark.parametrize(
    ("case", "kinds", "name"),
    [
        pytest.param(*one, marks=[pytest.mark.slow] * (one not in {
            ("edges", ("uint8", "int8"), "tiles"),
        }))
        for one in every(OPEN, KINDS, TARGETS)
    ],
)  # fmt: skip
def test_images_of_open_extents(case: str, kinds: tuple[str, str], name: str) -> None:
    where, space, rng = on(name), Space(), np.random.default_rng(0)
    window, strides, pads = OPEN[case]
    weight = ops.constant(numbers(rng, (10, 6, window, window), kinds[1]))
    out, around = ("float32", 0) if kinds[0] == "bfloat16" else ("int32", 77)

    def result(x: Tensor) -> Tensor:
        return ops.conv(x, weight, strides=strides, pads=pads, out_dtype=out, pad_value=around)

    height, width = symbol(space, "h", 1, 900, 40), symbol(space, "w", 1, 900, 50)
    x = Tensor(TensorType((2, 6, height, width), dtype(kinds[0])), "x")
    family = compile_polymorphic(Graph([x], [result(x)]), where)
    for h, w in ((1, 1), (2, 3), (5, 7), (13, 17), (8, 8), (31, 1), (1, 37), (64, 33)):
        images = numbers(rng, (2, 6, h, w), kinds[0])
        own = Tensor(tensor_type(images.shape, kinds[0]), "x")
        [got] = family.at({"h": h, "w": w})(images)
        assert np.array_equal(got, run(Graph([own], [result(own)]), [images])[0]), (h, w)


def test_weights_that_seldom_change_are_packed_once() -> None:
    for kinds in KINDS:
        graph, _ = convolution("groups", kinds, 0, known=False)
        found = hoist(graph, [1], MACHINE)
        prepared = [node.op.name for each in found.preparations for node in each.graph.nodes]
        assert prepared.count("pack_words") == 1
        assert "pack_words" not in {node.op.name for node in found.graph.nodes}


def test_what_keeps_its_weights() -> None:
    """Machines without words, and weights of open extents."""
    graph, _ = convolution("edges", ("uint8", "int8"), 0)
    channels = symbol(Space(), "c", 4, 99, 20)
    x = Tensor(TensorType((1, channels, 9, 9), dtype("int8")), "x")
    w = Tensor(TensorType((8, channels, 3, 3), dtype("int8")), "w")
    opened = Graph([x, w], [ops.conv(x, w, out_dtype="int32")])
    for other, machine in ((graph, Machine()), (opened, MACHINE)):
        made = pack_weights(flip_signs(other, machine), machine)
        assert "packed_conv" not in {node.op.name for node in made.nodes}
        assert flip_signs(other, machine) is other


def test_weights_of_open_extents_are_exact() -> None:
    where, space, rng = on("dots"), Space(), np.random.default_rng(0)
    channels, outputs = symbol(space, "c", 1, 99, 20), symbol(space, "o", 1, 99, 20)
    x = Tensor(TensorType((1, channels, 6, 7), dtype("int8")), "x")
    w = Tensor(TensorType((outputs, channels, 3, 3), dtype("int8")), "w")
    family = compile_polymorphic(Graph([x, w], [ops.conv(x, w, out_dtype="int32")]), where)
    for c, o in ((1, 1), (5, 4), (7, 33)):
        image, weight = (numbers(rng, s, "int8") for s in ((1, c, 6, 7), (o, c, 3, 3)))
        own, kernel = (Tensor(tensor_type(v.shape, "int8")) for v in (image, weight))
        [got] = family.at({"c": c, "o": o})(image, weight)
        [want] = run(
            Graph([own, kernel], [ops.conv(own, kernel, out_dtype="int32")]), [image, weight]
        )
        assert np.array_equal(got, want)
