"""The graph interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base.errors import ArgumentError
from tileloom.graph import ops
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.run import run


def tensor(*shape: int, kind: str = "float32") -> Tensor:
    return Tensor(tensor_type(shape, kind), "x")


def test_outputs_may_be_inputs_constants_and_repeated() -> None:
    x = tensor(2)
    y = ops.add(x, 1.0)
    c = ops.constant([5, 6])
    a, b, d, e = run(Graph([x], [x, y, y, c]), [np.array([1, 2], "float32")])
    assert (a.tolist(), b.tolist(), d.tolist(), e.tolist()) == ([1, 2], [2, 3], [2, 3], [5, 6])


def test_an_op_with_several_outputs() -> None:
    x = tensor(4)
    values, places = ops.topk(x, 2)
    graph = Graph([x], [places])
    assert run(graph, [np.array([3, 9, 1, 4], "float32")])[0].tolist() == [1, 3]
    both = run(Graph([x], [values, places]), [np.array([3, 9, 1, 4], "float32")])
    assert both[0].tolist() == [9, 4]


def test_a_value_that_is_used_again_later_is_kept() -> None:
    x = tensor(2)
    a = ops.exp(x)
    b = ops.neg(a)
    c = ops.add(ops.mul(b, b), a)
    found = run(Graph([x], [c]), [np.zeros(2, "float32")])[0]
    assert found.tolist() == [2, 2]


def test_inputs_are_checked() -> None:
    x = tensor(2)
    graph = Graph([x], [ops.neg(x)])
    for inputs, words in [
        ([], "takes 1 inputs, got 0"),
        ([np.zeros(3, "float32")], r"input 'x' must be float32\[2\], got float32\[3\]"),
        ([np.zeros(2)], "got float64"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            run(graph, inputs)


def test_a_tensor_from_elsewhere_is_told() -> None:
    x, other = tensor(2), tensor(2)
    with pytest.raises(ArgumentError, match="is not among the inputs"):
        run(Graph([x], [ops.add(x, other)]), [np.zeros(2, "float32")])
    with pytest.raises(ArgumentError, match="is not among the inputs"):
        run(Graph([x], [other]), [np.zeros(2, "float32")])


def test_overflow_is_silent() -> None:
    x = tensor(1, kind="int8")
    with np.errstate(all="raise"):
        assert run(Graph([x], [ops.mul(x, x)]), [np.array([100], "int8")])[0].tolist() == [16]


def test_inputs_that_do_not_fit() -> None:
    x, y = (Tensor(tensor_type((2, 3), "float32"), name) for name in ("x", ""))
    graph = Graph([x, y], [ops.add(x, y)])
    right, ones = np.zeros((2, 3), "float32"), np.ones((2, 3), "float32")
    np.testing.assert_array_equal(run(graph, [right, ones])[0], ones)
    for given, said in [
        ([right], "takes 2 inputs, got 1"),
        ([right] * 3, "takes 2 inputs, got 3"),
        ([right[:1], right], r"input 'x' must be float32\[2, 3\], got float32\[1, 3\]"),
        ([right, right.astype("float64")], rf"input {y.serial} must be .*, got float64\[2, 3\]"),
    ]:
        with pytest.raises(ArgumentError, match=said):
            run(graph, given)
    with pytest.raises(ArgumentError, match="is not among the inputs of the graph"):
        run(Graph([x], [ops.add(x, y)]), [right])
    with pytest.raises(ArgumentError, match="is not among the inputs of the graph"):
        run(Graph([x], [y]), [right])
