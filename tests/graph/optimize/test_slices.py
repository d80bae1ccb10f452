"""What becomes of slices, concatenations and gathers: which nodes stay, and what they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph.optimize.rule_checks import check_example, examples_of
from graph.optimize.rule_examples import Example
from tileloom.base import dtype
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, TensorType, tensor_type
from tileloom.graph.optimize import OptimizeReport, optimize
from tileloom.graph.optimize.report import PassRecord
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol

SHAPES = {"a": (2, 6), "b": (3, 6), "c": (4, 6), "one": (1, 6), "none": (0, 6)}


def part(x: Tensor, start: int, stop: int, step: int = 1, axis: int = 0) -> Tensor:
    return ops.strided_slice(x, [start], [stop], [axis], [step])


def pick(x: Tensor, *places: int, axis: int = 0) -> Tensor:
    return ops.gather(x, ops.constant(np.array(places, "int64")), axis)


def rows(*names: str) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda t: ops.concat([t[name] for name in names], 0)


ABC = rows("a", "b", "c")
#: What is built, and the nodes that are left: the name, and what is read of the first axis (of a
#: slice: first, how many, step).
CASES: list[tuple[Callable[[dict[str, Tensor]], Tensor], list[Any]]] = [
    # Slices of everything.
    (lambda t: part(t["one"], 0, -5, -1), []),
    (lambda t: part(t["a"], 1, -5, -1), [("slice", 1, 2, -1)]),
    (lambda t: part(t["a"], 0, 2), []),
    # Slices of slices.
    (lambda t: part(part(t["c"], 1, 4), 1, 3), [("slice", 2, 2, 1)]),
    (lambda t: part(part(t["c"], 0, 4, 2), 1, 2), [("slice", 2, 1, 2)]),
    (lambda t: part(part(t["c"], 3, -9, -1), 1, 3), [("slice", 2, 2, -1)]),
    (lambda t: part(part(t["c"], 3, -9, -1), 3, -9, -1), []),
    (lambda t: part(part(t["c"], 3, -9, -2), 1, -9, -1), [("slice", 1, 2, 2)]),
    # Slices of concatenations, whose seams are at 2 and 5.
    (lambda t: part(ABC(t), 0, 2), []),
    (lambda t: part(ABC(t), 2, 5), []),
    (lambda t: part(ABC(t), 5, 9), []),
    (lambda t: part(ABC(t), 3, 5), [("slice", 1, 2, 1)]),
    (lambda t: part(ABC(t), 4, 1, -1), [("slice", 2, 3, -1)]),
    (lambda t: part(ABC(t), 1, 3), [("concat", 2), ("slice", 1, 2, 1)]),
    (lambda t: part(ABC(t), 2, 6), [("concat", 2), ("slice", 0, 4, 1)]),
    (lambda t: part(ABC(t), 1, 6), [("concat", 3), ("slice", 1, 5, 1)]),
    (lambda t: part(ABC(t), 5, 1, -1), [("concat", 2), ("slice", 3, 4, -1)]),
    (lambda t: part(ABC(t), 0, 9, 3), [("concat", 3), ("slice", 0, 3, 3)]),
    (lambda t: part(ABC(t), 3, 4, axis=1), [("concat", 3), ("slice", 0, 9, 1)]),
    # Slices of what was repeated.
    (lambda t: part(ops.broadcast_to(t["one"], (5, 6)), 1, 3), [("broadcast_to",)]),
    (lambda t: part(ops.broadcast_to(t["a"], (3, 2, 6)), 1, 2), [("reshape",)]),
    (lambda t: part(ops.broadcast_to(t["a"], (3, 2, 6)), 1, 2, axis=1),
     [("slice", 1, 1, 1), ("broadcast_to",)]),
    # Slices of what was transposed.
    (lambda t: part(ops.transpose(t["b"], (1, 0)), 1, 3, axis=1),
     [("slice", 1, 2, 1), ("transpose",)]),
    # Concatenations.
    (lambda t: ops.concat([t["a"]], 0), []),
    (rows("none", "a", "none"), []),
    (rows("a", "none", "b"), [("concat", 2)]),
    (rows("none", "none"), []),
    (lambda t: ops.concat([rows("a", "b")(t), t["c"]], 0), [("concat", 3)]),
    (lambda t: ops.concat([t["c"], rows("a", "b")(t), t["one"]], 0), [("concat", 4)]),
    (lambda t: ops.concat([ops.concat([t["a"], t["a"]], 1)] * 2, 0),
     [("concat", 2), ("concat", 2)]),
    (lambda t: ops.concat([part(t["c"], 0, 1), part(t["c"], 1, 4)], 0), []),
    (lambda t: ops.concat([part(t["c"], 1, 2), part(t["c"], 2, 4)], 0), [("slice", 1, 3, 1)]),
    (lambda t: ops.concat([part(t["c"], 0, 2), part(t["c"], 2, 4), t["a"]], 0), [("concat", 2)]),
    (lambda t: ops.concat([part(t["c"], 3, 1, -1), part(t["c"], 1, -9, -1)], 0),
     [("slice", 3, 4, -1)]),
    (lambda t: ops.concat([part(t["c"], 0, 2), part(t["c"], 3, 4)], 0),
     [("slice", 0, 2, 1), ("slice", 3, 1, 1), ("concat", 2)]),
    (lambda t: ops.concat([part(t["c"], 0, 2), part(t["b"], 2, 3)], 0),
     [("slice", 0, 2, 1), ("slice", 2, 1, 1), ("concat", 2)]),
    # Gathers.
    (lambda t: pick(t["c"], 0, 1, 2, 3), []),
    (lambda t: pick(t["c"], 1, 2), [("slice", 1, 2, 1)]),
    (lambda t: pick(t["c"], 3, 1), [("slice", 3, 2, -2)]),
    (lambda t: pick(t["c"], -1), [("slice", 3, 1, 1)]),
    (lambda t: pick(t["c"], -2, -1), [("slice", 2, 2, 1)]),
    (lambda t: pick(t["c"], 0, 0), [("constant",), ("gather",)]),
    (lambda t: pick(t["c"], 0, 1, 3), [("constant",), ("gather",)]),
    (lambda t: pick(t["c"], 2, 4, axis=1), [("slice", 0, 4, 1)]),
]  # fmt: skip


@examples_of("slices")
def test_function_holds_in_its_class(rule: Any, example: Example) -> None:
    check_example(rule, example)


def told(graph: Graph) -> list[Any]:
    """The nodes but for what is computed on constants."""
    found: list[Any] = []
    for node in graph.nodes:
        if node.op.name == "slice":
            first = (node.attrs[name][0] for name in ("starts", "sizes", "steps"))
            found.append(("slice", *first))
        elif node.op.name == "concat":
            found.append(("concat", len(node.inputs)))
        else:
            found.append((node.op.name,))
    return found


@pytest.mark.parametrize("k", range(len(CASES)))
def test_what_is_left(k: int, rng: np.random.Generator) -> None:
    build, wanted = CASES[k]
    inputs = {name: Tensor(tensor_type(shape, "float32"), name) for name, shape in SHAPES.items()}
    graph = Graph(list(inputs.values()), [build(inputs)])
    better = optimize(graph)
    assert told(better) == wanted
    arrays = [rng.standard_normal(shape).astype("float32") for shape in SHAPES.values()]
    np.testing.assert_array_equal(run(better, arrays)[0], run(graph, arrays)[0])


@pytest.mark.parametrize(
    ("places", "first"),
    [((0,), 0), ((1,), 1), ((0, 1), 0), ((-1,), -1), ((-2, -1), -2), ((-1, -2), -1),
     ((-1, 0), None), ((0, -1), None), ((5,), None), ((-6,), None), ((4,), 4), ((-5,), -5)],
)  # fmt: skip
def test_runs_of_an_axis_of_unknown_size(places: tuple[int, ...], first: int | None) -> None:
    """Where the size is at least 5 these lie inside, and where from is known."""
    n = symbol(Space(), "n", 5, 100, 7)
    x = Tensor(TensorType((n, 3), dtype("float32")), "x")
    nodes = optimize(Graph([x], [pick(x, *places)])).nodes
    slices = [node for node in nodes if node.op.name == "slice"]
    assert bool(slices) == (first is not None)
    if first is not None:
        (node,) = slices
        assert node.attrs["starts"][0] == (first if first >= 0 else n + first)
        assert node.attrs["sizes"][0] == len(places)


def test_what_a_pass_says() -> None:
    record = PassRecord("simplify", 0.0125, 6, 2)
    assert str(record) == "simplify: 6 -> 2 nodes, 12.5 ms"
    record.fired.update({"b": 2, "a": 1, "c": 1})
    assert str(record) == "simplify: 6 -> 2 nodes, 12.5 ms: a, b x2, c"
    report = OptimizeReport([record, PassRecord("x", 1.0, 1, 1)])
    assert str(report).splitlines() == [str(record), "x: 1 -> 1 nodes, 1000.0 ms"]
    assert report.seconds == pytest.approx(1.0125) and report.fired == {"a": 1, "b": 2, "c": 1}
