"""Compiled parts as functions of PyTorch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any

import torch

from ... import driver
from ...base import DType, dtype
from ...base.errors import InternalError
from ...graph.nodes import Graph
from ...runtime.arrays import as_numpy
from ...runtime.executable import Executable, NativeStep, Value
from ...runtime.pool import pool
from .layout import Export

_numbers = count()
_watched: ContextVar[list[Graph] | None] = ContextVar("_watched", default=None)
#: Types that NumPy does not have, and as which of its types it carries them.
_CARRIERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
Make = Callable[[], torch.Tensor]
Run = Callable[..., list[torch.Tensor]]


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
    """

    def __init__(self, graph: Graph, exports: Sequence[Export], unsure: Sequence[int] = ()) -> None:
        # The name under which the joined function finds this object.
        self.__name__ = f"part_{next(_numbers)}"
        self.graph = graph
        watched = _watched.get()
        if watched is not None:
            watched.append(graph)
        executable = driver.compile_graph(graph)
        views = [(e.shape, e.strides) if e.strides is not None else None for e in exports]
        run: Run = _direct(executable, views) or _through_arrays(executable, views)
        self._run = _conforming(run, graph, unsure) if unsure else run

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return self._run(*tensors)


def maker(shape: Sequence[int], kind: DType) -> Make:
    """What gives uninitialised tensors in pooled memory."""
    if 0 in shape:  # NumPy would give strides of 0
        return partial(torch.empty, tuple(shape), dtype=getattr(torch, kind))
    carrier = _CARRIERS.get(kind)
    allocate, wrap = pool.allocator(tuple(shape), dtype(carrier or kind)), torch.from_numpy
    if carrier is None:
        return lambda: wrap(allocate())
    exact = getattr(torch, kind)
    return lambda: wrap(allocate()).view(exact)


def _nothing() -> torch.Tensor:
    return _EMPTY


_EMPTY = torch.empty(0, dtype=torch.uint8)


def _seen(made: list[torch.Tensor], views: Sequence[Any]) -> list[torch.Tensor]:
    for k, view in enumerate(views):
        if view is not None:
            made[k] = made[k].as_strided(*view)
    return made


def _direct(executable: Executable, views: Sequence[Any]) -> Run | None:
    """The program as a launch of its one kernel on pointers, if it has just one."""
    if len(executable.steps) != 1 or not isinstance(executable.steps[0], NativeStep):
        return None
    step = executable.steps[0]
    if step.writes != executable.outputs:
        return None
    slots = [value.slot for value in step.reads]
    if slots != list(range(len(executable.inputs))):
        return None
    makers = [maker(value.shape, value.dtype) for value in step.writes]
    scratch = maker((step.arena_bytes,), dtype("uint8")) if step.arena_bytes else _nothing
    table = ctypes.c_void_p * (len(slots) + len(makers) + 1)
    launch, address = step.kernel.launch, ctypes.addressof
    plain = not any(views)

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = [t if t.is_contiguous() else t.contiguous() for t in tensors]
        made = [make() for make in makers]
        held = [*given, *made, scratch()]
        pointers = table(*[t.data_ptr() for t in held])
        launch(address(pointers))
        return made if plain else _seen(made, views)

    return run


def _conforming(run: Run, graph: Graph, unsure: Sequence[int]) -> Run:
    """The same, with arguments made what they were traced as."""
    wanted = [(k, graph.inputs[k].shape, getattr(torch, graph.inputs[k].dtype)) for k in unsure]

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


def _through_arrays(executable: Executable, views: Sequence[Any]) -> Run:
    outputs = executable.outputs

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        results = executable(*[as_numpy(t.detach().contiguous()) for t in tensors])
        made = [_as_tensor(array, value) for array, value in zip(results, outputs, strict=True)]
        return _seen(made, views)

    return run


def _as_tensor(array: Any, value: Value) -> torch.Tensor:
    carrier = _CARRIERS.get(value.dtype)
    if carrier is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(carrier)).view(getattr(torch, value.dtype))
