"""The parts of a partition compiled, and joined with PyTorch's operators into one function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import fx

from ...base.errors import UnsupportedError
from ...graph.nodes import Graph, reachable
from ...graph.symbols import is_symbolic, polynomial_of
from .frozen import FrozenPart, freeze
from .kernel import CompiledPart
from .layout import Export, export, order_of
from .parts import FxPartition, Part, is_literal, is_split, is_view, literal
from .place import Place
from .report import notice_of, report
from .sized import Numbers, SizedPart, is_sized
from .sizes import Binding, TracedSizes, need_numbers_of

#: What the metadata of a placeholder has where the tensor is a weight that is prepared once.
STATIC = "tileloom_static"
_aten = torch.ops.aten
_BY_SHAPE = {
    _aten.rand_like.default: _aten.rand.default,
    _aten.randn_like.default: _aten.randn.default,
}
#: A tensor that Tileloom made may have other strides than a view could be taken of.
_SAFE = {
    _aten.view.default: _aten.reshape.default,
    _aten._unsafe_view.default: _aten.reshape.default,
}


def assemble(
    module: fx.GraphModule, sizes: TracedSizes | None = None, binding: Binding | None = None
) -> fx.GraphModule:
    """A module that computes the same, with compiled parts.

    Args:
        module: a functional graph of ATen operators, traced with values in `meta["val"]`.
        sizes: what symbolic sizes in it are, where there are some that are not to stay PyTorch's.
        binding: where the symbols come from.
    """
    known = sizes or TracedSizes()
    _forget_values(module.graph, known)
    partition = FxPartition(module.graph, known)
    if known.space is not None:
        need_numbers_of(known.space)
    report().add(partition.compiled, partition.left)
    notice_of(module.graph).give(partition.left, partition.compiled.total())
    return _Joiner(module, partition, binding).join()


def _forget_values(graph: fx.Graph, sizes: TracedSizes) -> None:
    """Random operators take a shape instead of the tensor that has it.

    Then they can run first, and do not cut what makes that tensor from what reads it.
    """
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.target in _BY_SHAPE and _is_compact(value, sizes):
            options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
            with graph.inserting_before(node):
                shape = [_size(graph, node.args[0], k, n) for k, n in enumerate(value.shape)]
            node.target, node.args = _BY_SHAPE[node.target], (shape,)
            node.kwargs = options


def _is_compact(value: Any, sizes: TracedSizes) -> bool:
    try:
        type_, strides = sizes.type_of(value), sizes.strides(value)
    except UnsupportedError:
        return False
    return strides is not None and order_of(type_.shape, strides) == tuple(range(len(strides)))


def _size(graph: fx.Graph, source: Any, axis: int, size: Any) -> Any:
    """A size as an argument: the number, or a node that stands for it."""
    if isinstance(size, int):
        return size
    node = graph.call_function(_aten.sym_size.int, (source, axis))
    node.meta["val"] = size
    return node


class _Joiner:
    def __init__(
        self, module: fx.GraphModule, partition: FxPartition, binding: Binding | None
    ) -> None:
        self.module = module
        self.partition = partition
        self.sizes = partition.sizes
        self.binding = binding
        self.symbols: tuple[fx.Node, ...] = ()
        self.given: dict[int, fx.Node] = {}  # nodes of extents that are arguments
        self.numbers = Numbers(binding)
        self.graph = fx.Graph()
        self.made: dict[fx.Node, fx.Node] = {}
        self.outputs = [node for node in module.graph.nodes if node.op == "output"]

    def join(self) -> fx.GraphModule:
        self._find_exports()
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.made[node] = self.graph.node_copy(node)
        self._bind()
        for level in self.partition.levels:
            part = self.partition.parts.get(level)
            if part is not None and part.exports:
                self._add_part(part)
            for node in self.partition.eager.get(level, ()):
                self._add_eager(node)
        for node in self.outputs:
            self.graph.output(fx.map_arg(node.args[0], self._outside))
        if not self.computed.users:
            self.graph.erase_node(self.computed)
        return fx.GraphModule(self.module, self.graph)

    # ------------------------------------------------------------------ sizes

    def _bind(self) -> None:
        """Nodes for the numbers that the symbols are, from the arguments."""
        given = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        found = []
        for each in () if self.binding is None else self.binding.symbols:
            node = self.made[given[each.source.argument]]
            if each.source.axis is not None:
                node = self.graph.call_function(_aten.sym_size.int, (node, each.source.axis))
            found.append(node)
        self.symbols = tuple(found)
        self.given = {
            self.sizes.extent(node.meta["val"]): self.made[node]
            for node in given
            if isinstance(node.meta["val"], torch.SymInt) and self.partition.is_size(node)
        }
        self.computed = self.graph.call_function(self.numbers, (self.symbols,))

    def _number(self, extent: int) -> Any:
        """An extent in the joined graph."""
        if not is_symbolic(extent):
            return extent
        if extent in self.given:
            return self.given[extent]
        place = self.numbers.place(polynomial_of(extent))
        return self.graph.call_function(operator.getitem, (self.computed, place))

    # ------------------------------------------------------------------ what leaves the parts

    def _find_exports(self) -> None:
        """From the end to the beginning, as a part without exports needs no inputs."""
        for node in self.outputs:
            self._want(node)
        for level in reversed(list(self.partition.levels)):
            for node in self.partition.eager.get(level, ()):
                self._want(node)
            part = self.partition.parts.get(level)
            if part is not None and part.exports:
                for source in self._read(part):
                    self._export(source)

        for part in self.partition.parts.values():
            for node in [n for n in part.exports if is_view(n)]:
                if self._exists(node.all_input_nodes[0]):
                    del part.exports[node]

    def _exists(self, node: fx.Node) -> bool:
        """Whether a value can be had outside without computing more."""
        if not self.partition.is_native(node) or node in self._home(node).exports:
            return True
        return is_view(node) and self._exists(node.all_input_nodes[0])

    def _want(self, node: fx.Node) -> None:
        for source in node.all_input_nodes:
            if not is_literal(source):
                self._export(source)

    def _export(self, node: fx.Node) -> None:
        if not self.partition.is_native(node):
            return
        if self._is_outer_view(node):
            self._export(node.all_input_nodes[0])
        else:
            self._home(node).exports[node] = None

    def _home(self, node: fx.Node) -> Part:
        return self.partition.parts[self.partition.level(node)]

    def _is_outer_view(self, node: fx.Node) -> bool:
        """Whether PyTorch makes this view: if what it views exists anyway, or is as large."""
        if not is_view(node):
            return False
        source = node.all_input_nodes[0]
        if is_split(node) or not self.partition.is_native(self.partition.base(node)):
            return True
        if is_split(source):
            return False
        before, after = (self.sizes.type_of(n.meta["val"]).size for n in (source, node))
        return before == after

    def _read(self, part: Part) -> list[fx.Node]:
        """The inputs that the exports depend on."""
        wanted = [part.values[node] for node in part.exports]
        used = {tensor for node in reachable(wanted) for tensor in node.inputs} | set(wanted)
        return [node for node, tensor in part.inputs.items() if tensor in used]

    # ------------------------------------------------------------------ the joined graph

    def _outside(self, node: fx.Node) -> Any:
        """A node's value in the joined graph."""
        if is_literal(node):
            return literal(node)
        if node not in self.made:
            value = node.meta.get("val")
            is_extent = isinstance(value, torch.SymInt) and self.sizes.holds(value)
            self.made[node] = (
                self._number(self.sizes.extent(value)) if is_extent else self._copy(node)
            )
        return self.made[node]

    def _copy(self, node: fx.Node) -> fx.Node:
        copied = self.graph.node_copy(node, self._outside)
        copied.target = _SAFE.get(copied.target, copied.target)
        return copied

    def _add_eager(self, node: fx.Node) -> None:
        self.made[node] = self._copy(node)

    def _add_part(self, part: Part) -> None:
        inputs, nodes = self._read(part), list(part.exports)
        exports = [
            export(part.values[node], self.sizes.strides(node.meta["val"])) for node in nodes
        ]
        graph = Graph([part.inputs[node] for node in inputs], [item.tensor for item in exports])
        report().parts += 1
        run = self._compile(part, graph, exports, inputs)
        stored = tuple(self._stored(part, node) for node in inputs)
        inner = run.rest if isinstance(run, FrozenPart) else run
        sized = (self.symbols, *stored) if isinstance(inner, SizedPart) else stored
        made = self.graph.call_function(run, sized)
        for k, node in enumerate(nodes):
            self.made[node] = self.graph.call_function(operator.getitem, (made, k))

    def _stored(self, part: Part, node: fx.Node) -> Any:
        """An input with its dimensions in the order that memory has."""
        value, order = self._outside(node), part.orders.get(node)
        if order is None:
            return value
        return self.graph.call_method("permute", (value, order))

    def _compile(
        self, part: Part, graph: Graph, exports: list[Export], inputs: list[fx.Node]
    ) -> Callable[..., Any]:
        made_by_torch = [
            k
            for k, node in enumerate(inputs)
            if node.op == "call_function" and not self.partition.is_native(node)
        ]
        static = [
            k for k, node in enumerate(inputs) if STATIC in node.meta and node not in part.orders
        ]
        binding = self.binding if self.binding is not None and is_sized(graph) else None
        place = self.partition.place
        compile_ = partial(_compiled, exports, binding, place)
        try:
            if static and place.prepares_weights:
                return cast("Callable[..., Any]", freeze(graph, static, made_by_torch, compile_))
            return compile_(graph, made_by_torch)
        except Exception as error:  # a defect of ours must not stop the user
            if binding is not None:  # another program is tried
                raise
            notice_of(self.module.graph).give_up("a whole part", f"{type(error).__name__}: {error}")
            return EagerPart(part, inputs)


def _compiled(
    exports: list[Export],
    binding: Binding | None,
    place: Place,
    graph: Graph,
    made_by_torch: Sequence[int],
) -> Callable[..., Any]:
    if binding is not None:
        return SizedPart(graph, exports, made_by_torch, binding, place)
    return CompiledPart(graph, exports, made_by_torch, place)


class EagerPart:
    """A part that could not be compiled, run by PyTorch."""

    def __init__(self, part: Part, inputs: list[fx.Node]) -> None:
        self.__name__ = "eager_part"
        graph = fx.Graph()
        made: dict[fx.Node, Any] = {node: graph.placeholder(node.name) for node in inputs}
        for node, order in part.orders.items():
            if node in made:
                back = [order.index(k) for k in range(len(order))]
                made[node] = graph.call_function(_aten.permute.default, (made[node], back))

        def value(node: fx.Node) -> Any:
            if is_literal(node):
                return literal(node)
            if node not in made:
                made[node] = graph.node_copy(node, value)
            return made[node]

        graph.output(tuple(value(node) for node in part.exports))
        self._run = fx.GraphModule(torch.nn.Module(), graph).forward

    def __call__(self, *tensors: torch.Tensor) -> Any:
        return self._run(*tensors)
