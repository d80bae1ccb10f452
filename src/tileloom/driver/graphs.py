"""Graphs as executables.

What was compiled before is found on disk by the graph itself, so that neither the planners nor
LLVM are loaded for it: they are imported when something new must be made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import Target
from ..base.compiling import compiling
from ..base.errors import UserError
from ..base.settings import file_stamp, settings
from ..base.target import target as parse_target
from ..graph.nodes import Graph, Node, Tensor
from ..graph.symbols import formula_of, host_at, space_of_graph
from ..runtime import LoadedObject, parallel
from ..runtime.cache import cache_key, object_cache
from ..runtime.executable import Array, Executable, Value
from ..runtime.family import Choices, Family
from ..runtime.recipe import Panels, Recipe, Step, digest
from ..tir import IRModule
from .functions import build, runnable
from .keys import constants_of, graph_key, stamp
from .objects import PARALLEL_RUNTIME, linked, object_code
from .stages import print_stages

if TYPE_CHECKING:
    from ..graph.hoist import Hoisted
    from ..graph.program import Program, Segment
    from .gpu import GpuExecutable


def compile_graph(
    graph: Graph,
    target: Any = "cpu",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
    device: str | None = None,
) -> Executable | GpuExecutable:
    """A graph compiled for a target: a callable from arrays to a list of arrays.

    Args:
        target: "cpu", "cuda", or a `Target`.
        replaced: the input whose new value an output is, by their positions: the input's array
            is changed, and returned as the output.
        exact: whether kernels of formulas alone round after every operator, as NumPy does. On
            GPUs no kernel does.
        device: "emulator" runs code for a GPU on the CPU.
    """
    wanted = parse_target(target)
    if wanted.kind == "cuda" or device is not None:
        return _compile_for_gpu(graph, wanted, device, replaced)
    host = runnable(wanted)
    if space_of_graph(graph) is not None:
        raise UserError(
            "the graph has symbolic extents", hint="compile_family compiles such graphs"
        )
    print_stages(graph, host)
    recipe, code = _recipe(graph, host, "", dict(replaced or {}), exact)
    return recipe.executable(code)


def compile_family(graph: Graph, target: Any = "cpu", device: str | None = None) -> Choices:
    """A graph of symbolic shapes (`graph.symbols`) compiled once for all sizes within their bounds.

    It is right where its guards hold, which they do for the sizes of this compilation.

    Args:
        target: "cpu", "cuda", or a `Target`.
        device: "emulator" runs code for a GPU on the CPU.
    """
    wanted = parse_target(target)
    if wanted.kind == "cuda" or device is not None:
        return _family_for_gpu(graph, wanted, device)
    host = runnable(target)
    print_stages(graph, host)
    space = space_of_graph(graph)
    if space is None:
        return Family(*_recipe(graph, host))
    bounds = [(s.name, s.low, s.high) for s in space.symbols.values()]
    about = f"{bounds} {list(space.guards)}"
    family = Family(*_recipe(graph, host, about))
    if family.holds(space.hints):
        return family
    return Family(*_recipe(graph, host, f"{about} {space.hints}"))


def _family_for_gpu(graph: Graph, target: Target, device: str | None) -> Choices:
    from .gpu import CudaMemory, HostMemory
    from .gpu_family import GpuFamily
    from .plan import plan_graph

    print_stages(graph, target)
    memory = HostMemory() if device == "emulator" else CudaMemory(device)

    def made(module: IRModule) -> Mapping[str, Any]:
        found: Mapping[str, Any] = build(module, target, device)
        return found

    return GpuFamily(plan_graph(graph, target), target, made, memory)


def _recipe(
    graph: Graph,
    host: Target,
    about: str = "",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> tuple[Recipe, LoadedObject | None]:
    """A program and its code, from the cache on disk where that has it.

    Args:
        about: what else the program depends on.
    """
    constants = constants_of(graph)
    digests = {id(array): digest(array) for array in constants}
    threads = min(host.cores, parallel.get_num_threads())
    machine = f"{host.key} {threads} {host.l1} {host.l2} {host.l3}"
    known = settings()
    chosen = known.optimize, known.planner, known.check, file_stamp(known.traces)
    how = f"{replaced or {}} {exact} {chosen} {about}"
    key = cache_key("graph", machine, stamp(), graph_key(graph, digests), how)
    given = {digests[id(array)]: array for array in constants}
    found = object_cache().read(key, lambda kept: _with_code(*Recipe.from_bytes(kept, given)))
    if found is not None:
        return found
    recipe, data = _make(graph, host, replaced, exact)
    fresh = recipe.to_bytes(digests, data)
    if fresh is not None:
        object_cache().put(key, fresh)
    return _with_code(recipe, data)


def _with_code(recipe: Recipe, data: bytes) -> tuple[Recipe, LoadedObject | None]:
    """A program with its machine code, which must have all functions that the program calls."""
    if not data:
        return recipe, None
    pointers = {name: array.ctypes.data for name, array in recipe.symbols.items()}
    code = linked(data, pointers, recipe.needs_threads)
    for step in recipe.steps:
        if step.host is None:
            code.address(f"{step.symbol}__packed")
    return recipe, code


def _compile_for_gpu(
    graph: Graph, target: Target, device: str | None, replaced: Mapping[int, int] | None
) -> GpuExecutable:
    from .gpu import CudaMemory, GpuExecutable, HostMemory
    from .plan import plan_graph

    print_stages(graph, target)
    program = plan_graph(graph, target)
    kernels = build(program.module, target, device)
    memory = HostMemory() if device == "emulator" else CudaMemory(device)
    return GpuExecutable(program, kernels, memory, replaced)


@compiling
def hoist(graph: Graph, static: Collection[int]) -> Hoisted:
    """A graph for this CPU without what depends on static inputs alone: see `graph/hoist.py`."""
    from ..graph import hoist as hoisting
    from .plan import machine_of

    return hoisting.hoist(graph, static, machine_of(Target.host()))


def key_of(graph: Graph) -> str:
    """Text that is equal for graphs that compute the same in the same way."""
    return graph_key(graph, {id(array): digest(array) for array in constants_of(graph)})


@compiling
def _make(
    graph: Graph,
    target: Target,
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> tuple[Recipe, bytes]:
    from .plan import plan_graph

    program = plan_graph(graph, target)
    if exact:
        from ..graph.exact import keep_roundings

        keep_roundings(program)
    if replaced:
        from ..graph.inplace import write_in_place

        write_in_place(program, replaced)
    slots = _number(program)

    def value(tensor: Tensor) -> Value:
        home = program.storage.get(tensor, tensor)
        return Value(slots[home], tuple(map(formula_of, tensor.shape)), tensor.dtype)

    data, needs_threads, messages = b"", False, tuple[str, ...]()
    if program.module.functions:
        data, emitted = object_code(program.module, target)
        needs_threads = PARALLEL_RUNTIME in emitted.ir_text
        messages = tuple(emitted.messages)
    recipe = Recipe(
        program.graph.name,
        tuple((t.name, value(t)) for t in program.graph.inputs),
        tuple(map(value, program.graph.outputs)),
        tuple(_step(segment, value, program.space is not None) for segment in program.segments),
        {k: np.ascontiguousarray(t.value) for t, k in slots.items() if t.value is not None},
        program.constants,
        needs_threads,
        [Panels(array, matrix, how) for array, (matrix, *how) in _panels(program.graph)],
        replaced or {},
        () if program.space is None else tuple(program.space.guards),
        program.buckets,
        messages,
    )
    return recipe, data


def _panels(graph: Graph) -> list[tuple[Array, Any]]:
    found = (
        (node.attrs["value"], node.attrs.get("panels_of"))
        for node in graph.nodes
        if node.op.name == "constant"
    )
    return [(array, source) for array, source in found if source is not None]


def _step(segment: Segment, value: Any, symbolic: bool) -> Step:
    if segment.node is not None:
        reads = tuple(value(t) for t in segment.node.inputs)
        host: Any = partial(host_at, segment.node) if symbolic else _host_function(segment.node)
        return Step(segment.name, reads, tuple(map(value, segment.writes)), host=host)
    reads, writes = (tuple(map(value, part)) for part in (segment.reads, segment.writes))
    plan = segment.arena_bytes, None, segment.symbols, segment.arena
    return Step(segment.name, reads, writes, *plan)


def _host_function(node: Node) -> Any:
    types = [tensor.type for tensor in node.outputs]
    return lambda arrays: node.op.reference(arrays, node.attrs, types)


def _number(program: Program) -> dict[Tensor, int]:
    """A slot for every tensor that lives outside a segment: the inputs first."""
    slots = {tensor: k for k, tensor in enumerate(program.graph.inputs)}
    outside: list[Tensor] = []
    for segment in program.segments:
        outside += [*segment.reads, *segment.writes]
    outside += [program.storage.get(t, t) for t in program.graph.outputs]
    for tensor in outside:
        slots.setdefault(tensor, len(slots))
    return slots
