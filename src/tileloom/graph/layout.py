"""Layouts: which tensors are better kept transposed, so that least is moved by transposes.

A convolution or a graph input fixes the order of its axes; elementwise ops do not care. Where two
orders meet, somebody must transpose. For each permutation that a graph transposes by, all ops that
could work in either order are given the one that moves the fewest bytes in total, which is a
minimum cut between what is fixed to one order and what is fixed to the other.

A tensor whose axes may be permuted belongs to a *family*: itself, and everything that transposes
by the permutation (or back) make of it. A family exists in up to two *versions*, 0 and 1: version
1 is version 0 transposed by the permutation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .mincut import UNCUTTABLE, MinCut
from .nodes import Graph, Node, Tensor
from .op import apply1
from .ops.common import broadcast_shapes
from .symbols import hint

Perm = tuple[int, ...]

#: Ops that work in any order of axes once their attribute `axis` is renamed.
_ALONG_AXES = {"concat", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}


def choose_layouts(graph: Graph) -> Graph:
    """The graph with as few bytes transposed as moving transposes through other ops allows.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import tensor_type
    >>> x = Tensor(tensor_type((2, 8, 8, 3), "float32"), "x")
    >>> y = ops.relu(ops.add(ops.transpose(x, (0, 3, 1, 2)), 1.0))
    >>> better = choose_layouts(Graph([x], [ops.transpose(y, (0, 2, 3, 1))]))
    >>> [node.op.name for node in better.nodes]
    ['constant', 'add', 'relu']
    """
    tried: set[Perm] = set()
    while True:
        perms = sorted({_perm(node) for node in graph.nodes if node.op.name == "transpose"})
        perm = next((perm for perm in perms if perm not in tried), None)
        if perm is None:
            return graph
        tried |= {perm, inverse(perm)}
        graph = _Choice(graph, perm).rewrite()


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes `perm`.

    >>> inverse((0, 3, 1, 2))
    (0, 2, 3, 1)
    """
    return tuple(int(k) for k in np.argsort(perm))


def _perm(node: Node) -> Perm:
    return tuple(node.attrs["perm"])


@dataclass(eq=False)
class _Part:
    """Families between which data flows through ops that work in either order.

    Attributes:
        consistent: whether every tensor of the part is one of two versions.
        better: whether the cut moves fewer bytes than the graph did.
    """

    families: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    consistent: bool = True
    better: bool = False


class _Choice:
    """The choice for one permutation."""

    def __init__(self, graph: Graph, perm: Perm) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.perm, self.back = perm, inverse(perm)
        self.period = 2 if self.perm == self.back else 0
        #: The version that a tensor is, relative to its part.
        self.version: dict[Tensor, int] = {}
        self.part_of: dict[Tensor, _Part] = {}
        self.root: dict[Tensor, Tensor] = {}
        #: Who reads a family (None: an output of the graph), and as which version.
        self.readers: dict[Tensor, list[tuple[Node | None, int]]] = {}
        self.layout: dict[Node, int] = {}
        self.made: dict[tuple[Tensor, int], Tensor] = {}
        self.now: dict[Tensor, Tensor] = {}

    def rewrite(self) -> Graph:
        """The graph with the cheapest layouts."""
        self._find_parts()
        parts = {id(part): part for part in self.part_of.values()}
        for part in parts.values():
            if part.consistent:
                self._cut(part)
        if not any(part.better for part in parts.values()):
            return self.graph
        for tensor in self.graph.inputs:
            self._record(tensor, tensor)
        for node in self.nodes:
            self._rebuild(node)
        outputs = [self._natural(tensor) for tensor in self.graph.outputs]
        return Graph(self.graph.inputs, outputs, self.graph.output_names, self.graph.name)

    # ------------------------------------------------------------------ families and parts

    def _step(self, node: Node) -> int | None:
        """How many versions further a node takes a tensor, if that is all it does."""
        if node.op.name != "transpose":
            return None
        return 1 if _perm(node) == self.perm else -1 if _perm(node) == self.back else None

    def is_flexible(self, node: Node) -> bool:
        """Whether a node works in any order of the axes."""
        rank = len(self.perm)
        out = node.outputs[0]
        if len(node.outputs) != 1 or out.ndim != rank:
            return False
        if node.op.name in _ALONG_AXES:
            return node.inputs[0].ndim == rank and node.attrs.get("keepdims", True)
        if node.op.kind != "elementwise" or "axis" in node.attrs:
            return False
        return broadcast_shapes(*(t.shape for t in node.inputs)) == out.shape

    def full(self, node: Node) -> list[Tensor]:
        """The operands of a flexible node that have all axes."""
        return [t for t in node.inputs if t.ndim == len(self.perm) and t.value is None]

    def _find_parts(self) -> None:
        links: dict[Tensor, list[tuple[Tensor, int]]] = {}
        for node in self.nodes:
            step = self._step(node)
            out = node.outputs[0]
            if step is not None:
                source = node.inputs[0]
                self.root[out] = self.root.get(source, source)
                related = [(source, step)]
            elif self.is_flexible(node):
                related = [(tensor, 0) for tensor in self.full(node)]
            else:
                continue
            for tensor, distance in related:
                links.setdefault(tensor, []).append((out, distance))
                links.setdefault(out, []).append((tensor, -distance))
        for start in links:
            if start not in self.part_of:
                self._explore(start, links)
        for node in self.nodes:
            part = self.part_of.get(node.outputs[0])
            if part is not None and (self._step(node) is not None or self.is_flexible(node)):
                part.nodes.append(node)
            if self._step(node) is None:
                self._read(node.inputs, node)
        self._read(self.graph.outputs, None)

    def _read(self, tensors: Iterable[Tensor], reader: Node | None) -> None:
        for tensor in tensors:
            if tensor in self.part_of:
                family = self.root.get(tensor, tensor)
                self.readers.setdefault(family, []).append((reader, self.version[tensor]))

    def _explore(self, start: Tensor, links: dict[Tensor, list[tuple[Tensor, int]]]) -> None:
        part = _Part()
        self.part_of[start] = part
        self.version[start] = 0
        stack, found = [start], [start]
        while stack:
            tensor = stack.pop()
            for other, distance in links[tensor]:
                version = self._wrapped(self.version[tensor] + distance)
                if other not in self.version:
                    self.version[other], self.part_of[other] = version, part
                    stack.append(other)
                    found.append(other)
                elif self.version[other] != version:
                    part.consistent = False
        lowest = min(self.version[tensor] for tensor in found)
        for tensor in found:
            self.version[tensor] -= lowest
            part.consistent &= self.version[tensor] <= 1
        part.families = [tensor for tensor in found if tensor not in self.root]

    def _wrapped(self, version: int) -> int:
        return version % self.period if self.period else version

    # ------------------------------------------------------------------ choosing

    def _cut(self, part: _Part) -> None:
        """Choose the layout of every flexible node of a part."""
        net = MinCut()
        where: dict[Node | None, int] = {
            node: net.node() for node in part.nodes if self._step(node) is None
        }
        ends = (net.source, net.sink)
        for family in part.families:
            maker = where.get(family.node, ends[self.version[family]])
            found = {where.get(node, ends[v]) for node, v in self.readers.get(family, ())}
            self._price(net, maker, sorted(found), 2 * hint(family.type.nbytes))
        moved = sum(
            2 * hint(n.outputs[0].type.nbytes) for n in part.nodes if self._step(n) is not None
        )
        part.better = net.solve() < moved
        if part.better:
            for node in part.nodes:
                if node in where:
                    self.layout[node] = 0 if net.on_source_side(where[node]) else 1

    @staticmethod
    def _price(net: MinCut, maker: int, readers: Iterable[int], cost: int) -> None:
        """The cost of a second version, paid once if any reader is not on the maker's side."""
        others = [reader for reader in readers if reader != maker]
        if others:
            ahead, behind = net.node(), net.node()
            net.edge(maker, ahead, cost)
            net.edge(behind, maker, cost)
            for reader in others:
                net.edge(ahead, reader, UNCUTTABLE)
                net.edge(reader, behind, UNCUTTABLE)

    # ------------------------------------------------------------------ rebuilding

    def _is_chosen(self, tensor: Tensor) -> bool:
        part = self.part_of.get(tensor)
        return part is not None and part.better

    def _record(self, old: Tensor, new: Tensor, version: int | None = None) -> None:
        """`new` is what `old` was, or another version of it."""
        if self._is_chosen(old):
            self.made[old, self.version[old] if version is None else version] = new
        else:
            self.now[old] = new

    def _in_version(self, tensor: Tensor, version: int) -> Tensor:
        """A version of a family, transposed from the other one where it is missing."""
        family = self.root.get(tensor, tensor)
        found = self.made.get((family, version))
        if found is None:
            other = self.made[family, 1 - version]
            found = apply1("transpose", [other], perm=self.perm if version else self.back)
            self.made[family, version] = found
        return found

    def _natural(self, tensor: Tensor) -> Tensor:
        """A tensor of the old graph in the new one."""
        if self._is_chosen(tensor):
            return self._in_version(tensor, self.version[tensor])
        return self.now.get(tensor, tensor)

    def _rebuild(self, node: Node) -> None:
        out = node.outputs[0]
        if self._step(node) is not None and self._is_chosen(out):
            return  # a version that is made when somebody asks for it
        layout = self.layout.get(node)
        if layout is None:
            self._rebuild_as_it_is(node)
        elif layout == self.version[out]:
            inputs = [self._operand(node, tensor, layout, None) for tensor in node.inputs]
            self._record(out, apply1(node.op.name, inputs, **node.attrs))
        else:
            perm = self.perm if layout else self.back
            inputs = [self._operand(node, tensor, layout, perm) for tensor in node.inputs]
            self._record(out, apply1(node.op.name, inputs, **_renamed(node, perm)), layout)

    def _rebuild_as_it_is(self, node: Node) -> None:
        fresh = node.over([self._natural(tensor) for tensor in node.inputs])
        for old, new in zip(node.outputs, fresh.outputs, strict=True):
            self._record(old, new)

    def _operand(self, node: Node, tensor: Tensor, layout: int, perm: Perm | None) -> Tensor:
        """An operand of a node that works in `layout`; `perm` if its own order is another."""
        if self.part_of.get(tensor) is self.part_of[node.outputs[0]]:
            return self._in_version(tensor, layout)
        here = self._natural(tensor)
        if perm is None or all(extent == 1 for extent in here.shape):
            return here
        shape = (1,) * (len(perm) - here.ndim) + here.shape
        wide = here if here.shape == shape else apply1("reshape", [here], shape=shape)
        return apply1("transpose", [wide], perm=perm)


def _renamed(node: Node, perm: Perm) -> dict[str, Any]:
    """The attributes of a node whose axes are permuted."""
    if node.op.name not in _ALONG_AXES:
        return dict(node.attrs)
    axis, rank = node.attrs["axis"], len(perm)
    if axis is None:
        return dict(node.attrs)
    if isinstance(axis, int):
        return {**node.attrs, "axis": perm.index(axis % rank)}
    return {**node.attrs, "axis": tuple(sorted(perm.index(k % rank) for k in axis))}
