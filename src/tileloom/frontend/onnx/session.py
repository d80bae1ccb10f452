"""A loaded model: compiled for the sizes that it meets, then called.

Programs for many sizes come from `dynamic`; where there is none, one is compiled for each
combination of shapes.

A model whose structure depends on values (see `importer.NeedsValue`) is run in stages: a first
graph computes the value asked for, and the rest is imported with the value known. The stages form
a tree that is kept, so that a value seen before costs no new compilation.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...base.errors import ArgumentError, UserError
from ...base.forking import ForkLock
from ...graph.nodes import Graph
from .dynamic import Dynamic, DynamicProgram
from .elements import is_graph_type
from .executor import REFERENCE, Executable, make_executable, make_stage
from .feeds import ValueInfo, read_feeds, suggest, value_info
from .importer import Imported, Importer, Key, NeedsValue
from .sizes import LabelBound
from .source import ModelSource, read_source
from .values import Array, Datum, fill_in, fingerprint, signature

#: Specialisations kept for each model and for each value asked for.
MOST_CACHED = 64
#: Combinations of sizes that are remembered.
MOST_SIZES = 4096
#: How many values one run may ask for: each costs an import.
MOST_STAGES = 2000


@dataclass
class _Ready:
    """The whole model is known, if by a program for many sizes, then for these."""

    imported: Imported
    graph: Graph
    executable: Executable
    program: DynamicProgram | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def nbytes(self) -> int:
        """The bytes of all tensors that are made."""
        if self.program is not None:
            return self.program.nbytes(self.sizes)
        return sum(t.type.nbytes for node in self.graph.nodes for t in node.outputs)


@dataclass
class _Ask:
    """The value of a tensor must be computed first."""

    key: Key
    graph: Graph
    executable: Executable
    answers: OrderedDict[Any, _Plan] = field(default_factory=OrderedDict)


_Plan: TypeAlias = "_Ready | _Ask"


class Model:
    """An ONNX model ready to run; made by `load`.

    >>> import onnx.parser
    >>> model = load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     double (float[n] x) => (float[n] y) { y = Add(x, x) }'''))
    >>> model.get_inputs()[0].shape
    ('n',)
    >>> model.run(["y"], {"x": np.float32([1, 2])})
    [array([2., 4.], dtype=float32)]
    """

    def __init__(
        self,
        source: ModelSource,
        shapes: Mapping[str, Any] | None,
        target: str,
        device: str | None = None,
        dynamic: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._device = device
        graph = source.graph
        defaults = {tensor.name for tensor in graph.initializer}
        defaults |= {tensor.values.name for tensor in graph.sparse_initializer}
        self._bound = LabelBound([value_info(proto) for proto in graph.input], shapes or {})
        self._defaults = defaults
        self._outputs = [value_info(proto) for proto in graph.output]
        self._plans: OrderedDict[Any, _Plan] = OrderedDict()
        self._sized: OrderedDict[Any, _Ready] = OrderedDict()
        self._planned = 0
        many = dynamic and target != REFERENCE
        self._dynamic = Dynamic(source, self._bound, target, device) if many else None
        self._lock = ForkLock()
        self._compile_now()

    # ------------------------------------------------------------------ description

    def get_inputs(self) -> list[ValueInfo]:
        """What must be fed."""
        return [info for info in self._bound.infos if info.name not in self._defaults]

    def get_outputs(self) -> list[ValueInfo]:
        """What comes out."""
        return list(self._outputs)

    def graph(self, feeds: Mapping[str, Any] | None = None) -> Graph:
        """The tensor graph that the model is for these inputs (or for the shapes it was given).

        Raises:
            UserError: the shapes are not known, or the graph depends on values of inputs.
        """
        if feeds is None:
            data = self._placeholders()
            if data is None:
                raise UserError(
                    "the graph depends on shapes that are not known yet",
                    hint="give them to load(shapes=...), or pass feeds",
                )
            plan = self._root(data, self._names(None))
            if isinstance(plan, _Ready):
                return plan.graph
            name = "/".join(plan.key)
            raise UserError(f"the graph depends on the value of {name!r}", hint="pass feeds")
        data = self._read(feeds)
        try:
            imported = Importer(self._source, {}).run(data, self._names(None))
        except NeedsValue:
            return self._staged(data, self._names(None)).graph
        return imported.graph(self._source.graph.name or "main")

    @property
    def compilations(self) -> int:
        """How many programs were compiled: one for all sizes, if nothing stands against it."""
        many = 0 if self._dynamic is None else self._dynamic.compilations
        return self._planned + many

    def explain(self, feeds: Mapping[str, Any]) -> str:
        """Which kernels a call with these inputs takes; compiles the program if need be."""
        ready = self._ready(self._read(feeds), self._names(None))
        if ready.program is None:
            return "compiled for these sizes alone"
        text: str = ready.program.executable.explain(ready.sizes)
        return text

    # ------------------------------------------------------------------ running

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs of these names (all if None), in order, for arrays by name."""
        names = self._names(output_names)
        data = self._read(feeds)
        plan = self._ready(data, names)
        try:
            results = iter(_execute(plan.executable, data))
        except MemoryError:
            raise UserError(
                f"not enough memory: the model makes up to {plan.nbytes():,} bytes of tensors"
            ) from None
        return [fill_in(plan.imported.outputs[name], lambda _: next(results)) for name in names]

    def __call__(self, *arrays: Any, **named: Any) -> tuple[Any, ...]:
        """All outputs, for inputs in order or by name."""
        infos = self.get_inputs()
        if len(arrays) > len(infos):
            raise ArgumentError(f"{len(arrays)} arrays for {len(infos)} inputs")
        feeds = {info.name: array for info, array in zip(infos, arrays)}
        twice = sorted(feeds.keys() & named.keys())
        if twice:
            raise ArgumentError(f"input {twice[0]!r} is given twice")
        return tuple(self.run(None, {**feeds, **named}))

    # ------------------------------------------------------------------ what is fed

    def _read(self, feeds: Mapping[str, Any]) -> dict[str, Datum]:
        bound = self._bound
        return read_feeds(bound.infos, self._defaults, feeds, bound.extents, bound.dims)

    def _placeholders(self) -> dict[str, Datum] | None:
        """Arrays of the shapes known so far (they take no memory), or None."""
        result: dict[str, Datum] = {}
        for info in self.get_inputs():
            known = self._bound.extents
            shape = [known.get(d) if isinstance(d, str) else d for d in info.shape or (None,)]
            if info.shape == ():
                shape = []
            if not info.is_tensor or info.dtype == np.dtype(object) or None in shape:
                return None
            result[info.name] = np.broadcast_to(np.zeros((), info.dtype), shape)  # type: ignore[arg-type]
        return result

    def _compile_now(self) -> None:
        data = self._placeholders()
        if data is not None:
            self._root(data, self._names(None))

    def _names(self, names: Sequence[str] | None) -> tuple[str, ...]:
        known = [info.name for info in self._outputs]
        if names is None:
            return tuple(known)
        for name in names:
            if name not in known:
                raise ArgumentError(f"the model has no output {name!r}", hint=suggest(name, known))
        return tuple(names)

    # ------------------------------------------------------------------ plans

    def _root(self, data: Mapping[str, Datum], names: tuple[str, ...]) -> _Plan:
        return self._cached(self._plans, _key(data, names), lambda: self._plan(data, names, {}))

    def _ready(self, data: Mapping[str, Datum], names: tuple[str, ...]) -> _Ready:
        if self._dynamic is None:
            return self._staged(data, names)
        key = _key(data, names)
        with self._lock:
            found = self._sized.get(key)
            if found is None and key not in self._plans:
                found = self._of_many(self._dynamic, key, data, names)
        return self._staged(data, names) if found is None else found

    def _of_many(
        self, dynamic: Dynamic, key: Any, data: Mapping[str, Datum], names: tuple[str, ...]
    ) -> _Ready | None:
        """What runs these inputs by a program for many sizes, if there is one."""
        found = dynamic.find(data, names)
        if found is None:
            return None
        program, sizes = found
        ready = _Ready(program.imported, program.graph, program.at(sizes), program, sizes)
        self._sized[key] = ready
        if len(self._sized) > MOST_SIZES:
            self._sized.popitem(last=False)
        return ready

    def _staged(self, data: Mapping[str, Datum], names: tuple[str, ...]) -> _Ready:
        plan = self._root(data, names)
        known: dict[Key, Array] = {}
        for _ in range(MOST_STAGES):
            if isinstance(plan, _Ready):
                return plan
            ask = plan
            known[ask.key] = _execute(ask.executable, data)[0]
            key = fingerprint(known[ask.key])
            plan = self._cached(ask.answers, key, lambda: self._plan(data, names, dict(known)))
        raise UserError(f"the structure of the model depends on more than {MOST_STAGES} values")

    def _plan(
        self, data: Mapping[str, Datum], names: tuple[str, ...], known: dict[Key, Array]
    ) -> _Plan:
        self._planned += 1
        importer = Importer(self._source, known)
        try:
            imported = importer.run(data, names)
        except NeedsValue as needed:
            graph = Graph(importer.inputs, [needed.tensor], ["/".join(needed.key)], "stage")
            return _Ask(needed.key, graph, make_stage(graph, self._target, self._device))
        graph = imported.graph(self._source.graph.name or "main")
        executable = make_executable(graph, self._target, self._device, imported.checks)
        return _Ready(imported, graph, executable)

    def _cached(self, table: OrderedDict[Any, _Plan], key: Any, make: Callable[[], _Plan]) -> _Plan:
        with self._lock:
            if key not in table:
                table[key] = make()
                while len(table) > MOST_CACHED:
                    table.popitem(last=False)
            table.move_to_end(key)
            return table[key]


def _key(data: Mapping[str, Datum], names: tuple[str, ...]) -> Any:
    return names, tuple((name, signature(datum)) for name, datum in data.items())


def _execute(executable: Executable, data: Mapping[str, Datum]) -> list[Array]:
    return executable(*_leaves(list(data.values())))


def _leaves(datum: Datum) -> list[Array]:
    """The arrays that are fed to the graph, in the order of the importer's inputs."""
    from_lists = [a for item in datum for a in _leaves(item)] if isinstance(datum, list) else []
    if datum is None or isinstance(datum, list) or not is_graph_type(datum.dtype):
        return from_lists
    return [datum]


def load(
    model: Any,
    *,
    shapes: Mapping[str, Any] | None = None,
    target: str = "cpu",
    device: str | None = None,
    dynamic: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> Model:
    """Load an ONNX model.

    Args:
        model: a path, the bytes of a file, or a `ModelProto`.
        shapes: extents of symbolic dimensions by name (`{"batch": 4}`), or whole shapes by input
            name. An extent may be a `tileloom.Dim` with bounds: `{"batch": Dim("batch", max=64)}`.
            What is not given is found in the arrays of each call.
        target: what to compile for; "reference" interprets the model in NumPy.
        dynamic: whether one program is compiled for all sizes of the dimensions that are not
            given, where that can be done; else one for each combination.
        device: "emulator" runs code for the target "cuda" on the CPU.
        folder: where external data is, for a model that is not read from a path.

    Raises:
        UserError: the model is malformed, or the shapes do not fit.
        UnsupportedError: an operator, a type or an opset is not supported; it is named.
    """
    return Model(read_source(model, folder), shapes, target, device, dynamic)
