"""Small models as text, and running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tileloom.frontend.onnx import Model, load
from tileloom.graph import run as interpreter
from tileloom.graph.nodes import Graph, Node, Tensor, TensorType
from tileloom.graph.symbols import at_sizes, space_of_graph


def model(text: str, opset: int = 17, extra: str = "", functions: str = "") -> onnx.ModelProto:
    """A model from ONNX's text syntax."""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}{extra}]>\n{text}\n{functions}'
    )


def one_node(
    op: str,
    arrays: Sequence[Any],
    opset: int = 17,
    outputs: int = 1,
    domain: str = "",
    **attrs: Any,
) -> onnx.ModelProto:
    """A model of one node whose inputs have these arrays' types; None is an absent input."""
    names = [f"x{k}" if array is not None else "" for k, array in enumerate(arrays)]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, name="the_node", domain=domain, **attrs)
    formals = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    graph = helper.make_graph(
        [node], "one", formals, [helper.make_empty_tensor_value_info(r) for r in results]
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(domain, opset)], ir_version=8
    )


def run(proto: Any, *arrays: Any, target: str = "reference", **options: Any) -> tuple[Any, ...]:
    """The outputs of a model for inputs in order."""
    return load(proto, target=target, **options)(*arrays)


def run_node(
    op: str, *arrays: Any, opset: int = 17, outputs: int = 1, domain: str = "", **attrs: Any
) -> Any:
    """The outputs of one node; the only one if there is one."""
    proto = one_node(op, arrays, opset, outputs, domain, **attrs)
    results = run(proto, *(array for array in arrays if array is not None))
    return results[0] if outputs == 1 else results


def interpret(proto: Any, **options: Any) -> Model:
    """The model, interpreted."""
    return load(proto, target="reference", **options)


def check_with_runtime(
    op: str, opset: int, arrays: Sequence[Any], outputs: int = 1, domain: str = "", **attrs: Any
) -> None:
    """One node of ours against that of ONNX Runtime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    arrays = [None if array is None else np.asarray(array) for array in arrays]
    proto = one_node(op, arrays, opset, outputs, domain, **attrs)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {f"x{k}": array for k, array in enumerate(arrays) if array is not None}
    wanted = session.run(None, feeds)
    found = run(proto, *feeds.values())
    agree(found, wanted)


def check_with_evaluator(
    op: str, opset: int, arrays: Sequence[Any], outputs: int = 1, domain: str = "", **attrs: Any
) -> None:
    """One node of ours against ONNX's own evaluator."""
    arrays = [None if array is None else np.asarray(array) for array in arrays]
    proto = one_node(op, arrays, opset, outputs, domain, **attrs)
    feeds = {f"x{k}": array for k, array in enumerate(arrays) if array is not None}
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    agree(run(proto, *feeds.values()), wanted)


def agree(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """The same types, shapes and values but for rounding."""
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def f32(*values: Any) -> np.ndarray:
    """A float32 array."""
    return np.array(values, np.float32)


def i64(*values: Any) -> np.ndarray:
    """An int64 array."""
    return np.array(values, np.int64)


class Evaluated:
    """In place of a compiled program for many sizes: the graph, evaluated for each."""

    def __init__(self, graph: Graph, target: str, device: str | None = None) -> None:
        self.graph = graph
        space = space_of_graph(graph)
        self.guards = [] if space is None else list(space.guards)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return all(guard.value(sizes) >= 0 for guard in self.guards)

    def at(self, sizes: Mapping[str, int]) -> Any:
        def type_at(tensor: Tensor) -> TensorType:
            return TensorType(at_sizes(tensor.shape, sizes), tensor.dtype)

        new = {tensor: Tensor(type_at(tensor), tensor.name) for tensor in self.graph.inputs}
        for node in self.graph.nodes:
            inputs, types = [new[t] for t in node.inputs], [type_at(t) for t in node.outputs]
            made = Node(node.op, inputs, at_sizes(node.attrs, sizes), types)
            new.update(zip(node.outputs, made.outputs, strict=True))
        graph = Graph([new[t] for t in self.graph.inputs], [new[t] for t in self.graph.outputs])
        return lambda *arrays: interpreter.run(graph, arrays)
