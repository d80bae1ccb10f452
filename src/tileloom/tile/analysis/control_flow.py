"""The order in which the operations of a function may run, as one graph.

Structured loops and branches and branches between blocks become edges, so that an analysis of
what is live, or of what is pending, is one fixed point over nodes. An edge binds the arguments of
a block, or the results of a loop or a branch, to the values that they get along it.

    %r = scf.for ... iter_args(%a = %x) { B; scf.yield %y }

              enter --(%a = %x)--> B --> yield --(%r = %y)--> exit
                |                  ^       |                   ^
                |                  +-------+ (%a = %y)         |
                +-----------------(%r = %x)--------------------+
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..dialects.cf import block_operands
from ..ir.core import Block, Operation, Region, Value

Bindings = Sequence[tuple[Value, Value]]  # what is defined along an edge, and by which value
Tails = list[tuple[int, Bindings]]


class FlowGraph:
    """Nodes in program order, and the edges between them.

    Fields:
        ops: the operation of each node; None for the start of a block and the end of a loop.
        edges: for each node the nodes after it, with their bindings.
    """

    def __init__(self, function: Operation, keep: Callable[[Operation], bool]) -> None:
        """The graph of a function with those of its operations for which `keep` holds, and all
        that direct the flow."""
        self.ops: list[Operation | None] = []
        self.edges: list[Tails] = []
        self._keep = keep
        self._starts: dict[Block, int] = {}
        self._waiting: dict[Block, Tails] = {}
        self._exits: dict[Operation, Tails] = {}
        for region in function.regions:
            self._add_region(region, [])

    def bindings(self) -> Iterator[tuple[Value, Value]]:
        """The bindings of all edges."""
        for tails in self.edges:
            for _, bound in tails:
                yield from bound

    def predecessors(self) -> list[list[int]]:
        """For each node the nodes before it."""
        made: list[list[int]] = [[] for _ in self.ops]
        for source, tails in enumerate(self.edges):
            for target, _ in tails:
                made[target].append(source)
        return made

    def _add(self, op: Operation | None, tails: Tails) -> int:
        node = len(self.ops)
        self.ops.append(op)
        self.edges.append([])
        for source, bound in tails:
            self.edges[source].append((node, bound))
        return node

    def _go_to(self, block: Block, source: int, bound: Bindings) -> None:
        start = self._starts.get(block)
        if start is None:
            self._waiting.setdefault(block, []).append((source, bound))
        else:
            self.edges[source].append((start, bound))

    def _add_region(self, region: Region, tails: Tails) -> None:
        for block in region.blocks:
            start = self._add(None, tails + self._waiting.pop(block, []))
            self._starts[block] = start
            self._add_block(block, [(start, ())])
            tails = []

    def _add_block(self, block: Block, tails: Tails) -> None:
        for op in block:
            if op.name in STRUCTURED:
                tails = self._add_structured(op, tails)
            elif op.definition.is_terminator:
                self._leave(op, self._add(op, tails))
            elif self._keep(op):
                tails = [(self._add(op, tails), ())]

    def _add_structured(self, op: Operation, tails: Tails) -> Tails:
        enter = self._add(op, tails)
        exits = self._exits[op] = []
        if op.name == "scf.if":
            for region in op.regions:
                if region.blocks:
                    self._add_region(region, [(enter, ())])
                else:
                    exits.append((enter, ()))
        elif op.name == "scf.for":
            inits = op.operands[3:]
            exits.append((enter, _pairs(op.results, inits)))
            self._add_region(op.regions[0], [(enter, _pairs(op.body.arguments[1:], inits))])
        else:
            before, after = op.regions
            self._add_region(before, [(enter, _pairs(op.body.arguments, op.operands))])
            self._add_region(after, [])
        return [(self._add(None, self._exits.pop(op)), ())]

    def _leave(self, op: Operation, node: int) -> None:
        """Adds the edges of a terminator."""
        around = op.parent
        if op.successors:
            for index, block in enumerate(op.successors):
                self._go_to(block, node, _pairs(block.arguments, block_operands(op, index)))
        elif around is None or around not in self._exits:
            return
        elif op.name == "scf.condition":
            after = around.regions[1].blocks[0]
            self._go_to(after, node, _pairs(after.arguments, op.operands[1:]))
            self._exits[around].append((node, _pairs(around.results, op.operands[1:])))
        elif around.name == "scf.while":
            self._go_to(around.body, node, _pairs(around.body.arguments, op.operands))
        else:
            if around.name == "scf.for":
                self._go_to(around.body, node, _pairs(around.body.arguments[1:], op.operands))
            self._exits[around].append((node, _pairs(around.results, op.operands)))


STRUCTURED = frozenset({"scf.if", "scf.for", "scf.while"})


def _pairs(targets: Sequence[Value], sources: Sequence[Value]) -> Bindings:
    return tuple(zip(targets, sources, strict=True))


def directs_flow(op: Operation | None) -> bool:
    """Whether the operation of a node hands its operands on along edges, and does no more."""
    return op is None or op.name in STRUCTURED or op.name in HANDS_ON


HANDS_ON = frozenset({"scf.yield", "scf.condition", "cf.br", "cf.cond_br"})
