"""Checks an op against itself: its formulas, interpreted, against its NumPy reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileloom import compute as te
from tileloom.base import dtype
from tileloom.graph.expand import expand
from tileloom.graph.nodes import Graph, Node, Tensor, TensorType
from tileloom.graph.run import run
from tileloom.tir import verify
from tileloom.tir.run import run as run_tir

Array = np.ndarray[Any, Any]
# Of the result type: references compute in float64, formulas in float32 or the type itself.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def graph_of(build: Callable[..., Any], *arrays: Array) -> Graph:
    """The graph that `build` makes of inputs like these arrays."""
    inputs = [Tensor(TensorType(a.shape, dtype(a.dtype)), f"x{k}") for k, a in enumerate(arrays)]
    result = build(*inputs)
    return Graph(inputs, result if isinstance(result, (list, tuple)) else [result])


def values(build: Callable[..., Any], *arrays: Any) -> Any:
    """What the references make of the arrays; one array, or a list of several."""
    given = [np.asarray(a) for a in arrays]
    results = run(graph_of(build, *given), given)
    return results[0] if len(results) == 1 else results


def check(build: Callable[..., Any], *arrays: Any, tolerance: float | None = None) -> Any:
    """The values, after checking that expansions and formulas agree with the references."""
    given = [np.asarray(a) for a in arrays]
    graph = graph_of(build, *given)
    whole = run(graph, given)
    simple = expand(graph)
    for a, b in zip(whole, run(simple, given), strict=True):
        close(b, a, tolerance)
    known: dict[Tensor, Array] = dict(zip(simple.inputs, given, strict=True))
    for node in simple.nodes:
        inputs = [known[tensor] for tensor in node.inputs]
        types = [tensor.type for tensor in node.outputs]
        results = node.op.reference(inputs, node.attrs, types)
        for tensor, array in zip(node.outputs, results, strict=True):
            assert array.shape == tensor.shape and array.dtype == tensor.dtype.numpy
            known[tensor] = array
        if node.op.compute is not None and _has_formula(node):
            for a, b in zip(interpret(node, inputs), results, strict=True):
                close(a, b, tolerance, str(node))
    return whole[0] if len(whole) == 1 else whole


def _has_formula(node: Node) -> bool:
    """Constants with many values are data, not formulas."""
    return node.op.name != "constant" or node.attrs["value"].size <= 1


def interpret(node: Node, inputs: list[Array]) -> list[Array]:
    """The node's outputs from its formulas, run as tensor IR."""
    assert node.op.compute is not None
    holders = [
        te.placeholder(array.shape, dtype(array.dtype), f"a{k}") for k, array in enumerate(inputs)
    ]
    types = [tensor.type for tensor in node.outputs]
    tensors = node.op.compute(holders, node.attrs, types)
    for tensor, type_ in zip(tensors, types, strict=True):
        assert tensor.static_shape == type_.shape and tensor.dtype is type_.dtype, node
    func = te.create_prim_func([*holders, *tensors])
    verify(func)
    results = [np.full(t.shape, 77).astype(t.dtype.numpy) for t in types]
    run_tir(func, *(np.asarray(a, order="C") for a in inputs), *results, strict=True)
    return results


def close(a: Array, b: Array, tolerance: float | None = None, what: str = "") -> None:
    """Equal integers; floats within the tolerance of their type."""
    assert a.dtype == b.dtype and a.shape == b.shape, (what, a, b)
    kind = dtype(a.dtype)
    if not kind.is_float:
        np.testing.assert_array_equal(a, b, what)
        return
    limit = TOLERANCE[kind] if tolerance is None else tolerance
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(x, y, rtol=limit, atol=limit, err_msg=what)
