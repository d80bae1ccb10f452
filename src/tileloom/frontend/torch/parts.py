"""A traced graph cut into parts that Tileloom compiles and operators left to PyTorch.

Parts and PyTorch take turns, as few as there can be (`graph.turns.Turns`): running part 0,
PyTorch's operators of level 0, part 1, ... respects all dependences. Views and operators without
tensor arguments cost nothing or little: each part makes its own of those it reads, and outside
PyTorch makes them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ...base.errors import InternalError, TileloomError, UnsupportedError
from ...graph import ops
from ...graph.nodes import Tensor, TensorType
from ...graph.turns import Turns
from . import registry
from .call import Call
from .layout import order_of
from .place import place_of
from .sizes import NumbersNeededError, TracedSizes, need_numbers
from .types import is_static

#: Operators whose result shares its argument's memory.
VIEWS = frozenset({
    "aten.alias.default", "aten.detach.default", "aten.diagonal.default", "aten.expand.default",
    "aten.permute.default", "aten.select.int", "aten.slice.Tensor", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.t.default", "aten.transpose.int",
    "aten.unsqueeze.default", "aten.view.default", "aten.as_strided.default",
})  # fmt: skip
#: The same with several results, each of which is such a view.
SPLITS = frozenset({"aten.split.Tensor", "aten.split_with_sizes.default"})


class Part:
    """A part that is compiled.

    Attributes:
        inputs: values from outside by their nodes, in the order of dimensions that memory has.
        orders: that order, where it is not that of the value.
        values: what was made of nodes: tensors, or tuples of them.
        exports: nodes whose values are wanted outside.
    """

    def __init__(self) -> None:
        self.inputs: dict[fx.Node, Tensor] = {}
        self.orders: dict[fx.Node, tuple[int, ...]] = {}
        self.values: dict[fx.Node, Any] = {}
        self.exports: dict[fx.Node, None] = {}


class FxPartition:
    """Where each node of a graph went.

    Attributes:
        parts: by level.
        eager: PyTorch's operators by level, in their order.
        sizes: what the sizes in the graph are.
        compiled: how often operators are in parts.
        left: operators left to PyTorch, and why.
    """

    def __init__(self, graph: fx.Graph, sizes: TracedSizes) -> None:
        self.graph = graph
        self.place = place_of(graph)
        self.sizes = sizes
        self.parts: dict[int, Part] = {}
        self.eager: dict[int, list[fx.Node]] = {}
        self.compiled: Counter[str] = Counter()
        self.left: list[tuple[str, str]] = []
        self._turns: Turns[fx.Node] = Turns()  # of those that run, not of inputs and literals
        for node in graph.nodes:
            if node.op == "call_function" and not is_literal(node) and not self.is_size(node):
                self._place(node)

    @property
    def levels(self) -> Iterator[int]:
        """In the order in which they run."""
        return iter(sorted({*self.parts, *self.eager}))

    # ------------------------------------------------------------------ placing

    def _place(self, node: fx.Node) -> None:
        sources = list(map(self.base, node.all_input_nodes))
        level = self._turns.ready(sources)
        try:
            self._convert(self.parts.setdefault(level, Part()), node)
        except NumbersNeededError:
            raise
        except Exception as error:  # whatever goes wrong here, PyTorch can do it
            if _makes_tensors(node):
                self.left.append((name_of(node), reason(error)))
            # As early as it can: what reads inputs alone runs before everything, on level -1.
            level = self._turns.other(node, sources, has_effect(node))
            self.eager.setdefault(level, []).append(node)
            return
        self._turns.native(node, sources)
        if not is_getitem(node):
            self.compiled[name_of(node)] += 1

    def base(self, node: fx.Node) -> fx.Node:
        """The node whose value must exist for this one: what a compiled view is a view of."""
        while self.is_native(node) and is_view(node):
            node = node.all_input_nodes[0]
        return node

    def is_native(self, node: fx.Node) -> bool:
        """Whether Tileloom makes the value."""
        return self._turns.is_native(node)

    def level(self, node: fx.Node) -> int:
        """The level of an operator."""
        return self._turns.level[node]

    def is_size(self, node: fx.Node) -> bool:
        """Whether a node is a symbolic number that follows from the sizes of the arguments."""
        return self.sizes.holds(node.meta.get("val"))

    # ------------------------------------------------------------------ converting

    def _convert(self, part: Part, node: fx.Node) -> None:
        self.place.check(node)
        if is_getitem(node):
            self._pick(part, node)
            return
        handler = registry.lookup(name_of(node))
        if handler is None:
            raise UnsupportedError("there is no rule for this operator")
        args, kwargs = self._arguments(part, (node.args, node.kwargs))
        try:
            part.values[node] = applied(handler, node, self.sizes, args, kwargs)
        except NumbersNeededError:
            raise
        except Exception as error:
            if self.sizes.space is not None:
                self._want_numbers(handler, node, args, kwargs, reason(error))
            raise

    def _want_numbers(
        self, handler: registry.Handler, node: fx.Node, args: Any, kwargs: Any, why: str
    ) -> None:
        """Ask for numbers in place of the symbols that a node sees, if that would help."""
        hints = self.sizes.at_hints()

        def numbers(value: Any) -> Any:
            if isinstance(value, Tensor):
                return Tensor(TensorType(hints.number(value.shape), value.dtype))
            if isinstance(value, (list, tuple)):
                return [numbers(item) for item in value]
            return hints.number(value)

        applied(handler, node, hints, numbers(args), {k: numbers(v) for k, v in kwargs.items()})
        need_numbers([*shapes_of(args), *shapes_of(kwargs)], f"{name_of(node)}: {why}")

    def _pick(self, part: Part, node: fx.Node) -> None:
        source, index = node.args
        if not self.is_native(source):
            raise UnsupportedError("its operator is left to PyTorch")
        if source not in part.values:
            self._convert(part, source)
        part.values[node] = part.values[source][index]

    def _arguments(self, part: Part, args: Any) -> Any:
        def argument(value: Any) -> Any:
            if isinstance(value, fx.Node):
                if self.is_size(value):
                    return self.sizes.scalar(value.meta["val"])
                return literal(value) if is_literal(value) else self.tensor(part, value)
            if isinstance(value, (list, tuple)):
                return [argument(item) for item in value]
            if isinstance(value, dict):
                return {key: argument(item) for key, item in value.items()}
            return value

        return argument(args)

    def tensor(self, part: Part, node: fx.Node) -> Tensor:
        """A node's value inside a part."""
        if node not in part.values:
            if self.is_native(node) and (is_view(node) or is_creation(node)):
                self._convert(part, node)
            else:
                part.values[node] = self._take(part, node)
        found: Tensor = part.values[node]
        return found

    def _take(self, part: Part, node: fx.Node) -> Tensor:
        """An input, so that a tensor with its dimensions in another order needs no copy."""
        self.place.check(node)
        value = node.meta.get("val")
        type_ = self.sizes.type_of(value)
        strides = self.sizes.strides(value)
        order = None if strides is None else order_of(type_.shape, strides)
        if order is None or order == tuple(range(len(order))):
            part.inputs[node] = Tensor(type_, node.name)
            return part.inputs[node]
        part.orders[node] = order
        stored = TensorType(tuple(type_.shape[k] for k in order), type_.dtype)
        part.inputs[node] = Tensor(stored, node.name)
        return ops.transpose(part.inputs[node], [order.index(k) for k in range(len(order))])


def applied(
    handler: registry.Handler, node: fx.Node, sizes: TracedSizes, args: Any, kwargs: Any
) -> Any:
    """What a handler gives for a node, which is what PyTorch traced."""
    value = node.meta.get("val")
    fakes = fx.map_arg(node.args, lambda source: source.meta.get("val"))
    call = Call(name_of(node), fakes, value, sizes)
    wanted = call.types
    made = handler(call, *args, **kwargs)
    results = made if isinstance(made, tuple) else (made,)
    present = [result for result in results if result is not None]
    for result, type_ in zip(present, wanted, strict=True):
        if result.type != type_:
            raise InternalError(f"{call.name} gives {type_}, its rule {result.type}")
    return made if isinstance(value, (list, tuple)) else results[0]


def shapes_of(values: Any) -> Iterator[Any]:
    """The extents in a nest of arguments: those of tensors, and numbers by themselves."""
    if isinstance(values, dict):
        values = list(values.values())
    for value in values:
        if isinstance(value, Tensor):
            yield from value.shape
        elif isinstance(value, (list, tuple)):
            yield from shapes_of(value)
        else:
            yield value


def _makes_tensors(node: fx.Node) -> bool:
    """Whether a node is an operator on tensors, not one on sizes nor the choice of a result."""
    values = node.meta.get("val")
    several = values if isinstance(values, (list, tuple)) else [values]
    return not is_getitem(node) and any(isinstance(v, torch.Tensor) for v in several)


def reason(error: Exception) -> str:
    """An error as the report shows it."""
    if isinstance(error, TileloomError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def name_of(node: fx.Node) -> str:
    """The full name of what a node calls: "aten.add.Tensor"."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return getattr(target, "__name__", str(target))


def is_getitem(node: fx.Node) -> bool:
    """Whether a node picks a result of an operator."""
    return node.target is operator.getitem


def is_view(node: fx.Node) -> bool:
    """Whether a node's result shares its argument's memory."""
    if node.op != "call_function":
        return False
    if is_getitem(node):
        return is_split(node.all_input_nodes[0])
    return name_of(node) in VIEWS or is_split(node)


def is_split(node: fx.Node) -> bool:
    """Whether a node's results are all views of its argument."""
    return node.op == "call_function" and name_of(node) in SPLITS


def is_creation(node: fx.Node) -> bool:
    """Whether a node makes its result from nothing."""
    return not any(isinstance(s.meta.get("val"), torch.Tensor) for s in node.all_input_nodes)


def is_literal(node: fx.Node) -> bool:
    """Whether a node's value is a Python number known while compiling."""
    value = node.meta.get("val")
    return isinstance(value, (bool, int, float)) and is_static(value)


def literal(node: fx.Node) -> bool | int | float:
    """The number that a node stands for."""
    value: bool | int | float = node.meta["val"]
    return value


def has_effect(node: fx.Node) -> bool:
    """Whether the order among such operators matters: randomness, mutation, output."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        random = torch.Tag.nondeterministic_seeded in target.tags
        return random or bool(target._schema.is_mutable)
    return not is_getitem(node)
