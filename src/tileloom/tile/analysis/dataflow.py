"""Sparse forward data flow: facts about values, followed from definitions to uses until nothing
changes.

A fact is absent at first and only grows weaker, by `join`: what comes round a loop weakens what
went in. An operation is looked at when its block is reached and whenever a fact about an operand
changes, inner loops before what follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

from ..dialects.cf import block_operands
from ..dialects.scf import ForLoop, IfBranches
from ..ir.core import Block, Operation, Value

Fact = TypeVar("Fact")


class ForwardAnalysis(Generic[Fact]):
    """What an analysis is made of; a subclass says what its facts are."""

    def transfer(self, op: Operation, facts: Sequence[Fact]) -> Sequence[Fact]:
        """Facts of an operation's results, from those of its operands."""
        raise NotImplementedError

    def join(self, old: Fact, new: Fact, value: Value, changes: int) -> Fact:
        """What holds if one of two facts about a value does. The value's fact has changed so many
        times before; it must not change forever."""
        raise NotImplementedError

    def entry(self, value: Value) -> Fact:
        """The fact of a value of which the analysis does not see where it comes from."""
        raise NotImplementedError

    def loop_variable(self, value: Value, lower: Fact, upper: Fact, step: Fact) -> Fact:
        """The fact of the variable of `scf.for`."""
        return self.entry(value)

    def decided(self, condition: Fact) -> bool | None:
        """The value that a condition always has, or None."""
        return None

    # What a run of the analysis is made of.

    def __init__(self) -> None:
        self.facts: dict[Value, Fact] = {}
        self._order: dict[Operation, int] = {}
        self._queue: list[tuple[int, Operation]] = []
        self._waiting: set[Operation] = set()
        self._entered: set[Block] = set()
        self._changes: dict[Value, int] = {}

    def run(self, function: Operation, arguments: Sequence[Fact]) -> None:
        """Finds the facts of all values in a function that can be reached, from those of its
        arguments."""
        for op in function.walk():
            self._order[op] = len(self._order)
        entry = function.regions[0].entry
        if entry is None:
            return
        for argument, fact in zip(entry.arguments, arguments, strict=True):
            self._weaken(argument, fact)
        self._enter(entry)
        while self._queue:
            _, op = heappop(self._queue)
            self._waiting.discard(op)
            self._visit(op)

    def _push(self, op: Operation) -> None:
        if op not in self._waiting and op.block in self._entered:
            self._waiting.add(op)
            heappush(self._queue, (self._order[op], op))

    def _enter(self, block: Block | None) -> None:
        if block is not None and block not in self._entered:
            self._entered.add(block)
            for op in block:
                self._push(op)

    def _weaken(self, value: Value, fact: Fact) -> None:
        old = self.facts.get(value)
        if old is not None:
            changes = self._changes.get(value, 0)
            fact = self.join(old, fact, value, changes)
            if fact == old:
                return
            self._changes[value] = changes + 1
        self.facts[value] = fact
        for user in value.users:
            self._push(user)

    def _flow(self, values: Sequence[Value], targets: Sequence[Value]) -> None:
        for value, target in zip(values, targets, strict=True):
            fact = self.facts.get(value)
            if fact is not None:
                self._weaken(target, fact)

    def _visit(self, op: Operation) -> None:
        facts = [self.facts.get(operand) for operand in op.operands]
        known = [fact for fact in facts if fact is not None]
        if len(known) < len(facts):
            return  # looked at again when they are there
        handler = _STRUCTURED.get(op.name)
        if handler is not None:
            handler(self, op)
            return
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    self._weaken(argument, self.entry(argument))
                self._enter(block)
        if op.results:
            for result, fact in zip(op.results, self.transfer(op, known), strict=True):
                self._weaken(result, fact)

    def _for(self, op: Operation) -> None:
        loop = ForLoop(op)
        bounds = (self.facts[value] for value in (loop.lower, loop.upper, loop.step))
        self._weaken(loop.iv, self.loop_variable(loop.iv, *bounds))
        self._flow(loop.inits, loop.iter_args)
        self._flow(loop.inits, loop.results)
        self._enter(loop.body)

    def _while(self, op: Operation) -> None:
        before = op.regions[0].blocks[0]
        self._flow(op.operands, before.arguments)
        self._enter(before)

    def _condition(self, op: Operation) -> None:
        loop = op.parent
        if loop is not None:
            after = loop.regions[1].blocks[0]
            self._flow(op.operands[1:], after.arguments)
            self._flow(op.operands[1:], loop.results)
            self._enter(after)

    def _if(self, op: Operation) -> None:
        branches = IfBranches(op)
        taken = self.decided(self.facts[branches.condition])
        if taken is not False:
            self._enter(branches.then_block)
        if taken is not True:
            self._enter(branches.else_block)

    def _yield(self, op: Operation) -> None:
        parent = op.parent
        if parent is None:
            return
        if parent.name == "scf.for":
            self._flow(op.operands, ForLoop(parent).iter_args)
        if parent.name == "scf.while":
            self._flow(op.operands, parent.regions[0].blocks[0].arguments)
        else:
            self._flow(op.operands, parent.results)

    def _branch(self, op: Operation) -> None:
        taken = self.decided(self.facts[op.operands[0]]) if op.name == "cf.cond_br" else None
        for index, block in enumerate(op.successors):
            if taken is None or taken == (index == 0):
                self._flow(block_operands(op, index), block.arguments)
                self._enter(block)


_STRUCTURED = {
    "scf.for": ForwardAnalysis._for,
    "scf.while": ForwardAnalysis._while,
    "scf.condition": ForwardAnalysis._condition,
    "scf.if": ForwardAnalysis._if,
    "scf.yield": ForwardAnalysis._yield,
    "cf.br": ForwardAnalysis._branch,
    "cf.cond_br": ForwardAnalysis._branch,
}
