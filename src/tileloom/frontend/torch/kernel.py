"""Compiled parts as functions of PyTorch tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

import numpy as np
import torch

from ... import driver
from ...base import DType
from ...base.errors import InternalError
from ...graph.nodes import Graph
from ...runtime.executable import Executable, Value
from .launch import CARRIERS, Run, View, direct
from .layout import Export
from .place import Place

_numbers = count()
_CPU = Place()
_watched: ContextVar[list[Graph] | None] = ContextVar("_watched", default=None)


@contextmanager
def watching() -> Iterator[list[Graph]]:
    """The graphs of the parts that are compiled meanwhile, to see what became of a model.

    `driver.plan_graph` gives the kernels of each, `driver.show_stage` its text at any stage.
    """
    graphs: list[Graph] = []
    token = _watched.set(graphs)
    try:
        yield graphs
    finally:
        _watched.reset(token)


class CompiledPart:
    """A graph as a function of tensors: no copies in, none out.

    Shapes, types and devices are those it was traced with, which PyTorch's guards see to; strides
    may differ where PyTorch computed an argument.

    Args:
        graph: what to compile.
        exports: how its outputs are seen.
        unsure: inputs that operators of PyTorch make; their traced types may be wrong.
        place: where it runs.
    """

    def __init__(
        self,
        graph: Graph,
        exports: Sequence[Export],
        unsure: Sequence[int] = (),
        place: Place = _CPU,
    ) -> None:
        self.__name__ = named()
        self.graph = graph
        watch(graph)
        executable = driver.compile_graph(graph, place.target, device=place.device, tune=place.tune)
        shapes = [graph.inputs[k].shape for k in unsure]
        self._run = runner(executable, exports, shapes, unsure, place.tensors)

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return self._run(*tensors)


def named() -> str:
    """The name under which a joined function finds a part."""
    return f"part_{next(_numbers)}"


def watch(graph: Graph) -> None:
    """Show a graph that is compiled to those who are `watching`."""
    watched = _watched.get()
    if watched is not None:
        watched.append(graph)


def runner(
    executable: Executable,
    exports: Sequence[Export],
    shapes: Sequence[Sequence[int]] = (),
    unsure: Sequence[int] = (),
    where: torch.device = _CPU.tensors,
) -> Run:
    """A program as a function of tensors.

    Args:
        exports: how its outputs are seen.
        unsure: inputs that are first made what they were traced as; and their shapes.
        where: the device of its tensors.
    """
    views: list[View] = [(e.shape, e.strides) if e.strides is not None else None for e in exports]
    run: Run = direct(executable, views) or _through_arrays(executable, views, where)
    if not unsure:
        return run
    kinds = [executable.inputs[k].dtype for k in unsure]
    return _conforming(run, list(zip(unsure, shapes, kinds, strict=True)))


def _seen(made: list[torch.Tensor], views: Sequence[View]) -> list[torch.Tensor]:
    for k, view in enumerate(views):
        if view is not None:
            made[k] = made[k].as_strided(*view)
    return made


def _conforming(run: Run, traced: Sequence[tuple[int, Sequence[int], DType]]) -> Run:
    """The same, with arguments made what they were traced as."""
    wanted = [(k, tuple(shape), getattr(torch, kind)) for k, shape, kind in traced]

    def conform(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = list(tensors)
        for k, shape, kind in wanted:
            value = given[k]
            if value.dtype is not kind or value.is_neg():
                value = given[k] = value.resolve_neg().to(kind)
            if value.shape != shape:
                raise InternalError(f"an argument of shape {list(value.shape)}, traced as {shape}")
        return run(*given)

    return conform


def _through_arrays(executable: Executable, views: Sequence[View], where: torch.device) -> Run:
    outputs = executable.outputs

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = executable(*[t.detach().contiguous() for t in tensors])
        pairs = zip(results, outputs, strict=True)
        return _seen([_as_tensor(array, value).to(where) for array, value in pairs], views)

    return run


def _as_tensor(array: Any, value: Value) -> torch.Tensor:
    if not isinstance(array, np.ndarray):
        return torch.from_dlpack(array)
    carrier = CARRIERS.get(value.dtype)
    if carrier is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(carrier)).view(getattr(torch, value.dtype))
