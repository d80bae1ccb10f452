"""Graphs as executables.

What was compiled before is found on disk by the graph itself, so that neither the planners nor
LLVM are loaded for it: they are imported when something new must be made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.compiling import compiling
from ..base.errors import UserError
from ..base.settings import file_stamp, settings
from ..graph.nodes import Graph, Tensor
from ..graph.symbols import host_at, polynomial_of, space_of_graph
from ..records import chosen_trace, has_records, noting
from ..runtime.cache import cache_key, object_cache
from ..runtime.executable import Array, Executable, Operand, Value
from ..runtime.polymorphic import PolymorphicExecutable
from ..runtime.serialized import Panels, SerializedCall, SerializedExecutable, Step, digest
from ..target import Target
from .backend import Backend, backend_of
from .keys import constants_of, graph_key, stamp
from .stages import print_stages

if TYPE_CHECKING:
    from ..graph.hoist import Hoisted
    from ..graph.program import Program, Segment


def compile_graph(
    graph: Graph,
    target: Any = "cpu",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
    device: str | None = None,
    tune: int | None = None,
) -> Executable:
    """A graph compiled for a target: a callable from arrays to a list of arrays.

    Args:
        target: "cpu", "cuda", or a `Target`.
        replaced: the input whose new value an output is, by their positions: the input's array
            is changed, and returned as the output.
        exact: whether elementwise kernels round after every operator, as NumPy does. On
            GPUs no kernel does.
        device: "emulator" runs code for a GPU on the CPU.
        tune: candidates to measure before, over all kernels of which nothing was tuned yet.
    """
    backend = backend_of(target, device)
    if space_of_graph(graph) is not None:
        raise UserError(
            "the graph has symbolic extents", hint="compile_polymorphic compiles such graphs"
        )
    print_stages(graph, backend.target)
    if tune is not None:
        from .tuning import tune_missing

        tune_missing(graph, backend.target, device, tune)
    return _compiled(graph, backend, "", dict(replaced or {}), exact).at({})


def compile_polymorphic(
    graph: Graph, target: Any = "cpu", device: str | None = None
) -> PolymorphicExecutable:
    """A graph of symbolic shapes (`graph.symbols`) compiled once for all sizes within their bounds.

    It is right where its guards hold, which they do for the sizes of this compilation.

    Args:
        target: "cpu", "cuda", or a `Target`.
        device: "emulator" runs code for a GPU on the CPU.
    """
    backend = backend_of(target, device)
    print_stages(graph, backend.target)
    space = space_of_graph(graph)
    if space is None:
        return _compiled(graph, backend)
    bounds = [(s.name, s.low, s.high) for s in space.symbols.values()]
    about = f"{bounds} {list(space.guards)}"
    made = _compiled(graph, backend, about)
    return made if made.holds(space.hints) else _compiled(graph, backend, f"{about} {space.hints}")


def _compiled(
    graph: Graph,
    backend: Backend,
    about: str = "",
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> PolymorphicExecutable:
    """A program and its code, from the cache on disk where that has it.

    Args:
        about: what else the program depends on.
    """
    constants = constants_of(graph)
    digests = {id(array): digest(array) for array in constants}
    known = settings()
    chosen = known.optimize, known.check, file_stamp(known.traces)
    how = f"{replaced or {}} {exact} {chosen} {about}"
    key = cache_key("graph", backend.key, stamp(), graph_key(graph, digests), how)
    given = {digests[id(array)]: array for array in constants}

    def load(program: SerializedExecutable, data: bytes) -> PolymorphicExecutable:
        return PolymorphicExecutable(program, backend.load(program, data))

    kept_under = _key_with_records(key)
    found = kept_under and object_cache().read(
        kept_under, lambda kept: load(*SerializedExecutable.from_bytes(kept, given))
    )
    if found:
        return found
    with noting() as asked:
        program, data = _make(graph, backend, replaced, exact)
    fresh = program.to_bytes(digests, data)
    if fresh is not None:
        if asked:
            object_cache().put(cache_key(key, "asked"), json.dumps([*asked]).encode())
        object_cache().put(_with_answers(key, asked), fresh)
    return load(program, data)


def _key_with_records(key: str) -> str | None:
    """The key of a graph's code, with what records say about its kernels now.

    None if nobody knows what its kernels are: it was never compiled where there were records.
    """
    if not has_records():
        return key
    asked = object_cache().read(cache_key(key, "asked"), json.loads)
    if asked is None:
        return None
    with noting() as answers:
        for workload, machine in asked:
            chosen_trace(workload, machine)
    return _with_answers(key, answers)


def _with_answers(key: str, answers: Mapping[tuple[str, str], str]) -> str:
    return cache_key(key, str(sorted(answers.items()))) if any(answers.values()) else key


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
    backend: Backend,
    replaced: Mapping[int, int] | None = None,
    exact: bool = False,
) -> tuple[SerializedExecutable, bytes]:
    program = backend.plan_graph(graph, backend.target)
    if exact:
        from ..graph.exact import keep_roundings

        keep_roundings(program)
    if replaced:
        from ..graph.inplace import write_in_place

        write_in_place(program, replaced)
    code = backend.compile(program)
    slots = _number(program)

    def value(tensor: Tensor) -> Value:
        return Value(slots[program.home(tensor)], _shape(tensor), tensor.dtype)

    made = SerializedExecutable(
        program.graph.name,
        tuple((t.name, value(t)) for t in program.graph.inputs),
        tuple(map(value, program.graph.outputs)),
        tuple(_step(program, segment, value) for segment in program.segments),
        {k: np.ascontiguousarray(t.value) for t, k in slots.items() if t.value is not None},
        program.constants,
        [Panels(array, matrix, how) for array, (matrix, *how) in _panels(program.graph)],
        replaced or {},
        () if program.space is None else tuple(program.space.guards),
        program.buckets,
        code.numbers,
    )
    return made, code.data


def _panels(graph: Graph) -> list[tuple[Array, Any]]:
    found = (
        (node.attrs["value"], node.attrs.get("panels_of"))
        for node in graph.nodes
        if node.op.name == "constant"
    )
    return [(array, source) for array, source in found if source is not None]


def _step(program: Program, segment: Segment, value: Callable[[Tensor], Value]) -> Step:
    if segment.node is not None:
        reads, writes = map(value, segment.node.inputs), map(value, segment.writes)
        return Step(segment.name, tuple(reads), tuple(writes), host=partial(host_at, segment.node))
    reads, writes = map(value, segment.reads), map(value, segment.writes)
    calls = () if program.device.has_entries else _calls(program, segment)
    plan = segment.arena_bytes, None, segment.symbols, segment.arena
    return Step(segment.name, tuple(reads), tuple(writes), *plan, calls=calls)


def _calls(program: Program, segment: Segment) -> tuple[SerializedCall, ...]:
    """The kernels of a segment with what each of their arguments is."""
    places = {
        "value": (*segment.reads, *segment.writes),
        "workspace": segment.between,
        "constant": tuple(program.constant_names),
    }
    where = {t: (source, k) for source, tensors in places.items() for k, t in enumerate(tensors)}

    def operand(tensor: Tensor) -> Operand:
        return Operand(*where[program.home(tensor)], _shape(tensor), tensor.dtype)

    return tuple(
        SerializedCall(call.kernel, tuple(map(operand, call.tensors))) for call in segment.calls
    )


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(map(polynomial_of, tensor.shape))


def _number(program: Program) -> dict[Tensor, int]:
    """A slot for every tensor that lives outside a segment: the inputs first."""
    slots = {tensor: k for k, tensor in enumerate(program.graph.inputs)}
    outside: list[Tensor] = []
    for segment in program.segments:
        outside += [*segment.reads, *segment.writes]
    outside += map(program.home, program.graph.outputs)
    for tensor in outside:
        slots.setdefault(tensor, len(slots))
    return slots
