"""What ops make of values known as formulas of sizes: NumPy's values, proofs, and giving up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileloom.frontend.onnx.extents import (
    DECIDES,
    Judge,
    Unknown,
    cells_of,
    cells_of_array,
    evaluate,
    fixed,
    has_symbols,
)
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.run import run
from tileloom.graph.space import Space
from tileloom.graph.symbols import is_symbolic, polynomial_of, symbol

PROVES = Judge(decides=False)
A, B = np.array([[7, 2, 9], [4, 12, 1]]), np.array([3, 1, 2])

Build = Callable[..., Tensor]


def node_of(build: Build, *arrays: Any) -> Node:
    """The one node that a builder makes, of inputs of these arrays' types."""
    inputs = [Tensor(tensor_type(a.shape, str(a.dtype)), "x") for a in arrays]
    (node,) = (n for n in Graph(inputs, [build(*inputs)]).nodes if n.op.name != "constant")
    return node


@pytest.mark.parametrize(
    ("build", "arrays"),
    [
        (ops.add, (A, B)), (ops.sub, (A, B)), (ops.mul, (A, B)), (ops.neg, (A,)),
        (ops.square, (A,)), (ops.relu, (A - 5,)), (ops.minimum, (A, B * 3)),
        (ops.maximum, (A, B * 3)), (ops.abs, (A - 5,)), (ops.floor_divide, (A, B)),
        (ops.mod, (A, B)), (ops.fmod, (A, B)), (ops.pow, (A, B)), (ops.equal, (A % 3, B % 3)),
        (ops.not_equal, (A % 3, B % 3)), (ops.less, (A, B * 2)), (ops.less_equal, (A % 4, B)),
        (ops.greater, (A % 4, B)), (ops.greater_equal, (A % 4, B)),
        (ops.logical_not, (A > 5,)), (ops.logical_and, (A > 5, B > 1)),
        (ops.logical_or, (A > 5, B > 1)), (ops.logical_xor, (A > 5, B > 1)),
        (ops.where, (A > 5, A, B)), (lambda x: ops.sum(x, 0), (A,)),
        (lambda x: ops.sum(x, (0, 1), True), (A,)), (lambda x: ops.prod(x, 1), (A,)),
        (lambda x: ops.max(x, 0), (B,)), (lambda x: ops.min(x, 0), (B,)),
        (lambda x: ops.reshape(x, (3, 2)), (A,)), (lambda x: ops.transpose(x, (1, 0)), (A,)),
        (lambda x: ops.broadcast_to(x, (2, 3)), (B,)), (lambda x, y: ops.concat([x, y], 0), (B, B)),
        (lambda x: ops.strided_slice(x, [0, 2], [2, 0], [0, 1], [1, -1]), (A,)),
        (lambda x: ops.strided_slice(x, [1], [3], [1]), (A,)),
        (lambda x, y: ops.gather(x, y, 1), (A, np.array([[0, -1], [2, 1]]))),
        (lambda x, y: ops.gather(x, y, 0), (A, np.array(1))),
        (lambda x: ops.cast(x, "int32"), (A,)), (lambda x: ops.cast(x, "bool"), (A % 2,)),
        (lambda x: ops.cast(x, "float32"), (A,)),
    ],
)  # fmt: skip
def test_values(build: Build, arrays: tuple[Any, ...]) -> None:
    node = node_of(build, *arrays)
    found = evaluate(node, [cells_of_array(a) for a in arrays], PROVES)
    (wanted,) = run(Graph(list(node.inputs), [node.outputs[0]]), arrays)
    assert found.shape == wanted.shape and found.dtype == object
    assert np.array_equal(found.astype(wanted.dtype), wanted)


def extents() -> tuple[Any, Any]:
    """n from 2 to 60, 7 at hand; m from 0 to 60, 0 at hand."""
    space = Space()
    return symbol(space, "n", 2, 60, 7), symbol(space, "m", 0, 60, 0)


@pytest.mark.parametrize(
    ("build", "values", "known", "decided"),
    [
        # Proven whatever the sizes are.
        (ops.less, lambda n, m: (n, 61), True, True), (ops.less, lambda n, m: (1, n), True, True),
        (ops.greater, lambda n, m: (n, 60), False, False),
        (ops.greater_equal, lambda n, m: (n, 2), True, True),
        (ops.less_equal, lambda n, m: (n, 60), True, True),
        (ops.less, lambda n, m: (n, 2), False, False),
        (ops.equal, lambda n, m: (n, n), True, True),
        (ops.equal, lambda n, m: (n, 1), False, False),
        (ops.equal, lambda n, m: (n, 61), False, False),
        (ops.not_equal, lambda n, m: (n, n + 1), True, True),
        # Open: the sizes at hand decide.
        (ops.less, lambda n, m: (n, 60), None, True), (ops.less, lambda n, m: (n, 7), None, False),
        (ops.less_equal, lambda n, m: (n, 7), None, True),
        (ops.greater, lambda n, m: (n, 7), None, False),
        (ops.greater, lambda n, m: (n, 6), None, True),
        (ops.greater_equal, lambda n, m: (n, 8), None, False),
        (ops.equal, lambda n, m: (n, 7), None, True), (ops.equal, lambda n, m: (n, 8), None, False),
        (ops.equal, lambda n, m: (n, 6), None, False),
        (ops.not_equal, lambda n, m: (n, 7), None, False),
        (ops.equal, lambda n, m: (m, 0), None, True),
    ],
)  # fmt: skip
def test_comparisons(build: Build, values: Any, known: Any, decided: bool) -> None:
    node = node_of(build, np.array(1), np.array(1))
    for judge, wanted in ((PROVES, known), (DECIDES, decided)):
        cells = [cells_of([value], ()) for value in values(*extents())]
        if wanted is None:
            with pytest.raises(Unknown):
                evaluate(node, cells, judge)
        else:
            assert evaluate(node, cells, judge).item() is wanted


@pytest.mark.parametrize(
    ("build", "values", "formula"),
    [
        (ops.floor_divide, lambda n, m: (n, 2), lambda n, m: n // 2),
        (ops.mod, lambda n, m: (n * 6, 4), lambda n, m: n * 6 % 4),
        (ops.pow, lambda n, m: (n, 4), lambda n, m: n * n * n * n),
        (ops.pow, lambda n, m: (n, 0), lambda n, m: 1),
        (ops.floor_divide, lambda n, m: (n, n), lambda n, m: n // n),
        (ops.add, lambda n, m: (n, m), lambda n, m: n + m),
        (ops.sub, lambda n, m: (n, n), lambda n, m: 0),
        # A divisor that may be 0, what may be negative, and powers that are too large.
        (ops.floor_divide, lambda n, m: (n, m), None), (ops.mod, lambda n, m: (n, m), None),
        (ops.floor_divide, lambda n, m: (n - 3, 2), None), (ops.mod, lambda n, m: (n - 3, 2), None),
        (ops.pow, lambda n, m: (n, 5), None), (ops.pow, lambda n, m: (2, n), None),
        (ops.pow, lambda n, m: (n, -1), None),
    ],
)  # fmt: skip
def test_formulas(build: Build, values: Any, formula: Any) -> None:
    node = node_of(build, np.array(1), np.array(1))
    n, m = extents()
    cells = [cells_of([value], ()) for value in values(n, m)]
    if formula is None:
        with pytest.raises(Unknown):
            evaluate(node, cells, PROVES)
    else:
        found, wanted = evaluate(node, cells, PROVES).item(), formula(n, m)
        assert is_symbolic(found) == is_symbolic(wanted)
        assert polynomial_of(found) == polynomial_of(wanted)


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [("int8", 127, True), ("int8", 128, False), ("int8", -128, True), ("int8", -129, False),
     ("uint8", 0, True), ("uint8", -1, False), ("float16", 256, True), ("float16", 257, False),
     ("float32", 1 << 24, True), ("float32", (1 << 24) + 1, False), ("float32", -(1 << 24), True),
     ("float32", -(1 << 24) - 1, False), ("int64", 1 << 62, True), ("float64", 1 << 53, True),
     ("float64", (1 << 53) + 1, False)],
)  # fmt: skip
def test_types_that_do_not_hold_a_number(kind: str, value: int, fits: bool) -> None:
    node = node_of(
        lambda x: ops.cast(x, kind), np.array(1, "int32" if kind == "int64" else "int64")
    )
    if fits:
        assert evaluate(node, [cells_of([value], ())], PROVES).item() == value
    else:
        with pytest.raises(Unknown):
            evaluate(node, [cells_of([value], ())], PROVES)


def test_giving_up() -> None:
    n, _ = extents()
    row = cells_of([n, 2, 3], (3,))
    for build, cells in [
        (ops.exp, row),
        (lambda x: ops.max(x, 0), cells_of([n] * 4, (2, 2))),
    ]:
        node = node_of(build, np.zeros(cells.shape, "float32"))
        with pytest.raises(Unknown):
            evaluate(node, [cells], PROVES)
    gather = node_of(lambda x, y: ops.gather(x, y, 0), np.zeros(3), np.zeros(1, "int64"))
    with pytest.raises(Unknown):
        evaluate(gather, [row, cells_of([n], (1,))], PROVES)
    with pytest.raises(Unknown):
        cells_of_array(np.array([1.0, 0.5]))
    assert cells_of_array(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert fixed({"a": (n, [n, 3])}) == {"a": (7, [7, 3])}
    assert has_symbols({"a": (1, [n])}) and not has_symbols({"a": (1, [2])})
