"""Products of bytes of one kind, whose left operand's sign bits are flipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sampling import sampled
from tileloom.base.settings import override
from tileloom.driver import compile_graph, plan_graph
from tileloom.graph import ops
from tileloom.graph.flip_signs import flip_signs
from tileloom.graph.machine import Machine
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.plan import GroupRefused
from tileloom.plan.cpu import schedule
from tileloom.target import Target, target

VNNI = Machine(features=frozenset(["avx512vnni"]))
NO_TILES = "cpu -mattr=-amx-bf16,-amx-int8,-amx-tile"


def product(
    left: tuple[int, ...], right: tuple[int, ...], kind: str, constant: bool, **how: Any
) -> tuple[Graph, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    a, b = (rng.integers(low, high, shape, kind, endpoint=True) for shape in (left, right))
    x = Tensor(tensor_type(left, kind), "a")
    y = ops.constant(b) if constant else Tensor(tensor_type(right, kind), "b")
    graph = Graph([x] if constant else [x, y], [ops.matmul(x, y, **how)])
    return graph, [a] if constant else [a, b]


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((70, 33), (33, 20), {}),
    ((70, 33), (20, 33), {"transpose_b": True}),
    ((33, 70), (33, 20), {"transpose_a": True}),
    ((2, 3, 65, 9), (3, 9, 17), {}),
    ((70, 33), (33, 20), {"out_dtype": "int32"}),
]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("left", "right", "how"), sampled(CASES, 3, several=True))
def test_the_sums_stay_the_same(
    left: tuple[int, ...], right: tuple[int, ...], how: dict[str, Any], constant: bool, kind: str
) -> None:
    graph, args = product(left, right, kind, constant, **how)
    made = flip_signs(graph, VNNI)
    flipped = [node for node in made.nodes if node.attrs.get("flips")]
    assert len(flipped) == 1 and made.outputs[0].type == graph.outputs[0].type
    assert any(node.op.name == "reduce_sum" for node in made.nodes) != constant
    for got, want in zip(run(made, args), run(graph, args), strict=True):
        assert np.array_equal(got, want)
    if Target.host().has("avx512vnni"):
        where = target(NO_TILES)
        assert "dot_" in str(plan_graph(graph, where).module)
        [got] = compile_graph(graph, where)(*args)
        assert np.array_equal(got, run(graph, args)[0])


@pytest.mark.parametrize(
    ("rows", "machine", "constant"),
    [
        (63, VNNI, False),  # adding up the columns of the right one would take too long
        (1, VNNI, True),
        (40, Machine(features=frozenset(["avx512vnni", "amx-int8"])), True),
        (40, Machine(), True),
    ],
)
def test_products_that_stay_as_they_are(rows: int, machine: Machine, constant: bool) -> None:
    graph, _ = product((rows, 33), (33, 20), "int8", constant, out_dtype="int32")
    assert flip_signs(graph, machine) is graph


@pytest.mark.parametrize("rows", [2, 40, 63])
def test_few_rows_by_a_constant_have_their_signs_flipped(rows: int) -> None:
    graph, _ = product((rows, 33), (33, 20), "int8", True, out_dtype="int32")
    made = flip_signs(graph, VNNI)
    assert [node.op.name for node in made.nodes if node.attrs.get("flips")] == ["matmul"]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(
    ("left", "right", "how"),
    [
        ((2, 9), (9, 8), {}),
        ((5, 33), (33, 20), {"out_dtype": "int32"}),
        ((63, 67), (67, 97), {"out_dtype": "int32"}),
        ((13, 33), (40, 33), {"transpose_b": True}),
        ((33, 7), (33, 130), {"transpose_a": True, "out_dtype": "int32"}),
        ((2, 3, 25, 9), (3, 9, 17), {}),
    ],
)
def test_few_rows_take_bytes_in_offset_binary(
    left: tuple[int, ...], right: tuple[int, ...], how: dict[str, Any], narrow: bool, kind: str
) -> None:
    if not Target.host().has("avxvnni" if narrow else "avx512vnni"):
        pytest.skip("the machine has no such instruction")
    where = target(f"{NO_TILES},-avx512f,-avx512bf16,-avx512vnni" if narrow else NO_TILES)
    graph, args = product(left, right, kind, False, **how)
    program = plan_graph(graph, where)
    (planned,) = program.planned.values()
    assert (
        f"dot_o8{'u' if kind == 'uint8' else 's'}8" in str(program.module)
        and planned.trace.as_json()[0]
    )
    [got] = compile_graph(graph, where)(*args)
    assert np.array_equal(got, run(graph, args)[0])


def test_where_no_tiles_are_had_plain_loops_flip_signs_too(monkeypatch: Any) -> None:
    def refused(*_: Any) -> None:
        raise GroupRefused("no tiles today")

    monkeypatch.setattr(schedule, "tile_product", refused)
    graph, args = product((41, 35), (35, 23), "int8", True, out_dtype="int32")
    with override(cache=False):
        [got] = compile_graph(graph, target(NO_TILES))(*args)
    assert np.array_equal(got, run(graph, args)[0])
