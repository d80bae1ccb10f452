"""How peers run a workload: builders that a `Workload` takes.

Weights are constants for all who can use that (a captured array in Tileloom, a parameter of a
PyTorch module, an initialiser in ONNX); everything else is an argument of each call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .harness import Builder, Call, Skip

Function = Callable[..., Any]


def tileloom(function: Function) -> Builder:
    """A NumPy-style function under `tileloom.jit`."""

    def build(*inputs: Any) -> Call:
        from tileloom import jit

        compiled = jit(function)
        return lambda: compiled(*inputs)

    build.function = function  # type: ignore[attr-defined]  # for who wants to look at its graph
    return build


def numpy(function: Function) -> Builder:
    """The function as it stands."""
    return lambda *inputs: lambda: function(*inputs)


def torch(make: Callable[[Any], Function]) -> Builder:
    """PyTorch eager, without gradients; `make` gets the torch module."""

    def build(*inputs: Any) -> Call:
        try:
            import torch as library
        except ModuleNotFoundError:
            raise Skip("not installed") from None
        library.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        tensors = [_tensor(library, x) for x in inputs]
        function = make(library)

        def call() -> Any:
            with library.inference_mode():
                return function(*tensors)

        return call

    return build


def _tensor(library: Any, array: np.ndarray[Any, Any]) -> Any:
    """An array as a tensor over the same memory; PyTorch does not know NumPy's bfloat16."""
    if array.dtype.name == "bfloat16":
        return library.from_numpy(array.view(np.int16)).view(library.bfloat16)
    return library.from_numpy(array)


Nodes = Callable[[Any], Sequence[Any]]


def onnx_model(
    nodes: Nodes, inputs: Sequence[Any], constants: Sequence[Any], kind: str = "float32"
) -> bytes:
    """A model from inputs x0, x1, ... and constants w0, w1, ... to y of a type, as a file."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise Skip("not installed") from None
    helper = onnx.helper
    value = helper.make_tensor_value_info
    given = [
        value(f"x{k}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for k, x in enumerate(inputs)
    ]
    fixed = [onnx.numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(constants)]
    result = value("y", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
    graph = helper.make_graph(nodes(helper.make_node), "main", given, [result], fixed)
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    return bytes(model.SerializeToString())


def onnxruntime(nodes: Nodes, constants: Sequence[Any] = (), kind: str = "float32") -> Builder:
    """ONNX Runtime on a graph of nodes; see `onnx_model`."""

    def build(*inputs: Any) -> Call:
        model = onnx_model(nodes, inputs, constants, kind)
        try:
            import onnxruntime as library
        except ModuleNotFoundError:
            raise Skip("not installed") from None
        options = library.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        session = library.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = {f"x{k}": x for k, x in enumerate(inputs)}
        return lambda: session.run(None, feeds)[0]

    return build


def tileloom_onnx(nodes: Nodes, constants: Sequence[Any] = ()) -> Builder:
    """Tileloom on a graph of nodes with one result; see `onnx_model`."""

    def build(*inputs: Any) -> Call:
        from tileloom import onnx

        session = onnx.load(onnx_model(nodes, inputs, constants))
        return lambda: session(*inputs)[0]

    return build


def inductor(make: Callable[[Any], Function]) -> Builder:
    """The same through `torch.compile`, whose default backend writes C++."""
    return torch(lambda library: library.compile(make(library)))


def jax(make: Callable[[Any], Function]) -> Builder:
    """A function of `jax.numpy` arrays under `jax.jit`; `make` gets the jax module."""

    def build(*inputs: Any) -> Call:
        try:
            import jax as library
        except ModuleNotFoundError:
            raise Skip("not installed") from None
        library.config.update("jax_platforms", "cpu")
        arrays = [library.numpy.asarray(x) for x in inputs]
        function = library.jit(make(library))

        def call() -> Any:
            return np.asarray(library.block_until_ready(function(*arrays)))

        return call

    return build
