"""Tileloom as a backend of `onnx.backend`: what the public conformance tests run through.

>>> import onnx.helper
>>> node = onnx.helper.make_node("Add", ["a", "b"], ["c"])
>>> Backend.run_node(node, [np.float32([1]), np.float32([2])])[0]
array([3.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto, defs, helper
from onnx.backend import base

from ...base.errors import ArgumentError
from .elements import elem_type_of
from .registry import NEWEST
from .session import Model, load
from .tensors import to_array, to_dense
from .values import Datum


class BackendRep(base.BackendRep):  # type: ignore[misc]
    """A prepared model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """All outputs for the inputs in order (or by name)."""
        if isinstance(inputs, dict):
            return tuple(self.model.run(None, inputs))
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        return self.model(*map(datum, given))


class Backend(base.Backend):  # type: ignore[misc]
    """`prepare`, `run_model` and `run_node` on the CPU."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Load a model; `target` may be given."""
        if not cls.supports_device(device):
            raise ArgumentError(f"device {device!r} is not supported", hint="use 'CPU'")
        return BackendRep(load(model, target=kwargs.get("target", "cpu")))

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Load a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, at `opset_version` or the newest known."""
        arrays = [np.asarray(datum(item)) for item in inputs]
        names = [name for name in node.input if name]
        formals = [
            helper.make_tensor_value_info(name, elem_type_of(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", formals, outputs)
        version = kwargs.pop("opset_version", min(NEWEST, defs.onnx_opset_version()))
        opsets = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(graph, opset_imports=opsets)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU so far."""
        return device.split(":")[0] == "CPU"


def datum(item: Any) -> Datum:
    """What a test case holds: arrays, messages, lists of them."""
    if isinstance(item, TensorProto):
        return to_array(item)
    if isinstance(item, SparseTensorProto):
        return to_dense(item)
    if isinstance(item, (list, tuple)):
        return [datum(element) for element in item]
    result: Datum = item
    return result


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
