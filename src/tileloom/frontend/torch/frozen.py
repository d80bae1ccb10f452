"""Parts whose weights are prepared once, not in each call: the option `freeze`.

What a part computes of parameters and buffers alone (panels of matrix products, transposes, scales
made of variances) is kept for as long as these are what it was computed from: the same tensors with
the same memory and the same version, which PyTorch counts up whenever it writes to a tensor or a
view of it. What it does not count is not seen: see docs/torch.md.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

from ... import driver
from ...base import DType
from ...graph.hoist import Preparation
from ...graph.nodes import Graph
from ...graph.run import run
from ...runtime.arrays import as_numpy
from .launch import CARRIERS, maker

#: Compiles a graph; takes also those of its inputs that operators of PyTorch make.
Compile = Callable[[Graph, Sequence[int]], Callable[..., Any]]
#: How far a tensor's value was written: version and address.
Stamp = tuple[int, int]


def freeze(graph: Graph, static: Sequence[int], unsure: Sequence[int], compile_: Compile) -> Any:
    """A graph compiled so that what depends on static inputs alone is computed once.

    Args:
        static: positions of inputs that seldom change.
        unsure: positions of inputs that operators of PyTorch make.
    """
    hoisted = driver.hoist(graph, static)
    if not hoisted.preparations:
        return compile_(graph, unsure)
    rest = compile_(hoisted.graph, [hoisted.kept.index(k) for k in unsure])
    fresh = [_Fresh(each) for each in hoisted.preparations]
    return FrozenPart(rest, hoisted.kept, fresh, lambda: compile_(graph, unsure))


class FrozenPart:
    """A compiled part, and what prepares the inputs that it takes beyond those of the graph.

    Args:
        rest: the part; where it is right for many sizes, it takes the numbers first.
        kept: the inputs that it reads, then come the prepared ones.
        preparations: what makes these.
        plain: compiles the whole graph, for tensors whose changes nobody counts.
    """

    def __init__(
        self,
        rest: Callable[..., Any],
        kept: Sequence[int],
        preparations: Sequence[_Fresh],
        plain: Callable[[], Callable[..., Any]],
    ) -> None:
        self.rest = rest
        self.__name__ = rest.__name__
        self._kept, self._preparations, self._plain = kept, preparations, plain
        self._static = sorted({k for each in preparations for k in each.reads})
        self._first = int(hasattr(rest, "program"))
        self._whole: Callable[..., Any] | None = None
        self._states: dict[tuple[int, ...], _State] = {}

    def __call__(self, *args: Any) -> Any:
        sizes, tensors = args[: self._first], args[self._first :]
        static = [tensors[k] for k in self._static]
        state = self._states.get(tuple(map(id, static)))
        if state is None:
            if any(map(torch.Tensor.is_inference, static)):
                return self._run_whole(args)
            state = self._watch(static)
        stamps = [(t._version, t.data_ptr()) for t in static]
        if state.stamps != stamps:
            state.prepare(self._preparations, tensors, stamps)
        return self.rest(*sizes, *[tensors[k] for k in self._kept], *state.prepared)

    def _run_whole(self, args: Sequence[Any]) -> Any:
        if self._whole is None:
            self._whole = self._plain()
        return self._whole(*args)

    def _watch(self, static: Sequence[torch.Tensor]) -> _State:
        """What is kept for these tensors, while all of them exist."""
        key, states = tuple(map(id, static)), self._states

        def drop(_: Any) -> None:
            states.pop(key, None)

        return states.setdefault(key, _State(static, drop))


class _State:
    """What was prepared of some tensors.

    Attributes:
        stamps: of the tensors, when that was.
        prepared: the results.
    """

    def __init__(self, static: Sequence[torch.Tensor], drop: Callable[[Any], None]) -> None:
        _count_steps()
        for tensor in static:
            _watched[tensor] = None
        self._references = [weakref.ref(tensor, drop) for tensor in static]
        self.stamps: list[Stamp] = []
        self.prepared: list[torch.Tensor] = []
        self._kept: list[Any] = []

    def prepare(
        self, preparations: Sequence[_Fresh], tensors: Sequence[Any], stamps: list[Stamp]
    ) -> None:
        """Prepare anew. The memory that was read stays: no other tensor gets its address."""
        values = [each.value(tensors) for each in preparations]
        live = [tensor for tensor in (ref() for ref in self._references) if tensor is not None]
        self._kept = [values, [tensor.untyped_storage() for tensor in live]]
        self.prepared = [value.tensor for value in values]
        self.stamps = stamps


class _Value:
    """A prepared tensor, which all parts share that prepare it of the same tensors."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class _Fresh:
    """A preparation on tensors of PyTorch."""

    def __init__(self, preparation: Preparation) -> None:
        self.reads = preparation.reads
        self._graph = preparation.graph
        self._kind = preparation.graph.outputs[0].dtype
        self._key = driver.key_of(self._graph)

    def value(self, tensors: Sequence[torch.Tensor]) -> _Value:
        """The result, computed unless another part holds it."""
        given = [tensors[k] for k in self.reads]
        key = self._key, tuple((id(t), t._version, t.data_ptr()) for t in given)
        found = _shared.get(key)
        if found is None:
            arrays = [as_numpy(t.detach().contiguous()) for t in given]
            with np.errstate(all="ignore"):
                (made,) = run(self._graph, arrays)
            found = _shared[key] = _Value(_as_tensor(made, self._kind))
        return found


def _as_tensor(array: Any, kind: DType) -> torch.Tensor:
    """A copy in pooled memory: no vector lies in two lines of the cache, and pages are large."""
    made = maker(array.shape, kind)()
    carrier = CARRIERS.get(kind)
    given = torch.from_numpy(np.array(array if carrier is None else array.view(carrier)))
    return made.copy_(given if carrier is None else given.view(made.dtype))


_shared: weakref.WeakValueDictionary[Any, _Value] = weakref.WeakValueDictionary()
_watched: Any = WeakIdKeyDictionary()  # tensors, as they compare element by element
_hooks: list[Any] = []


def _count_steps() -> None:
    """Have optimizers count what they write: those that are one fused kernel do not."""
    if not _hooks:
        _hooks.append(register_optimizer_step_post_hook(_count))


def _count(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    written = [p for group in optimizer.param_groups for p in group["params"]]
    increment_version([p for p in written if p in _watched])
