"""A loaded model: specialised and compiled for each set of input shapes, then called.

A model whose structure depends on values (see `importer.NeedsValue`) is run in stages: a first
graph computes the value asked for, and the rest is imported with the value known. The stages form
a tree that is kept, so that a value seen before costs no new compilation.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ...base.errors import ArgumentError, UserError
from ...graph.nodes import Graph
from .elements import is_graph_type
from .executor import Executable, make_executable, make_stage
from .feeds import Dim, ValueInfo, read_feeds, suggest, value_info
from .importer import Imported, Importer, Key, NeedsValue
from .source import Source, read_source
from .values import Array, Datum, fill_in, fingerprint, signature

#: Specialisations kept for each model and for each value asked for.
MOST_CACHED = 64
#: How many values one run may ask for: each costs an import.
MOST_STAGES = 2000


@dataclass
class _Ready:
    """The whole model is known."""

    imported: Imported
    graph: Graph
    executable: Executable


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
        source: Source,
        shapes: Mapping[str, Any] | None,
        target: str,
        device: str | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._device = device
        graph = source.graph
        defaults = {tensor.name for tensor in graph.initializer}
        defaults |= {tensor.values.name for tensor in graph.sparse_initializer}
        self._inputs = [value_info(proto) for proto in graph.input]
        self._defaults = defaults
        self._outputs = [value_info(proto) for proto in graph.output]
        self._bound = self._bind(shapes or {})
        self._plans: OrderedDict[Any, _Plan] = OrderedDict()
        self._lock = threading.RLock()
        self._compile_now()

    # ------------------------------------------------------------------ description

    def get_inputs(self) -> list[ValueInfo]:
        """What must be fed."""
        return [info for info in self._inputs if info.name not in self._defaults]

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
        data = read_feeds(self._inputs, self._defaults, feeds, self._bound)
        return self._ready(data, self._names(None)).graph

    # ------------------------------------------------------------------ running

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs of these names (all if None), in order, for arrays by name."""
        names = self._names(output_names)
        data = read_feeds(self._inputs, self._defaults, feeds, self._bound)
        plan = self._ready(data, names)
        try:
            results = iter(_execute(plan.executable, data))
        except MemoryError:
            needed = sum(t.type.nbytes for node in plan.graph.nodes for t in node.outputs)
            raise UserError(
                f"not enough memory: the model makes up to {needed:,} bytes of tensors"
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

    # ------------------------------------------------------------------ shapes known at load

    def _bind(self, shapes: Mapping[str, Any]) -> dict[str, int]:
        symbols = {dim for info in self._inputs for dim in info.shape or () if isinstance(dim, str)}
        names = {info.name: k for k, info in enumerate(self._inputs)}
        bound: dict[str, int] = {}
        for name, given in shapes.items():
            if name in names and not isinstance(given, (int, np.integer)):
                index = names[name]
                self._inputs[index] = _with_shape(self._inputs[index], given)
            elif name in symbols:
                bound[name] = _extent(name, given)
            else:
                hint = suggest(name, [*symbols, *names])
                raise ArgumentError(f"no input or dimension is called {name!r}", hint=hint)
        return bound

    def _placeholders(self) -> dict[str, Datum] | None:
        """Arrays of the shapes known so far (they take no memory), or None."""
        result: dict[str, Datum] = {}
        for info in self.get_inputs():
            shape = [self._bound.get(d) if isinstance(d, str) else d for d in info.shape or (None,)]
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
        key = (names, tuple((name, signature(datum)) for name, datum in data.items()))
        return self._cached(self._plans, key, lambda: self._plan(data, names, {}))

    def _ready(self, data: Mapping[str, Datum], names: tuple[str, ...]) -> _Ready:
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
        importer = Importer(self._source, known)
        try:
            imported = importer.run(data, names)
        except NeedsValue as needed:
            graph = Graph(importer.inputs, [needed.tensor], ["/".join(needed.key)], "stage")
            return _Ask(needed.key, graph, make_stage(graph, self._target, self._device))
        graph = imported.graph(self._source.graph.name or "main")
        return _Ready(imported, graph, make_executable(graph, self._target, self._device))

    def _cached(self, table: OrderedDict[Any, _Plan], key: Any, make: Callable[[], _Plan]) -> _Plan:
        with self._lock:
            if key not in table:
                table[key] = make()
                while len(table) > MOST_CACHED:
                    table.popitem(last=False)
            table.move_to_end(key)
            return table[key]


def _execute(executable: Executable, data: Mapping[str, Datum]) -> list[Array]:
    return executable(*_leaves(list(data.values())))


def _leaves(datum: Datum) -> list[Array]:
    """The arrays that are fed to the graph, in the order of the importer's inputs."""
    from_lists = [a for item in datum for a in _leaves(item)] if isinstance(datum, list) else []
    if datum is None or isinstance(datum, list) or not is_graph_type(datum.dtype):
        return from_lists
    return [datum]


def _extent(name: str, given: Any) -> int:
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 0:
        raise ArgumentError(f"dimension {name!r} must be a natural number, not {given!r}")
    return int(given)


def _with_shape(info: ValueInfo, given: Any) -> ValueInfo:
    try:
        shape: tuple[Dim, ...] = tuple(_extent(info.name, extent) for extent in given)
    except TypeError:
        raise ArgumentError(f"the shape of {info.name!r} must be a tuple, not {given!r}") from None
    fits = info.shape is None or (
        len(shape) == len(info.shape)
        and all(not isinstance(d, int) or d == n for d, n in zip(info.shape, shape))
    )
    if not fits:
        raise ArgumentError(f"shape {shape} does not fit input {info.name!r} of {info.shape}")
    return ValueInfo(info.name, shape, info.type, info.elem_type, info.kind)


def load(
    model: Any,
    *,
    shapes: Mapping[str, Any] | None = None,
    target: str = "cpu",
    device: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Model:
    """Load an ONNX model.

    Args:
        model: a path, the bytes of a file, or a `ModelProto`.
        shapes: extents of symbolic dimensions by name (`{"batch": 4}`), or whole shapes by input
            name. What is not given is taken from the arrays of each call.
        target: what to compile for; "reference" interprets the model in NumPy.
        device: "emulator" runs code for the target "cuda" on the CPU.
        folder: where external data is, for a model that is not read from a path.

    Raises:
        UserError: the model is malformed, or the shapes do not fit.
        UnsupportedError: an operator, a type or an opset is not supported; it is named.
    """
    return Model(read_source(model, folder), shapes, target, device)
