"""When values and buffers of shared memory are live.

A value is live at a point from which it may still be used; a buffer is live where a view of it is.
What a loop carries is live all through it, and so is what it uses of before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.core import Operation, Value
from .alias import SharedAliases, has_views, is_view
from .control_flow import Bindings, FlowGraph, directs_flow


class ViewLiveness:
    """The views of shared memory that are live at the nodes of a function's graph.

    Sets are integers: of values by their `numbers`, of nodes by their places in the graph.
    """

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.numbers: dict[Value, int] = {}
        uses, definitions = self._local_sets()
        edges = [[(target, self._bits(bound)) for target, bound in tails] for tails in graph.edges]
        count = len(graph.ops)
        self.before = [0] * count
        self.after = [0] * count
        changed = True
        while changed:
            changed = False
            for node in range(count - 1, -1, -1):
                after = 0
                for target, bits in edges[node]:
                    after |= _before_edge(self.before[target], bits)
                before = uses[node] | (after & ~definitions[node])
                if after != self.after[node] or before != self.before[node]:
                    self.after[node], self.before[node] = after, before
                    changed = True
        # At its node, what an operation uses and what it defines exist together.
        self.during = [
            b | a | d for b, a, d in zip(self.before, self.after, definitions, strict=True)
        ]

    def _bit(self, value: Value) -> int:
        return 1 << self.numbers.setdefault(value, len(self.numbers))

    def _bits(self, bound: Bindings) -> Sequence[tuple[int, int]]:
        views = (pair for pair in bound if is_view(pair[0]))
        return [(self._bit(target), self._bit(source)) for target, source in views]

    def _local_sets(self) -> tuple[list[int], list[int]]:
        uses, definitions = [], []
        for op in self.graph.ops:
            used = defined = 0
            if op is not None and not directs_flow(op):
                for operand in op.operands:
                    used |= self._bit(operand) if is_view(operand) else 0
                for result in op.results:
                    defined |= self._bit(result) if is_view(result) else 0
            uses.append(used)
            definitions.append(defined)
        return uses, definitions

    def range_of(self, value: Value) -> int:
        """The set of nodes at which a view is live."""
        bit = self._bit(value)
        return sum(1 << node for node, live in enumerate(self.during) if live & bit)


def _before_edge(live: int, bound: Sequence[tuple[int, int]]) -> int:
    """What is live before an edge, of what is live after it."""
    made = live
    for target, _ in bound:
        made &= ~target
    for target, source in bound:
        if live & target:
            made |= source
    return made


def buffer_ranges(graph: FlowGraph, aliases: SharedAliases) -> list[int]:
    """For each buffer of `aliases` the set of nodes at which it is live."""
    liveness = ViewLiveness(graph)
    masks = [aliases.mask(value) for value in liveness.numbers]
    ranges = [0] * len(aliases.buffers)
    for node, live in enumerate(liveness.during):
        buffers = 0
        for number in _bits_of(live):
            buffers |= masks[number]
        for bit in _bits_of(buffers >> 1):
            ranges[bit] |= 1 << node
    return ranges


def _bits_of(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def live_ranges(function: Operation) -> dict[Operation, list[Operation]]:
    """For each operation that makes a buffer, the operations at which the buffer is live."""
    graph = FlowGraph(function, has_views)
    aliases = SharedAliases(function, graph)
    made = {}
    for buffer, nodes in zip(aliases.buffers, buffer_ranges(graph, aliases), strict=True):
        ops = (graph.ops[node] for node in _bits_of(nodes))
        made[buffer] = [op for op in ops if op is not None]
    return made
