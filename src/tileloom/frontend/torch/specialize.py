"""Graphs with symbolic shapes, compiled anew for each combination of sizes that comes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .report import report
from .types import is_static

Run = Callable[[list[Any]], Any]


def has_symbols(module: fx.GraphModule) -> bool:
    """Whether the shape of some value is not known."""
    return not all(is_static(node.meta.get("val")) for node in module.graph.nodes)


def specialized(module: fx.GraphModule, compile_static: Callable[[fx.GraphModule], Run]) -> Run:
    """A function of a list of arguments, which it empties; it compiles once for each shapes."""
    known: dict[Any, Run] = {}

    def run(args: list[Any]) -> Any:
        key = tuple([_kind(value) for value in args])
        function = known.get(key)
        if function is None:
            function = known[key] = _compiled(module, args, compile_static)
        return function(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # PyTorch's name for this way of calling
    return run


def _compiled(
    module: fx.GraphModule, args: Sequence[Any], compile_static: Callable[[fx.GraphModule], Run]
) -> Run:
    try:
        return compile_static(concrete(module, args))
    except Exception as error:  # shapes that even PyTorch cannot foresee
        report().fall_back("a whole graph", f"{type(error).__name__}: {error}")
        return lambda given: module(*given)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride()
    return value


def concrete(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """A copy of a graph, with the shapes that follow from these arguments in `meta["val"]`."""
    copied = fx.GraphModule(module, copy.deepcopy(module.graph))
    # The environment is for sizes that depend on data, which stay symbols.
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
        fakes = [
            mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a
            for a in args
        ]
        _Shapes(copied).run(*fakes)
    return copied


class _Shapes(fx.Interpreter):  # type: ignore[misc]
    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = value
        return value
