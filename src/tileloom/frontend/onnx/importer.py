"""An ONNX model, for given shapes of its inputs, as a graph of tensors.

Extents of inputs may be symbols (`graph.symbols`). Then what is computed from shapes is computed on
size expressions, by `fold`; a handler that needs a number makes the program one for that size.

Where the structure of the result depends on a value that is computed from inputs (a Reshape to a
computed shape, an If), the import cannot go on. It raises `NeedsValue` with the tensor concerned;
the session computes it and imports again with that value known. See `session.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, helper

from ...base import dtype
from ...base.errors import ShapeError, TileloomError, UnsupportedError, UserError
from ...graph.checks import Check
from ...graph.nodes import Graph, Tensor, TensorType
from ...graph.symbols import is_symbolic
from .call import Call, Services
from .elements import elem_type_of, is_graph_type
from .fold import Folder, check_size
from .registry import lookup
from .schema import body_of
from .source import ModelSource, normal_domain
from .tensors import to_array, to_dense
from .values import Array, Datum, Value, constant_of, tensors_of, value_of

#: Unrolled loops must end somewhere.
MOST_NODES = 200_000


#: What a value is known by: its name, after the nodes and steps that it is inside of.
Key: TypeAlias = tuple[str, ...]


class NeedsValue(Exception):
    """The import needs the value of `tensor`, known to the session by `key`."""

    def __init__(self, key: Key, tensor: Tensor) -> None:
        super().__init__(key)
        self.key = key
        self.tensor = tensor


@dataclass(frozen=True)
class Imported:
    """The result: values of the model's outputs.

    Attributes:
        inputs: of the graph, in feeding order.
        checks: what a program of the graph has to look at while it runs.
    """

    inputs: tuple[Tensor, ...]
    outputs: Mapping[str, Value]
    checks: tuple[Check, ...] = ()

    def graph(self, name: str = "main") -> Graph:
        """The tensors among the outputs as a graph."""
        tensors, names = [], []
        for key, value in self.outputs.items():
            found = list(tensors_of(value))
            tensors += found
            names += (
                [key] if isinstance(value, Tensor) else [f"{key}.{k}" for k in range(len(found))]
            )
        return Graph(self.inputs, tensors, names, name)


class Scope:
    """Names and what they stand for; inner scopes see the outer ones."""

    def __init__(self, opsets: Mapping[str, int], path: Key = (), outer: Scope | None = None):
        self.opsets = opsets
        self.path = path
        self.outer = outer
        self.values: dict[str, Value] = {}

    def find(self, name: str) -> Value:
        """The value of a name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise UserError(f"value {name!r} is used, but nothing before it makes it")

    def define(self, name: str, value: Value) -> None:
        """Give a name a value, once."""
        if name in self.values:
            raise UserError(f"value {name!r} is made twice")
        self.values[name] = value


class Importer:
    """One import.

    Args:
        known: values by the keys of `NeedsValue`.
        shapes: of inputs whose extents are symbols, whatever the arrays have.
    """

    def __init__(
        self,
        source: ModelSource,
        known: Mapping[Key, Array],
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.source = source
        self.known = known
        self.shapes = shapes or {}
        self.folder = Folder()
        self.inputs: list[Tensor] = []
        self.checks: list[Check] = []
        self._keys: dict[Tensor, Key] = {}
        self._nodes = 0
        self._depth = 0

    def run(self, inputs: Mapping[str, Datum], wanted: Sequence[str]) -> Imported:
        """Import the main graph.

        Args:
            inputs: for each model input an array of its shape and type. Its contents do not
                matter, except for types that the graph does not compute in.
            wanted: names of the outputs to compute.
        """
        scope = Scope(self.source.opsets)
        given = {name: self._input(name, datum) for name, datum in inputs.items()}
        graph = self.source.graph
        self._initialize(graph, scope, skip=given)
        scope.values.update(given)
        needed = _needed_nodes(graph.node, wanted)
        self._run_nodes([node for k, node in enumerate(graph.node) if k in needed], scope)
        outputs = {name: scope.find(name) for name in wanted}
        return Imported(tuple(self.inputs), outputs, tuple(self.checks))

    def _input(self, name: str, datum: Datum) -> Value:
        if isinstance(datum, list):
            return [self._input(f"{name}.{k}", item) for k, item in enumerate(datum)]
        if datum is None or not is_graph_type(datum.dtype):
            return datum
        tensor = Tensor(TensorType(self.shapes.get(name, datum.shape), dtype(datum.dtype)), name)
        self.inputs.append(tensor)
        return self._resolve((name,), tensor)

    def _initialize(self, graph: GraphProto, scope: Scope, skip: Iterable[str] = ()) -> None:
        folder = self.source.folder
        for proto in graph.initializer:
            if proto.name not in skip:
                scope.define(proto.name, _named(proto.name, value_of(to_array(proto, folder))))
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            if name not in skip:
                scope.define(name, _named(name, value_of(to_dense(sparse, folder))))

    # ------------------------------------------------------------------ nodes

    def _run_nodes(self, nodes: Iterable[NodeProto], scope: Scope) -> None:
        for node in nodes:
            self._nodes += 1
            if self._nodes > MOST_NODES:
                raise UserError(f"loops of the model unroll to more than {MOST_NODES} nodes")
            try:
                results = self._run_node(node, scope)
                self._bind(node, results, scope)
            except UserError as error:
                raise _located(error, node, scope) from error

    def _run_node(self, node: NodeProto, scope: Scope) -> Sequence[Value]:
        domain = normal_domain(node.domain)
        inputs = [scope.find(name) if name else None for name in node.input]
        function = self.source.functions.get((domain, node.op_type))
        if function is not None:
            return self._inline(function, node, inputs, scope)
        version = scope.opsets.get(domain, 0)
        handler = lookup(domain, node.op_type, version)
        if handler is None:
            return self._expand(node, domain, version, inputs, scope)
        call = Call(
            node.op_type,
            domain,
            version,
            inputs,
            list(node.output),
            {a.name: attribute_value(a) for a in node.attribute},
            self._services(node, scope),
        )
        found = handler(call)
        return found if isinstance(found, tuple) else (found,)

    def _bind(self, node: NodeProto, results: Sequence[Value], scope: Scope) -> None:
        for position, name in enumerate(node.output):
            if not name:
                continue
            if position >= len(results):
                raise UnsupportedError(f"output {position} ({name!r}) is not supported")
            value = results[position]
            for tensor in tensors_of(value):
                check_size(tensor)
            key = (*scope.path, name)
            scope.define(name, self._resolve(key, value) if isinstance(value, Tensor) else value)

    def _resolve(self, key: Key, tensor: Tensor) -> Tensor:
        """The tensor to go on with: a constant if its value is known or can be computed."""
        if key in self.known:
            result = constant_of(self.known[key])
        else:
            result = self.folder.fold(tensor)
        result.name = result.name or "/".join(key)
        self._keys.setdefault(result, key)
        return result

    # ------------------------------------------------------------------ what handlers may ask

    def _services(self, node: NodeProto, scope: Scope) -> Services:
        label = _label(node)

        def array(tensor: Tensor) -> Array:
            if self.folder.is_constant(tensor):
                return self.folder.evaluate(tensor)
            key = self._keys.get(tensor)
            if key is None:
                raise UnsupportedError("the value of an intermediate result is needed")
            raise NeedsValue(key, tensor)

        def extents(tensor: Tensor) -> list[Any]:
            found = None
            if self.folder.is_open(tensor):
                found = self.folder.cells(tensor, decide=True)
            result: list[Any] = (array(tensor) if found is None else found).reshape(-1).tolist()
            return result

        def run_graph(graph: GraphProto, values: Sequence[Value], step: str) -> list[Value]:
            inner = Scope(scope.opsets, (*scope.path, label, step), scope)
            return self._run_subgraph(graph, values, inner)

        def array_of(tensor: Tensor) -> Array:
            key = (*scope.path, label, "value")
            if key in self.known:
                return self.known[key]
            if self.folder.is_constant(tensor):
                return self.folder.evaluate(tensor)
            raise NeedsValue(key, tensor)

        read = self.source.folder
        return Services(
            array, extents, array_of, run_graph, lambda proto: to_array(proto, read), self.checks
        )

    def _run_subgraph(
        self, graph: GraphProto, values: Sequence[Value], inner: Scope
    ) -> list[Value]:
        if len(values) != len(graph.input):
            raise UserError(
                f"subgraph {graph.name!r} has {len(graph.input)} inputs, {len(values)} are given"
            )
        self._initialize(graph, inner, [formal.name for formal in graph.input])
        for formal, value in zip(graph.input, values):
            if isinstance(value, Tensor):
                value = self._resolve((*inner.path, formal.name), value)
            inner.define(formal.name, value)
        with _Deeper(self):
            self._run_nodes(graph.node, inner)
        return [inner.find(output.name) for output in graph.output]

    # ------------------------------------------------------------------ functions

    def _expand(
        self, node: NodeProto, domain: str, version: int, inputs: list[Value], scope: Scope
    ) -> Sequence[Value]:
        """A node without a handler, by ONNX's own definition of its operator."""
        body = body_of(node, domain, version, [_type_proto(value) for value in inputs])
        if body is None:
            raise UnsupportedError("these inputs or attributes are not supported")
        return self._inline(body, node, inputs, scope)

    def _inline(
        self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value], scope: Scope
    ) -> Sequence[Value]:
        if len(inputs) > len(function.input):
            raise UserError(f"{len(inputs)} inputs for the {len(function.input)} of the function")
        opsets = {normal_domain(entry.domain): entry.version for entry in function.opset_import}
        inner = Scope({**scope.opsets, **opsets}, (*scope.path, _label(node)))
        padded = [*inputs, *[None] * (len(function.input) - len(inputs))]
        for name, value in zip(function.input, padded):
            inner.define(name, value)
        attributes = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
        results = dict.fromkeys(name for name, used in zip(function.output, node.output) if used)
        needed = _needed_nodes(function.node, results)
        body = [_bind_attributes(function.node[k], attributes) for k in sorted(needed)]
        with _Deeper(self):
            self._run_nodes(body, inner)
        return [inner.find(name) if name in results else None for name in function.output]


def _label(node: NodeProto) -> str:
    """What tells a node from the others of its graph; names of nodes need not."""
    label: str = next((name for name in node.output if name), node.name)
    return label


class _Deeper:
    """Counts how deep calls are nested: functions may call themselves."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    def __enter__(self) -> None:
        if self.importer._depth == 50:
            raise UserError("functions or subgraphs are nested more than 50 deep")
        self.importer._depth += 1

    def __exit__(self, *_: object) -> None:
        self.importer._depth -= 1


def _named(name: str, value: Value) -> Value:
    if isinstance(value, Tensor):
        value.name = value.name or name
    return value


def _needed_nodes(nodes: Sequence[NodeProto], wanted: Iterable[str]) -> set[int]:
    """Positions of the nodes that the wanted names depend on."""
    names, needed = set(wanted), set()
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        if names.intersection(node.output):
            needed.add(position)
            names.update(node.input)
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    names.update(_free_names(graph))
    return needed


def _free_names(graph: GraphProto) -> set[str]:
    """All names that a subgraph mentions; more than those free in it does no harm."""
    names = {output.name for output in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names.update(_free_names(inner))
    return names


def attribute_value(proto: AttributeProto) -> Any:
    """An attribute as a Python value; strings are decoded, messages stay."""
    if proto.ref_attr_name:
        raise UserError(
            f"attribute {proto.name!r} refers to {proto.ref_attr_name!r} of no function"
        )
    try:
        value = helper.get_attribute_value(proto)
    except ValueError as error:
        raise UserError(f"attribute {proto.name!r}: {error}") from None
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if proto.type == AttributeProto.STRINGS:
        return [item.decode("utf-8", errors="replace") for item in value]
    return list(value) if proto.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value


def _bind_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function body with references to the function's attributes replaced."""
    result = NodeProto()
    result.CopyFrom(node)
    del result.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            actual = given.get(attribute.ref_attr_name)
            if actual is None:
                continue
            bound = AttributeProto()
            bound.CopyFrom(actual)
            bound.name = attribute.name
            result.attribute.append(bound)
        else:
            result.attribute.append(_bind_graphs(attribute, given))
    return result


def _bind_graphs(attribute: AttributeProto, given: Mapping[str, AttributeProto]) -> AttributeProto:
    if attribute.type != AttributeProto.GRAPH:
        return attribute
    bound = AttributeProto()
    bound.CopyFrom(attribute)
    del bound.g.node[:]
    bound.g.node.extend(_bind_attributes(node, given) for node in attribute.g.node)
    return bound


def _type_proto(value: Value) -> TypeProto:
    if isinstance(value, list):
        element = _type_proto(value[0]) if value else TypeProto()
        return helper.make_sequence_type_proto(element)
    if value is None:
        return TypeProto()
    kind = value.dtype.numpy if isinstance(value, Tensor) else value.dtype
    shape = [None if is_symbolic(extent) else extent for extent in value.shape]
    return helper.make_tensor_type_proto(elem_type_of(np.dtype(kind)), shape)


def _located(error: UserError, node: NodeProto, scope: Scope) -> TileloomError:
    """The same error, saying at which node; the innermost node speaks for itself."""
    if getattr(error, "located", False):
        return error
    domain = normal_domain(node.domain)
    version = scope.opsets.get(domain, 0)
    name = node.name or (node.output[0] if node.output else "")
    kind = type(error) if isinstance(error, (UnsupportedError, ShapeError)) else UserError
    what = f"{domain}.{node.op_type}" if domain else node.op_type
    result = kind(f"node {name!r} ({what}, opset {version}): {error.message}", hint=error.hint)
    result.located = True  # type: ignore[attr-defined]
    return result
