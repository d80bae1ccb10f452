"""The cheapest way to part a directed graph in two.

Source: Dinitz, "Algorithm for solution of a problem of maximum flow in networks with power
estimation" (1970); the cut is what the last search reaches.
"""

from __future__ import annotations

from collections import deque

#: A capacity that no cut should pay.
UNCUTTABLE = 1 << 62


class MinCut:
    """A network between a source and a sink, built edge by edge.

    >>> net = MinCut()
    >>> a, b = net.node(), net.node()
    >>> net.edge(net.source, a, 5), net.edge(a, b, 2), net.edge(b, net.sink, 9)
    (None, None, None)
    >>> net.solve(), net.on_source_side(a), net.on_source_side(b)
    (2, True, False)
    """

    source = 0
    sink = 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]  # of each node: numbers of edges
        self._ends: list[int] = []
        self._left: list[int] = []  # the capacity that is left; edge k ^ 1 is edge k backwards
        self._levels: list[int] = []

    def node(self) -> int:
        """A new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, start: int, end: int, capacity: int) -> None:
        """An edge that costs `capacity` when `start` is on the source's side and `end` is not."""
        for here, there, left in ((start, end, capacity), (end, start, 0)):
            self._edges[here].append(len(self._ends))
            self._ends.append(there)
            self._left.append(left)

    def solve(self) -> int:
        """The cost of the cheapest cut."""
        flow = 0
        while self._search():
            tried = [0] * len(self._edges)
            while pushed := self._push(tried):
                flow += pushed
        return flow

    def on_source_side(self, node: int) -> bool:
        """Whether the cut that `solve` found leaves a node with the source."""
        return self._levels[node] >= 0

    def _search(self) -> bool:
        """Distances from the source along edges with capacity left; whether the sink has one."""
        self._levels = [-1] * len(self._edges)
        self._levels[self.source] = 0
        waiting = deque([self.source])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges[node]:
                end = self._ends[edge]
                if self._left[edge] and self._levels[end] < 0:
                    self._levels[end] = self._levels[node] + 1
                    waiting.append(end)
        return self._levels[self.sink] >= 0

    def _push(self, tried: list[int]) -> int:
        """What one more shortest path carries; `tried` counts the edges that lead nowhere."""
        path: list[int] = []
        node = self.source
        while node != self.sink:
            edges = self._edges[node]
            while tried[node] < len(edges) and not self._leads_on(node, edges[tried[node]]):
                tried[node] += 1
            if tried[node] < len(edges):
                path.append(edges[tried[node]])
                node = self._ends[path[-1]]
            elif path:
                node = self._ends[path.pop() ^ 1]
                tried[node] += 1
            else:
                return 0
        amount = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= amount
            self._left[edge ^ 1] += amount
        return amount

    def _leads_on(self, node: int, edge: int) -> bool:
        return bool(self._left[edge]) and self._levels[self._ends[edge]] == self._levels[node] + 1
