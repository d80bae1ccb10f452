"""A group as one function: its parameters, and constants written into its expressions."""

from __future__ import annotations

import numpy as np

from tileloom.graph import ops
from tileloom.graph.blocks import block_function
from tileloom.graph.nodes import Graph, Tensor, tensor_type
from tileloom.graph.partition import partition
from tileloom.tir import run


def test_parameters_are_named_after_their_tensors() -> None:
    x, unnamed = Tensor(tensor_type((3, 5), "float32"), "x"), Tensor(tensor_type((5,), "float32"))
    weight = ops.constant(np.arange(5, dtype="float32"))
    graph = Graph([x, unnamed], [ops.add(ops.mul(x, unnamed), weight)])
    [group] = partition(graph)
    func, tensors = block_function(group, "kernel")
    assert func.attrs["global_symbol"] == "kernel"
    assert set(tensors[:-1]) == {x, unnamed, weight} and tensors[-1] is graph.outputs[0]
    names = {tensor: buffer.name for tensor, buffer in zip(tensors, func.buffers, strict=True)}
    assert names[x] == "x"
    assert names[unnamed] == f"in{tensors.index(unnamed)}"


def test_constants_of_one_element_are_written_down() -> None:
    x = Tensor(tensor_type((3, 5), "float32"), "x")
    wide = ops.constant(np.full((5,), 0.5, "float32"))
    one = ops.constant(np.full((1, 1), 1.25, "float32"))
    graph = Graph([x], [ops.mul(ops.add(x, wide), one)])
    [group] = partition(graph)
    func, tensors = block_function(group)
    assert one not in tensors and wide in tensors
    assert "1.25" in str(func)
    value = np.arange(15, dtype="float32").reshape(3, 5)
    found = np.zeros((3, 5), "float32")
    given = {x: value, wide: wide.value}
    run(func, *(given.get(tensor, found) for tensor in tensors))
    np.testing.assert_array_equal(found, (value + 0.5) * 1.25)
