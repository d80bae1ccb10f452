"""Which nodes share a kernel.

Nodes are taken in order; each joins the group of a producer where that saves a trip through memory
and breaks no rule, else it starts a group. The rules, by what the group holds already:

- formulas only: any formula may join, and one family of reductions over what they compute;
- reductions over one domain: reductions over the same axes of the same domain, and formulas over
  the domain or over its rows;
- a matrix product or convolution: formulas over its result, as its epilogue.

Groups never depend on each other in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .nodes import Graph, Node, Tensor

GroupKind = Literal["formulas", "reductions", "matmul", "conv", "alone"]

#: More nodes or operands than this in a kernel cost compile time and registers for little gain.
MAX_NODES = 64
MAX_OPERANDS = 32

_WINDOWS = {"max_pool", "sum_pool", "max_pool_with_indices"}
_CHEAP = {
    "neg", "abs", "sign", "square", "relu", "logical_not", "bitwise_invert", "add", "sub", "mul",
    "minimum", "maximum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    "where", "cast", "reshape", "broadcast_to", "transpose", "slice", "constant", "iota",
}  # fmt: skip


@dataclass(eq=False)
class Group:
    """Nodes that become one kernel (or one call of a NumPy reference, for `alone`)."""

    kind: GroupKind
    nodes: list[Node]
    #: Of reductions: the shape reduced and the axes.
    domain: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    before: int = 0  # the groups that this one needs, directly or not, as a set of bits
    bit: int = field(default=0)

    @property
    def anchor(self) -> Node:
        """The matrix product, the convolution, or the first node."""
        return self.nodes[0]

    @property
    def is_view(self) -> bool:
        """Whether nothing is computed: the elements stay where they are."""
        return all(node.op.name == "reshape" for node in self.nodes)

    def __repr__(self) -> str:
        return f"Group({self.kind}: {' '.join(node.op.name for node in self.nodes)})"


def partition(graph: Graph) -> list[Group]:
    """The groups of a graph without composite ops, in an order in which they can run."""
    return _Partition(graph).run()


class _Partition:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.group_of: dict[Node, Group] = {}
        self.groups: list[Group] = []
        self.count = 0
        self.wanted = set(graph.outputs)
        self.readers: dict[Tensor, list[Node]] = {}
        for node in self.nodes:
            for tensor in node.inputs:
                self.readers.setdefault(tensor, []).append(node)

    def run(self) -> list[Group]:
        for node in self.nodes:
            if node.op.name == "constant":
                continue
            self._place(node)
        self._finish()
        return _in_order(self.groups)

    def _place(self, node: Node) -> None:
        producers = self._producers(node)
        for group in sorted(producers, key=lambda g: -g.nodes[-1].serial):
            if self._may_join(node, group):
                self._join(node, group)
                self._merge_others(group, producers - {group})
                return
        kind = _kind(node)
        group = Group(kind, [node], domain_of(node), bit=1 << self.count)
        self.count += 1
        group.before = _union(p.before | p.bit for p in producers)
        self.groups.append(group)
        self.group_of[node] = group

    def _producers(self, node: Node) -> set[Group]:
        return {
            self.group_of[tensor.node]
            for tensor in node.inputs
            if tensor.node is not None and tensor.node in self.group_of
        }

    # ------------------------------------------------------------------ rules

    def _may_join(self, node: Node, group: Group) -> bool:
        if len(group.nodes) >= MAX_NODES or _operands([*group.nodes, node]) > MAX_OPERANDS:
            return False
        others = self._producers(node) - {group}
        if any(other.before & group.bit for other in others):
            return False  # what the node also needs comes after the group
        return suits(node, group)

    def _join(self, node: Node, group: Group) -> None:
        others = self._producers(node) - {group}
        group.nodes.append(node)
        self.group_of[node] = group
        if _kind(node) == "reductions":
            group.kind, group.domain = "reductions", domain_of(node)
        self._now_needs(group, _union(p.before | p.bit for p in others))

    def _now_needs(self, group: Group, bits: int) -> None:
        if not bits & ~group.before:
            return
        group.before |= bits
        for other in self.groups:
            if other.before & group.bit:
                other.before |= bits

    def _merge_others(self, group: Group, others: set[Group]) -> None:
        """Groups of formulas whose only purpose was this group's new node join it too."""
        for other in sorted(others, key=lambda g: g.nodes[0].serial):
            if not self._may_merge(other, group):
                continue
            group.nodes = sorted([*other.nodes, *group.nodes], key=lambda n: n.serial)
            if group.kind in ("matmul", "conv"):
                group.nodes.sort(key=lambda n: _kind(n) != group.kind)
            for node in other.nodes:
                self.group_of[node] = group
            self.groups.remove(other)
            before = other.before & ~other.bit
            self._now_needs(group, before)
            self._replace_bit(other.bit, group.bit)

    def _may_merge(self, other: Group, group: Group) -> bool:
        nodes = [*other.nodes, *group.nodes]
        if other.kind != "formulas" or len(nodes) > MAX_NODES or _operands(nodes) > MAX_OPERANDS:
            return False
        if not self._feeds_only(other, nodes) or self._between(other, group):
            return False
        product = group.kind in ("matmul", "conv")
        # A product's operands are read many times: they are made before it.
        if product and any(tensor.node in other.nodes for tensor in group.anchor.inputs):
            return False
        return all(suits(node, group) for node in other.nodes)

    def _feeds_only(self, other: Group, nodes: Sequence[Node]) -> bool:
        inside = set(nodes)
        made = [tensor for node in other.nodes for tensor in node.outputs]
        return not any(
            tensor in self.wanted or not inside.issuperset(self.readers.get(tensor, ()))
            for tensor in made
        )

    def _between(self, other: Group, group: Group) -> bool:
        return any(g.before & other.bit and group.before & g.bit for g in self.groups)

    def _replace_bit(self, old: int, new: int) -> None:
        for group in self.groups:
            if group.before & old:
                group.before &= ~old
                if group.bit != new:
                    group.before |= new

    # ------------------------------------------------------------------ results

    def _finish(self) -> None:
        for group in self.groups:
            inside = set(group.nodes)
            group.inputs = tuple(_outside(group.nodes))
            group.outputs = tuple(
                tensor
                for node in group.nodes
                for tensor in node.outputs
                if tensor in self.wanted or not inside.issuperset(self.readers.get(tensor, ()))
            )


def _outside(nodes: Sequence[Node]) -> dict[Tensor, None]:
    """What the nodes read and do not make, in order."""
    inside = set(nodes)
    return {t: None for node in nodes for t in node.inputs if t.node not in inside}


def _operands(nodes: Sequence[Node]) -> int:
    """How many arrays a kernel of these nodes reads; single numbers are written into its code."""
    return sum(t.value is None or t.type.size > 1 for t in _outside(nodes))


def _union(bits: Iterable[int]) -> int:
    result = 0
    for each in bits:
        result |= each
    return result


def _in_order(groups: Sequence[Group]) -> list[Group]:
    done, order, waiting = 0, [], sorted(groups, key=lambda g: g.nodes[0].serial)
    everything = _union(group.bit for group in groups)
    while waiting:
        ready = next(g for g in waiting if not g.before & everything & ~done)
        waiting.remove(ready)
        order.append(ready)
        done |= ready.bit
    return order


def _kind(node: Node) -> GroupKind:
    if node.op.compute is None:
        return "alone"
    match node.op.kind:
        case "elementwise" | "injective":
            return "formulas"
        case "reduction":
            return "reductions" if domain_of(node) is not None else "alone"
        case "matmul":
            return "matmul"
        case "conv":
            return "conv"
        case _:
            return "alone"


def domain_of(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape that a plain reduction reduces and its axes, extents of 1 left out."""
    if node.op.kind != "reduction" or node.op.name in _WINDOWS:
        return None
    shape = node.inputs[0].shape
    axis = node.attrs.get("axis")
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    reduced = {a % len(shape) for a in axes} if shape else set()
    live = [k for k, extent in enumerate(shape) if extent != 1]
    return (
        tuple(shape[k] for k in live),
        tuple(position for position, k in enumerate(live) if k in reduced),
    )


def _live(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


def suits(node: Node, group: Group) -> bool:
    """Whether a node may be computed in the kernel of a group, dependences aside."""
    kind = _kind(node)
    if kind in ("alone", "matmul", "conv") or group.kind == "alone":
        return False
    if group.kind in ("matmul", "conv"):
        return node.op.kind == "elementwise" and node.outputs[0].shape == (
            group.anchor.outputs[0].shape
        )
    if group.kind == "reductions":
        return _suits_domain(node, kind, group)
    if kind == "reductions":
        domain = domain_of(node)
        whole = domain is not None and all(
            _live(n.outputs[0].shape) == domain[0] or _is_small(n, domain[0]) for n in group.nodes
        )
        return whole
    return not _repeats_costly_work(node, group)


def _suits_domain(node: Node, kind: GroupKind, group: Group) -> bool:
    if group.domain is None:
        return False
    if kind == "reductions":
        return domain_of(node) == group.domain
    shape, axes = group.domain
    rows = tuple(extent for k, extent in enumerate(shape) if k not in axes)
    own = _live(node.outputs[0].shape)
    if own not in (shape, rows):
        return False
    if node.op.kind == "elementwise" or node.op.name == "broadcast_to":
        return True
    return node.op.name == "reshape" and _live(node.inputs[0].shape) == own


def _is_small(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether a formula's result only gets repeated in the domain, and is cheap to repeat."""
    size = 1
    for extent in shape:
        size *= extent
    return node.outputs[0].type.size < size and node.op.name in _CHEAP


def _repeats_costly_work(node: Node, group: Group) -> bool:
    """Whether the node reads elements of the group many times, so that they are better kept."""
    size = node.outputs[0].type.size
    repeated = [
        tensor.node
        for tensor in node.inputs
        if tensor.node in group.nodes and tensor.type.size < size
    ]
    if node.op.name == "concat":
        return False
    return bool(repeated) and any(n.op.name not in _CHEAP for n in group.nodes)
