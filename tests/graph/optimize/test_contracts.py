"""What each family leaves behind, on random graphs: the contracts at the heads of their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.random_graphs import random_arrays, random_graph
from tileloom.graph import ops
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Node, Tensor, tensor_type
from tileloom.graph.op import apply1
from tileloom.graph.ops.common import broadcast_shapes
from tileloom.graph.optimize import optimize
from tileloom.graph.run import run


def breaches(graph: Graph) -> Iterator[str]:
    """Every node that a family should have changed."""
    for node in graph.nodes:
        above, below = node.op.name, makers(node)
        first = below[0] if below else ""
        if above in ("reshape", "transpose", "broadcast_to", "slice", "cast") and first == above:
            inner = node.inputs[0].node
            if above != "cast" or inner is None:
                yield f"{above} of {above}"
        if above in ("reshape", "broadcast_to", "slice") and is_idle(node):
            yield f"idle {above}"
        if above == "transpose" and keeps_order(node):
            yield "transpose of unit axes"
        if node.op.kind == "elementwise" and "broadcast_to" in below and not needs(node):
            yield f"{above} of a broadcast"
        if above.startswith("reduce_"):
            axes = node.attrs["axis"]
            if (
                type(axes) is not tuple
                or list(axes) != sorted(set(axes))
                or min(axes, default=0) < 0
            ):
                yield f"{above} over {axes}"
            if all(node.inputs[0].shape[axis] == 1 for axis in axes):
                yield f"{above} over unit axes"
        if above == "concat" and len(node.inputs) < 2:
            yield "concat of one"
        if above != "constant" and below and set(below) == {"constant"}:
            size = node.outputs[0].type.nbytes
            if size <= 4096:
                yield f"{above} of constants"


def makers(node: Node) -> list[str]:
    return ["" if t.node is None else t.node.op.name for t in node.inputs]


def is_idle(node: Node) -> bool:
    same = node.inputs[0].shape == node.outputs[0].shape
    return same and (node.op.name != "slice" or set(node.attrs["steps"]) <= {1})


def keeps_order(node: Node) -> bool:
    shape = node.inputs[0].shape
    long = [axis for axis in node.attrs["perm"] if shape[axis] != 1]
    return long == sorted(long)


def needs(node: Node) -> bool:
    """Whether the broadcast operand gives the result its shape together with the rest."""
    bare = [
        t.node.inputs[0] if t.node is not None and t.node.op.name == "broadcast_to" else t
        for t in node.inputs
    ]
    for k, (small, tensor) in enumerate(zip(bare, node.inputs, strict=True)):
        if small is tensor:
            continue
        shapes = [t.shape for t in node.inputs]
        shapes[k] = small.shape
        if broadcast_shapes(*shapes) == node.outputs[0].shape:
            return False
    return broadcast_shapes(*(t.shape for t in bare)) == node.outputs[0].shape


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 40), st.sampled_from(["float32", "int32"]))
def test_contracts_hold(seed: int, steps: int, kind: Any) -> None:
    graph = optimize(expand(random_graph(seed, steps, kind)))
    assert not list(breaches(graph)), graph


def test_the_checks_can_fail() -> None:
    x = Tensor(tensor_type((1, 4), "float32"), "x")
    bad = [
        apply1("reshape", (x,), shape=(1, 4)),
        apply1("transpose", (x,), perm=(1, 0)),
        ops.neg(ops.broadcast_to(x, (3, 4))),
        apply1("reduce_max", (x,), axis=(-1,), keepdims=False),
        apply1("reduce_max", (x,), axis=(0,), keepdims=False),
        apply1("concat", (x,), axis=0),
        ops.neg(ops.constant(1.0)),
        ops.broadcast_to(ops.broadcast_to(x, (3, 4)), (2, 3, 4)),
    ]
    for tensor in bad:
        graph = Graph([x], [tensor])
        assert list(breaches(graph)), graph
        assert not list(breaches(optimize(graph)))


# ---------------------------------------------------------------------------- outputs


def test_equal_outputs_are_one_and_may_be_inputs() -> None:
    x, y = (Tensor(tensor_type((2, 3), "float32"), name) for name in "xy")
    outputs = [
        ops.exp(x), ops.exp(x), ops.neg(ops.neg(x)), ops.transpose(ops.transpose(y)),
        ops.mul(y, 1.0), ops.add(ops.constant(1.0), ops.constant(2.0)),
    ]  # fmt: skip
    graph = Graph([x, y], outputs, list("abcdef"))
    after = optimize(graph)
    assert after.outputs[0] is after.outputs[1]
    assert after.outputs[2] is x and after.outputs[3] is y and after.outputs[4] is y
    assert after.outputs[5].value == 3.0
    assert after.output_names == tuple("abcdef")
    assert [node.op.name for node in after.nodes] == ["exp", "constant"]
    arrays = random_arrays(graph)
    for a, b in zip(run(after, arrays), run(graph, arrays), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("unused", [0, 1])
def test_unused_results(unused: int) -> None:
    x = Tensor(tensor_type((1, 1, 4, 4), "float32"), "x")
    both = ops.max_pool_with_indices(x, (2, 2))
    names = [node.op.name for node in optimize(Graph([x], [both[1 - unused]])).nodes]
    assert names == (["max_pool"] if unused else ["max_pool_with_indices"])
