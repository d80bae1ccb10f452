"""The rules of fusion: what may become one loop nest, and what may share a kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...target.cost import DeviceCosts, is_costly, work_of
from ..nodes import Graph, Node, Tensor
from ..symbols import space_of_graph
from . import cost
from .contraction import ChooseContraction
from .domain import lattice, nest_obstacle
from .group import (
    ANCHORED,
    MAX_NODES,
    MAX_OPERANDS,
    Domain,
    GroupKind,
    by_serial,
    kind_of,
    operands,
    outside,
)
from .layouts import size_of
from .node_groups import NodeGroup, NodeGroups


class Why(NamedTuple):
    """Why two groups stay apart: the rule's name, and words."""

    rule: str
    reason: str


class Shape(NamedTuple):
    """What two groups would be as one."""

    kind: GroupKind
    domain: Domain | None


class Fuser:
    """Tries fusions of groups, and carries them out."""

    def __init__(self, graph: Graph, device: DeviceCosts, contraction: ChooseContraction) -> None:
        self.groups = NodeGroups(graph)
        self.device = device
        self.contraction = contraction
        #: Whether products may compute their operands; late, as others gain more.
        self.into_operands = False
        #: Whether there are extents that are not known yet.
        self.is_symbolic = space_of_graph(graph) is not None

    # ------------------------------------------------------------------ one nest

    def join(self, a: NodeGroup, b: NodeGroup) -> NodeGroup | None:
        """The two as one loop nest, where that can be made and pays."""
        shape = self.joined(a, b)
        if isinstance(shape, Why):
            return None
        return self.groups.merge(a, b, shape.kind, shape.domain)

    def joined(self, a: NodeGroup, b: NodeGroup) -> Shape | Why:
        """What the two would be as one nest, or why they cannot be."""
        shape = _table(a, b)
        if isinstance(shape, Why):
            return shape
        limit = _limits(a, b)
        if limit is not None:
            return limit
        if self.groups.circle(a, b):
            return Why("circle", "one needs the other through a third, which would need both")
        if shape.kind == "elementwise" and a.shape is not None and a.shape == b.shape:
            return shape
        nodes = by_serial([*a.nodes, *b.nodes])
        reason = self._obstacle(nodes, self.groups.materialized(a, b), shape, a, b)
        if reason is None and shape.kind in ANCHORED and not self.into_operands:
            anchor = (a if a.kind in ANCHORED else b).anchor
            if any(t.node in nodes for t in anchor.inputs):
                reason = "operands of products are looked at last"
        return shape if reason is None else Why("nest", reason)

    def gain(self, a: NodeGroup, b: NodeGroup) -> float:
        """Seconds that the two save as one nest."""
        between = [t for t in b.inputs if t.node in a.made]
        between += [t for t in a.inputs if t.node in b.made]
        materialized = set(self.groups.materialized(a, b))
        still = [t for t in between if t in materialized]
        shared = [t for t in a.inputs if t in b.inputs]
        return cost.saved_by_joining(self.device, between, still, shared)

    def _obstacle(
        self,
        nodes: Sequence[Node],
        materialized: Collection[Tensor],
        shape: Shape,
        a: NodeGroup,
        b: NodeGroup,
    ) -> str | None:
        """Why nodes are not made in one nest, which has the product of one of two groups if any."""
        if shape.kind in ANCHORED:
            anchor = (a if a.kind in ANCHORED else b).anchor
            return self.contraction(anchor).obstacle(nodes, materialized, anchor)
        return nest_obstacle(nodes, materialized, shape.domain)

    # ------------------------------------------------------------------ copies

    def copy(self, tensor: Tensor) -> bool:
        """Let all readers of a tensor compute it again, where that can be made and pays."""
        groups = self.groups
        maker = groups.maker(tensor)
        if maker is None or tensor in groups.wanted:
            return False
        made_of = _elementwise_behind(tensor, maker)
        readers = groups.readers_in_memory(tensor)
        if made_of is None or not readers or not self._pays(tensor, made_of, readers):
            return False
        if any(self._cannot_copy(made_of, reader) for reader in readers):
            return False
        groups.copy(made_of, readers)
        return True

    def _pays(self, tensor: Tensor, made_of: Sequence[Node], readers: Sequence[NodeGroup]) -> bool:
        inputs = outside(made_of)
        again = [t for reader in readers for t in inputs if t not in reader.inputs]
        return cost.saved_by_copying(self.device, tensor, made_of, again, len(readers)) > 0

    def _cannot_copy(self, made_of: Sequence[Node], reader: NodeGroup) -> bool:
        nodes = by_serial([*made_of, *reader.nodes])
        if reader.kind in ("alone", "several") or reader.is_view or len(nodes) > MAX_NODES:
            return True
        if operands(nodes) > max(MAX_OPERANDS, operands(reader.nodes)):
            return True
        shape = Shape(reader.kind, reader.domain)
        materialized = self.groups.materialized(reader)
        return self._obstacle(nodes, materialized, shape, reader, reader) is not None

    # ------------------------------------------------------------------ one kernel

    def follow(self, a: NodeGroup, b: NodeGroup) -> NodeGroup | None:
        """The two in one kernel, `b` after `a`."""
        if self.may_follow(a, b) is not None:
            return None
        return self.groups.merge(a, b, "several", None, (*_phases(a), *_phases(b)))

    def may_follow(self, a: NodeGroup, b: NodeGroup) -> Why | None:
        """Why a consumer cannot follow its producer in one kernel."""
        if a.is_view or b.is_view or any(c.kind in (*ANCHORED, "alone") for c in (a, b)):
            return Why("kernel", "products, views and single ops have kernels of their own")
        between = [t for t in b.inputs if t.node in a.made]
        moved = cost.bytes_of(a.inputs) + cost.bytes_of(b.inputs)
        moved += sum(cost.bytes_of(self.groups.materialized(group)) for group in (a, b))
        if not cost.may_follow(self.device, between, moved):
            return Why("cost", "what passes between them does not stay in the nearest caches")
        if self.groups.circle(a, b):
            return Why("circle", "one needs the other through a third, which would need both")
        return _limits(a, b)

    def fuse_horizontally(self, a: NodeGroup, b: NodeGroup) -> NodeGroup | None:
        """Two that do not depend on each other in one kernel, each with a part of the workers."""
        if (a.before | b.before) & (a.bits | b.bits) or self.groups.circle(a, b):
            return None
        if _limits(a, b) is not None:
            return None
        first, second = _phases(a), _phases(b)
        length = max(len(first), len(second))
        phases = tuple(
            (*(first[k] if k < len(first) else ()), *(second[k] if k < len(second) else ()))
            for k in range(length)
        )
        return self.groups.merge(a, b, "several", None, phases)


def _elementwise_behind(tensor: Tensor, group: NodeGroup) -> list[Node] | None:
    """What a group computes a tensor from its inputs by, if that is little and cheap."""
    found: set[Node] = set()
    stack = [tensor]
    while stack:
        node = stack.pop().node
        if node is None or node not in group.made or node in found:
            continue
        if kind_of(node) != "elementwise":
            return None
        found.add(node)
        stack += node.inputs
    return None if is_costly(sum(work_of(n.op.name) for n in found)) else by_serial(found)


def _phases(group: NodeGroup) -> tuple[tuple[NodeGroup, ...], ...]:
    return group.phases or ((group,),)


def _table(a: NodeGroup, b: NodeGroup) -> Shape | Why:
    """What two kinds of nests make together."""
    for group in (a, b):
        if group.kind in ("alone", "several"):
            return Why("kind", f"{group.nodes[0].op.name} has a kernel of its own")
    if b.kind in ANCHORED:
        a, b = b, a
    if a.kind in ANCHORED:
        if b.kind == "elementwise" and not b.is_view:
            return Shape(a.kind, None)
        what = "copies nothing" if b.is_view else "is not elementwise"
        return Why("product", f"{b.nodes[0].op.name} {what}")
    if a.is_view or b.is_view:
        return Why("view", "a reshape of what is in memory costs nothing")
    if a.kind == b.kind == "elementwise":
        return Shape("elementwise", None)
    domains = [c.domain for c in (a, b) if c.domain is not None]
    if len(domains) == 2 and not _same(*domains):
        shapes = " and ".join(f"{list(s)} over {list(x)}" for s, x in domains)
        return Why("domain", f"they reduce {shapes}")
    return Shape("reductions", domains[0])


def _same(a: Domain, b: Domain) -> bool:
    return a == b or (size_of(a[0]) == size_of(b[0]) and lattice(*a) == lattice(*b))


def _limits(a: NodeGroup, b: NodeGroup) -> Why | None:
    count = len(a.nodes) + len(b.nodes)
    if count <= MAX_NODES and len(a.inputs) + len(b.inputs) <= MAX_OPERANDS:
        return None
    nodes = by_serial([*a.nodes, *b.nodes])
    if len(nodes) > MAX_NODES:
        return Why("limits", f"together they have more than {MAX_NODES} ops")
    if operands(nodes) > max(MAX_OPERANDS, operands(a.nodes), operands(b.nodes)):
        return Why("limits", f"together they read more than {MAX_OPERANDS} arrays")
    return None
