"""Types, tensors, nodes and graphs by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.base import dtype
from tileloom.base.errors import ShapeError
from tileloom.graph import ops
from tileloom.graph.nodes import (
    Graph,
    Tensor,
    TensorType,
    as_extent,
    reachable,
    tensor_type,
)
from tileloom.graph.op import apply, cost_of
from tileloom.graph.space import Space
from tileloom.graph.symbols import symbol


@pytest.mark.parametrize(
    ("shape", "kind", "size", "nbytes", "text"),
    [
        ((2, 3), "float32", 6, 24, "float32[2, 3]"),
        ((), "float64", 1, 8, "float64[]"),
        ((5,), "int8", 5, 5, "int8[5]"),
        ((4, 0, 7), "int16", 0, 0, "int16[4, 0, 7]"),
        ((1, 1), "bool", 1, 1, "bool[1, 1]"),
    ],
)
def test_types(shape: tuple[int, ...], kind: str, size: int, nbytes: int, text: str) -> None:
    found = tensor_type(shape, kind)
    assert (found.shape, found.dtype) == (shape, dtype(kind))
    assert (found.size, found.nbytes, str(found)) == (size, nbytes, text)
    assert found == TensorType(shape, dtype(kind)) and hash(found) == hash(tensor_type(shape, kind))
    tensor = Tensor(found, "x")
    assert (tensor.shape, tensor.dtype, tensor.ndim) == (shape, dtype(kind), len(shape))
    assert tensor.value is None and str(tensor) == f"Tensor(x: {text})"


@pytest.mark.parametrize("shape", [(-1,), (2, -1), (-3, 2), (0, -2, 4)])
def test_extents_are_not_negative(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="negative extent in shape"):
        tensor_type(shape, "float32")


@pytest.mark.parametrize("extent", [np.int64(3), np.uint8(3), True + 2, 3.0])
def test_extents_become_python_integers(extent: object) -> None:
    assert as_extent(extent) == 3 and type(as_extent(extent)) is int


def test_symbols_stay_what_they_are() -> None:
    n = symbol(Space(), "n", 1, 8, 4)
    assert as_extent(n) is n and tensor_type((n, 2), "int8").shape == (n, 2)


def test_graphs_hold_what_their_outputs_depend_on() -> None:
    x, y = (Tensor(tensor_type((4,), "float32"), name) for name in "xy")
    a = ops.neg(x)
    b, c = ops.exp(a), ops.abs(y)
    both = ops.add(b, a)
    nodes = [t.node for t in (a, b, both)]
    assert reachable([both, a]) == nodes == Graph([x], [both]).nodes
    assert [node.op.name for node in reachable([c, both])] == ["neg", "exp", "abs", "add"]
    assert reachable([x]) == [] and "add" in str(Graph([x], [both]))
    assert Graph([x, y], [x, both, c]).output_names == ("x", "output1", "output2")
    assert Graph([x], [x, x], ["p", "q"]).output_names == ("p", "q")


def test_outputs_of_nodes_have_numbers() -> None:
    x = Tensor(tensor_type((1, 1, 4, 4), "float32"), "x")
    first, second = apply(
        "max_pool_with_indices", (x,), kernel=(2, 2), strides=(2, 2), dilations=(1, 1),
        pads=(0, 0, 0, 0), ceil_mode=False,
    )  # fmt: skip
    assert first.node is not None and first.node is second.node
    assert (first.index, second.index) == (0, 1)
    assert first.node.outputs == (first, second)
    assert x.serial < first.node.serial < first.serial < second.serial


def test_constants_have_values() -> None:
    made = ops.constant(np.arange(3))
    assert made.value is not None and made.value.tolist() == [0, 1, 2]


def test_extents_as_tensors() -> None:
    """Numbers are constants, so that what is made of them can be folded; symbols are not."""
    n = symbol(Space(), "n", 1, 8, 4)
    for kind in ("int32", "int64"):
        made, open_ = ops.extent(5, kind), ops.extent(n, kind)
        assert made.value is not None and made.value == 5 and made.dtype == dtype(kind)
        assert open_.value is None and open_.dtype == dtype(kind) and open_.shape == ()


def test_what_composite_ops_cost() -> None:
    """The elements of operands and results, and what the ops inside cost."""
    x = Tensor(tensor_type((10, 10), "float32"))
    made = {"softmax": ops.softmax(x), "layer_norm": ops.layer_norm(x), "silu": ops.silu(x)}
    found = {name: cost_of(y.node) for name, y in made.items() if y.node is not None}
    assert found == {"softmax": 1040, "layer_norm": 1126, "silu": 200}
