"""Graphs with symbolic shapes, compiled anew for each combination of sizes that comes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from .types import is_static

Run = Callable[[list[Any]], Any]


def has_symbols(module: fx.GraphModule) -> bool:
    """Whether the shape of some value is not known."""
    return not all(is_static(node.meta.get("val")) for node in module.graph.nodes)


class Specialized:
    """A function of a list of arguments, which it empties; it compiles once for each shapes."""

    _boxed_call = True  # PyTorch's name for this manner of being called

    def __init__(self, module: fx.GraphModule, compile_static: Callable[[fx.GraphModule], Run]):
        self.module = module
        self._compile = compile_static
        self._known: dict[Any, Run] = {}

    def __call__(self, args: list[Any]) -> Any:
        key = tuple([_kind(value) for value in args])
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = self._compile(concrete(self.module, args))
        return run(args)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride()
    return value


def concrete(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """A copy of a graph, with the shapes that follow from these arguments in `meta["val"]`."""
    copied = fx.GraphModule(module, copy.deepcopy(module.graph))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
        _Shapes(copied).run(*fakes)
    return copied


class _Shapes(fx.Interpreter):  # type: ignore[misc]
    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            n.meta["val"] = value
        return value
