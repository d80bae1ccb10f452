"""Groups in the making, and what depends on what.

A group is a set of nodes that will share a kernel. For each group the groups before and after it
are kept as sets of bits, so that it takes one operation to see whether a fusion would close a
circle: two groups may become one unless something outside both lies on a path from one to the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ..nodes import Graph, Node, Tensor
from .group import ANCHORED, Domain, GroupKind, by_serial, domain_of, kind_of, outside


@dataclass(eq=False)
class NodeGroup:
    """Nodes that will share a kernel.

    Attributes:
        kind, domain: as of a `Group`.
        nodes: in order of creation, those that it shares with other groups included.
        bits: the group itself, as a set of bits; one for each group that became part of it.
        before, after: the groups that it needs, and those that need it, directly or not.
        shape: of every tensor that it makes, when all its nodes are elementwise and agree.
        phases: once loop nests are put together, those of the kernel.
    """

    kind: GroupKind
    nodes: list[Node]
    domain: Domain | None
    bits: int
    before: int = 0
    after: int = 0
    shape: tuple[int, ...] | None = None
    phases: tuple[tuple[NodeGroup, ...], ...] = ()
    made: frozenset[Node] = field(default=frozenset())
    inputs: dict[Tensor, None] = field(default_factory=dict)
    serial: int = 0  # where it stands in the order of creation
    is_view: bool = False  # whether nothing is computed

    def __post_init__(self) -> None:
        self.set_nodes(self.nodes)

    def set_nodes(self, nodes: list[Node]) -> None:
        """Replace the nodes; `inputs` is what they read and do not make, in order."""
        self.nodes = nodes
        self.made = frozenset(nodes)
        self.inputs = outside(nodes)
        self.serial = nodes[-1].serial
        self.is_view = all(node.op.name == "reshape" for node in nodes)

    @property
    def anchor(self) -> Node:
        """The product of a group that has one."""
        return next(node for node in self.nodes if kind_of(node) in ANCHORED)


class NodeGroups:
    """All groups of a graph. Constants belong to none."""

    def __init__(self, graph: Graph) -> None:
        self.wanted = set(graph.outputs)
        self.nodes = [node for node in graph.nodes if node.op.name != "constant"]
        self.readers: dict[Tensor, list[Node]] = {}
        for node in self.nodes:
            for tensor in dict.fromkeys(node.inputs):
                self.readers.setdefault(tensor, []).append(node)
        self.home: dict[Node, NodeGroup] = {}
        self.places: dict[Node, list[NodeGroup]] = {}
        self.by_bit: list[NodeGroup] = []
        for node in self.nodes:
            self._start(node)
        self._connect()

    # ------------------------------------------------------------------ starting

    def _start(self, node: Node) -> None:
        """A group for a node, with copies of the reshapes that it reads through."""
        kind = kind_of(node)
        copies: list[Node] = []
        if kind in ("elementwise", "reductions"):
            copies = _reshapes_before(node)
        group = NodeGroup(kind, by_serial([*copies, node]), domain_of(node), 1 << len(self.by_bit))
        if node.op.kind == "elementwise" and not copies:
            group.shape = node.outputs[0].shape
        self.home[node] = group
        self.by_bit.append(group)
        for each in group.nodes:
            self.places.setdefault(each, []).append(group)

    def _connect(self) -> None:
        """Drop reshapes that only their copies are read through; find what depends on what."""
        for node in reversed(self.nodes):
            group = self.home[node]
            if node.op.name == "reshape" and not self._is_materialized(node.outputs[0], group):
                del self.home[node]
                self.places[node].remove(group)
        for group in self:
            for tensor in group.inputs:
                maker = self.maker(tensor)
                if maker is not None:
                    group.before |= maker.before | maker.bits
        for group in reversed(list(self)):
            for tensor in group.inputs:
                maker = self.maker(tensor)
                if maker is not None:
                    maker.after |= group.after | group.bits

    def __iter__(self) -> Iterator[NodeGroup]:
        """The groups by the last of their nodes."""
        alive = {id(group): group for group in self.home.values()}
        return iter(sorted(alive.values(), key=lambda group: group.serial))

    # ------------------------------------------------------------------ questions

    def maker(self, tensor: Tensor) -> NodeGroup | None:
        """The group that puts a tensor into memory."""
        return None if tensor.node is None else self.home.get(tensor.node)

    def is_alive(self, group: NodeGroup) -> bool:
        """Whether a group is none that became part of another."""
        return self.home.get(group.nodes[-1]) is group

    def _is_materialized(self, tensor: Tensor, *groups: NodeGroup) -> bool:
        """Whether anyone but these groups, taken as one, needs a tensor in memory."""
        if tensor in self.wanted:
            return True
        for reader in self.readers.get(tensor, ()):
            for place in self.places[reader]:
                if place not in groups and tensor.node not in place.made:
                    return True
        return False

    def materialized(self, *groups: NodeGroup) -> list[Tensor]:
        """What these groups, taken as one, must put into memory, in order of creation."""
        return [
            tensor
            for node in by_serial(n for group in groups for n in group.nodes)
            if self.home.get(node) in groups
            for tensor in node.outputs
            if self._is_materialized(tensor, *groups)
        ]

    def producers(self, group: NodeGroup) -> list[NodeGroup]:
        """The groups that a group reads from, the latest first."""
        makers = {self.maker(tensor) for tensor in group.inputs}
        return sorted((m for m in makers if m is not None), key=lambda m: -m.serial)

    def consumers(self, group: NodeGroup) -> list[NodeGroup]:
        """The groups that read from a group, the earliest first."""
        found: dict[NodeGroup, None] = {}
        for node in group.nodes:
            if self.home.get(node) is group:
                for tensor in node.outputs:
                    for reader in self.readers.get(tensor, ()):
                        found.update((p, None) for p in self.places[reader] if p is not group)
        return sorted(
            (c for c in found if any(self.maker(t) is group for t in c.inputs)),
            key=lambda c: c.serial,
        )

    def circle(self, a: NodeGroup, b: NodeGroup) -> bool:
        """Whether the two would need each other, through others, as one."""
        mine = a.bits | b.bits
        return bool((a.after & b.before | b.after & a.before) & ~mine)

    # ------------------------------------------------------------------ changes

    def merge(
        self,
        a: NodeGroup,
        b: NodeGroup,
        kind: GroupKind,
        domain: Domain | None,
        phases: tuple[tuple[NodeGroup, ...], ...] = (),
    ) -> NodeGroup:
        """The two as one."""
        same = a.shape is not None and a.shape == b.shape
        new = NodeGroup(
            kind,
            by_serial([*a.nodes, *b.nodes]),
            domain,
            a.bits | b.bits,
            shape=a.shape if same else None,
            phases=phases,
        )
        new.before = (a.before | b.before) & ~new.bits
        new.after = (a.after | b.after) & ~new.bits
        for node in new.nodes:
            if self.home.get(node) in (a, b):
                self.home[node] = new
            places = [place for place in self.places[node] if place is not a and place is not b]
            self.places[node] = [*places, new]
        for old in (a, b):
            for bit in _bits(old.bits):
                self.by_bit[bit] = new
        self._spread(new, (a, b))
        return new

    def _spread(self, new: NodeGroup, old: tuple[NodeGroup, NodeGroup]) -> None:
        """Tell those after a new group what is before them now, and the other way round."""
        a, b = old
        for x, y in ((a, b), (b, a)):
            # Those after both know of both already.
            if (y.before | y.bits) & ~(x.before | x.bits):
                now = new.before | new.bits
                for group in self._with_bits(x.after & ~(y.after | y.bits)):
                    group.before |= now
            if (y.after | y.bits) & ~(x.after | x.bits):
                now = new.after | new.bits
                for group in self._with_bits(x.before & ~(y.before | y.bits)):
                    group.after |= now

    def _with_bits(self, mask: int) -> Iterable[NodeGroup]:
        """The groups that have these bits, each once."""
        return dict.fromkeys(map(self.by_bit.__getitem__, _bits(mask)))

    def readers_in_memory(self, tensor: Tensor) -> list[NodeGroup]:
        """The groups that read a tensor from memory."""
        found: dict[NodeGroup, None] = {}
        for reader in self.readers.get(tensor, ()):
            found.update((p, None) for p in self.places[reader] if tensor.node not in p.made)
        return list(found)

    def copy(self, nodes: Collection[Node], readers: Collection[NodeGroup]) -> None:
        """Let readers compute nodes of another group for themselves.

        They are still known to come after that group, which is only careful.
        """
        for reader in readers:
            for node in nodes:
                if node not in reader.made:
                    self.places[node] = [*self.places[node], reader]
            reader.set_nodes(by_serial([*nodes, *reader.nodes]))
            reader.shape = None


def _reshapes_before(node: Node) -> list[Node]:
    found: list[Node] = []
    stack = [t.node for t in node.inputs]
    while stack:
        maker = stack.pop()
        if maker is not None and maker.op.name == "reshape" and node.op.name != "reshape":
            found.append(maker)
            stack += [t.node for t in maker.inputs]
    return found


def _bits(mask: int) -> Iterator[int]:
    """The places of the ones; of many, in a time that grows with the length of the mask alone.

    >>> list(_bits(0b100110)), list(_bits(0)), len(list(_bits((1 << 100) - 1)))
    ([1, 2, 5], [], 100)
    """
    if mask.bit_count() < _FEW:
        while mask:
            low = mask & -mask
            yield low.bit_length() - 1
            mask ^= low
        return
    ones = bin(mask)[:1:-1]
    place = ones.find("1")
    while place >= 0:
        yield place
        place = ones.find("1", place + 1)


#: So many passes over a long number take as long as to write it in digits.
_FEW = 32
