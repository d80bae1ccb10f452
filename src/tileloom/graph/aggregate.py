"""Which ops are compiled together, before anything is said about kernels.

`regions` grows regions of connected nodes along their inputs, from the last node to the first. A
node joins the region of its consumers unless a path leads from it to the region through a node
outside: then region and node would each wait for the other. (The algorithm is that of MindSpore's
graph-kernel region pass; its check of circles is replaced by one over a topological order that is
kept up to date as nodes merge, after Pearce and Kelly 2006.) `segments` says how many turns native
code and the host need to take.

Both work on any nodes: those of a `Graph`, groups of them, nodes of other graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

from ..base.errors import InternalError
from .nodes import Graph, Node

N = TypeVar("N", bound=Hashable)

#: Of `regions_of`: everything that has code.
ALL = 2

_MOST_BITS = 1 << 14


def regions_of(
    graph: Graph, target: str = "cpu", level: int = ALL, singles: bool = True
) -> list[tuple[Node, ...]]:
    """The regions of a graph: connected nodes whose ops have code for a target.

    Args:
        graph: any graph; constants belong to no region, as they are data.
        target: "cpu" or "cuda".
        level: how far to go: 0 takes arithmetic on elements, 1 also reductions and movement, 2 all
            that has code. Each op says its level when it is registered.
        singles: whether a node alone is a region.

    >>> from tileloom.graph import ops
    >>> from tileloom.graph.nodes import Tensor, tensor_type
    >>> x = Tensor(tensor_type((4,), "float32"), "x")
    >>> y = ops.exp(ops.sort(ops.neg(ops.abs(x))))
    >>> [[node.op.name for node in each] for each in regions_of(Graph([x], [y]))]
    [['abs', 'neg'], ['exp']]
    """
    nodes = [node for node in graph.nodes if node.op.name != "constant"]

    def joins(node: Node) -> bool:
        own = node.op.level(target)
        return own is not None and own <= level

    return regions(nodes, _producers, joins, singles=singles)


def _producers(node: Node) -> list[Node]:
    return [t.node for t in node.inputs if t.node is not None and t.value is None]


def regions(
    nodes: Sequence[N],
    inputs: Callable[[N], Iterable[N]],
    joins: Callable[[N], bool],
    *,
    picks: Callable[[N], bool] = lambda node: False,
    singles: bool = True,
) -> list[tuple[N, ...]]:
    """Clusters of nodes, in an order in which they can run, the nodes of each in their order.

    Args:
        nodes: producers before consumers.
        inputs: the nodes that a node reads; those not among `nodes` are ignored.
        joins: whether a node may be in a region.
        picks: whether a node only takes one of the results of its producer; it is in a region
            with the producer or not at all.
        singles: whether a node alone is a region.

    Contracting every region to a node leaves a graph without circles, and no two regions that
    are connected could be one.

    >>> reads = {"b": "a", "c": "a", "d": "bc"}
    >>> regions("abcd", lambda n: reads.get(n, ""), lambda n: n != "c")
    [('a',), ('b', 'd')]
    """
    number = {node: k for k, node in enumerate(nodes)}
    reads = [_numbers(k, inputs(node), number) for k, node in enumerate(nodes)]
    own = [joins(node) for node in nodes]
    wild = [picks(node) for node in nodes]
    for k, picked in enumerate(wild):
        own[k] = own[k] and not (picked and not all(own[p] for p in reads[k]))
    graph = _Contracted(reads, own)
    for base in reversed(range(len(nodes))):
        if own[base] and graph.is_single(base):
            kept = graph.joining(base)
            found = set(kept)
            graph.merge([k for k in kept if not wild[k] or all(p in found for p in graph.ins[k])])
    return [
        tuple(nodes[k] for k in members)
        for members in graph.members_in_order()
        if own[members[0]] and (singles or len(members) > 1)
    ]


def _numbers(k: int, sources: Iterable[N], number: dict[N, int]) -> list[int]:
    found = sorted({number[source] for source in sources if source in number})
    if found and found[-1] >= k:
        raise InternalError("aggregation needs producers before their consumers")
    return found


class _Contracted:
    """The graph with regions contracted to one of their nodes, and a topological order of it.

    Attributes:
        ins, outs: of each node that stands for itself or a region, what it reads and who reads it.
        rank: places in the order.
        own, above: the nodes that each stands for, and those that these need in the graph before
            contraction, as sets of bits; empty for graphs so large that they would not pay.
    """

    def __init__(self, reads: Sequence[Sequence[int]], joins: Sequence[bool]) -> None:
        self.joins = joins
        self.ins: list[set[int]] = [set(sources) for sources in reads]
        self.outs: list[set[int]] = [set() for _ in reads]
        self.rank = list(range(len(reads)))
        self.members: list[list[int]] = [[k] for k in range(len(reads))]
        self.own = [1 << k if len(reads) <= _MOST_BITS else 0 for k in range(len(reads))]
        self.above = [0] * len(reads)
        for k, sources in enumerate(reads):
            for source in sources:
                self.outs[source].add(k)
                self.above[k] |= self.above[source] | self.own[source]

    def is_single(self, k: int) -> bool:
        """Whether a node is in no region yet."""
        return len(self.members[k]) == 1

    def members_in_order(self) -> list[list[int]]:
        """The nodes of each region, by rank of the regions."""
        alive = sorted((self.rank[k], k) for k, members in enumerate(self.members) if members)
        return [sorted(self.members[k]) for _, k in alive]

    # ------------------------------------------------------------------ who may join

    def joining(self, base: int) -> list[int]:
        """The greatest set that holds the base, nodes it needs, and no path out and in again.

        Nodes are visited from consumers to producers. A node is in if all its consumers between it
        and the base are. The search ends when no node that is still hoped for is left; `below`
        dashes most false hopes at once.
        """
        kept: list[int] = []
        seen = {base}
        waiting = [(-self.rank[base], base)]
        hoped_for = {base}
        below = 0  # what nodes outside need, as far as the original graph says
        while hoped_for:
            _, k = heappop(waiting)
            inside = k in hoped_for
            if inside:
                hoped_for.discard(k)
                kept.append(k)
            # What a region reads cannot join that region: it was tried when it was made.
            spoils = not inside or not self.is_single(k)
            for source in self.ins[k]:
                if source not in seen:
                    seen.add(source)
                    heappush(waiting, (-self.rank[source], source))
                    if self.joins[source] and not self.own[source] & below:
                        hoped_for.add(source)
                if spoils:
                    hoped_for.discard(source)
            if not inside and below | self.above[k] != below:
                below |= self.above[k]
                hoped_for = {c for c in hoped_for if not self.own[c] & below}
        return kept

    # ------------------------------------------------------------------ merging

    def merge(self, nodes: Sequence[int]) -> None:
        """Contract these nodes, which must leave no circle."""
        if len(nodes) < 2:
            return
        self._make_room(nodes)
        root = max(nodes, key=lambda k: (len(self.ins[k]) + len(self.outs[k]), k))
        place = self.rank[nodes[0]]
        inside = set(nodes)
        for k in nodes:
            if k != root:
                self._absorb(root, k)
        self.ins[root] -= inside
        self.outs[root] -= inside
        self.rank[root] = place

    def _absorb(self, root: int, k: int) -> None:
        for source in self.ins[k]:
            self.outs[source].discard(k)
            self.outs[source].add(root)
        for reader in self.outs[k]:
            self.ins[reader].discard(k)
            self.ins[reader].add(root)
        self.ins[root] |= self.ins[k]
        self.outs[root] |= self.outs[k]
        self.members[root] += self.members[k]
        self.own[root] |= self.own[k]
        self.above[root] |= self.above[k]
        self.ins[k], self.outs[k], self.members[k] = set(), set(), []

    def _make_room(self, nodes: Sequence[int]) -> None:
        """Give the nodes one rank, after all that they need and before all that need them."""
        rank, inside = self.rank, set(nodes)
        low, high = min(rank[k] for k in nodes), max(rank[k] for k in nodes)
        needed = self._reached(inside, self.ins, low, high)
        places = sorted(rank[k] for k in (*needed, *nodes))
        place = places[len(needed)]
        if self._reached(inside, self.outs, low, place):
            needing = self._reached(inside, self.outs, low, high)
            places = sorted([*places, *(rank[k] for k in needing)])
            place = places[len(needed)]
            for k, free in zip(needing, places[len(places) - len(needing) :], strict=True):
                rank[k] = free
        for k, free in zip(needed, places, strict=False):
            rank[k] = free
        for k in nodes:
            rank[k] = place

    def _reached(self, start: set[int], step: Sequence[set[int]], low: int, high: int) -> list[int]:
        """The nodes reached from some others between two ranks, by rank."""
        found = set(start)
        stack = list(start)
        while stack:
            for k in step[stack.pop()]:
                if k not in found and low < self.rank[k] < high:
                    found.add(k)
                    stack.append(k)
        return sorted(found - start, key=lambda k: self.rank[k])


# ---------------------------------------------------------------------------- turns


class Turns(Generic[N]):
    """Nodes placed one after another so that native code and others take the fewest turns.

    The native nodes of level 0 run first, then the others of level 0, then the native ones of
    level 1, and so on; others that need nothing native have level -1 and run before all. Each node
    has the least level that its sources allow.

    >>> turns = Turns()
    >>> turns.native("a", []), turns.other("sort", ["a"]), turns.native("b", ["a", "sort"])
    (0, 0, 1)
    """

    def __init__(self) -> None:
        self.level: dict[N, int] = {}
        self._native: set[N] = set()
        self._last_effect = -1

    def is_native(self, node: N) -> bool:
        """Whether a node was placed as native."""
        return node in self._native

    def ready(self, sources: Iterable[N]) -> int:
        """The level that a native node which reads these has; what was not placed is an input."""
        found = (self.level.get(s, -1) + (s not in self._native) for s in sources)
        return max(found, default=0)

    def native(self, node: N, sources: Iterable[N]) -> int:
        """Place a native node; its level."""
        self.level[node] = self.ready(sources)
        self._native.add(node)
        return self.level[node]

    def other(self, node: N, sources: Iterable[N], effect: bool = False) -> int:
        """Place another node; its level. Those with an effect keep their order."""
        level = max((self.level.get(source, -1) for source in sources), default=-1)
        if effect:
            level = self._last_effect = max(level, self._last_effect)
        self.level[node] = level
        return level


def segments(
    nodes: Sequence[N], inputs: Callable[[N], Iterable[N]], native: Callable[[N], bool]
) -> list[tuple[bool, list[N]]]:
    """Nodes as the fewest turns of native code and the host: (whether native, nodes in order).

    Args:
        nodes: producers before consumers.
        inputs: the nodes that a node reads; those not among `nodes` are ignored.
        native: whether a node has code.

    >>> reads = {"b": "a", "d": "c", "e": "bd"}
    >>> segments("abcde", lambda n: reads.get(n, ""), lambda n: n in "ace")
    [(True, ['a', 'c']), (False, ['b', 'd']), (True, ['e'])]
    """
    turns: Turns[N] = Turns()
    found: dict[tuple[int, bool], list[N]] = {}
    known = set(nodes)
    for node in nodes:
        sources = [source for source in inputs(node) if source in known]
        place = turns.native if native(node) else turns.other
        level = place(node, sources)
        found.setdefault((level, not turns.is_native(node)), []).append(node)
    return [(not host, found[level, host]) for level, host in sorted(found)]
