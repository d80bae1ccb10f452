"""Design spaces: the schedules, open but for what sampling steps draw, that a search starts from.

A design space is a schedule whose trace is replayed with other decisions (see
`schedule.trace.Trace.apply_to_schedule`); `Trace.simplified` drops the look-ups that it does not
need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..schedule.errors import ScheduleError
from ..schedule.rv import BlockRV
from ..schedule.schedule import Schedule
from ..tir import Block, BlockRealize, IRModule, Stmt, stmt_children
from .context import ScheduleRule, TuneContext
from .kinds import rule_kind
from .rules.apply_custom_rule import SCHEDULE_RULE, ApplyCustomRule
from .rules.defaults import default_rules

_LOG = logging.getLogger("tileloom.tuner")


class SpaceGenerator(Protocol):
    """Where design spaces come from."""

    def generate(self, context: TuneContext, seed: int = 1) -> list[Schedule]:
        """The design spaces of a program; decisions that they hold are drawn from the seed."""


def design_spaces(
    context: TuneContext, rules: Sequence[ScheduleRule] | None = None, seed: int = 1
) -> list[Schedule]:
    """What rules make of a program: `PostOrderApply` in one call.

    Args:
        context: the program and the machine.
        rules: by default those of the machine.
        seed: of the decisions, from 1 to 2**31 - 1.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((128, 128), name="A"); k = te.reduce_axis((0, 128), "k")
    >>> B = te.placeholder((128, 128), name="B")
    >>> C = te.compute((128, 128), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> mod = IRModule({"main": te.create_prim_func([A, B, C])})
    >>> [len(sch.trace.simplified(True).insts)
    ...  for sch in design_spaces(TuneContext(mod, target("cpu -mcpu=x86-64-v3")))]
    [17, 17, 15]
    """
    return PostOrderApply(None if rules is None else tuple(rules)).generate(context, seed)


@dataclass(frozen=True, slots=True)
class PostOrderApply:
    """Apply each rule to every block, from the last one back, and follow all ways that it opens.

    Inner blocks come before the block that they are in, so rules see what uses a block before the
    block itself. A block that an earlier step has inlined is passed over. Blocks that name a rule
    of their own (see `ApplyCustomRule`) get that rule only. Where steps of a rule are refused, the
    block stays as it was, which the log "tileloom.tuner" tells.

    Attributes:
        rules: one after another; None takes those of the machine.
        block_filter: says which blocks to look at; all by default.
        make: makes the schedule that rules start from.

    Raises:
        ScheduleError: where two blocks of a function have one name.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((8,), name="A"); B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    >>> C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    >>> mod = IRModule({"main": te.create_prim_func([A, C])})
    >>> [sch] = PostOrderApply().generate(TuneContext(mod, target("cpu -mcpu=x86-64-v3")))
    >>> [step.kind.name for step in sch.trace.simplified(True).insts]
    ['GetBlock', 'GetBlock', 'ComputeInline', 'Annotate', 'Annotate']
    """

    rules: tuple[ScheduleRule, ...] | None = None
    block_filter: Callable[[Block], bool] | None = None
    make: Callable[..., Schedule] = Schedule

    def generate(self, context: TuneContext, seed: int = 1) -> list[Schedule]:
        """The design spaces of a program."""
        rules = default_rules(rule_kind(context.target)) if self.rules is None else self.rules
        start = self.make(context.mod, seed=seed)
        blocks = [start.get_block(block, func) for func, block in self._names(start.mod)]
        results = [start]
        for rule in rules:
            waiting = [(sch, len(blocks)) for sch in results]
            results = []
            while waiting:
                sch, left = waiting.pop()
                if left == 0:
                    results.append(sch)
                else:
                    ways = _ways_on(rule, sch, blocks[left - 1], context)
                    waiting += [(way, left - 1) for way in ways]
        return results

    def _names(self, mod: IRModule) -> Iterator[tuple[str, str]]:
        """The functions and names of the blocks that rules look at."""
        for name, func in mod.functions.items():
            for block in _post_order(func.body):
                if self.block_filter is None or self.block_filter(block):
                    yield name, block.name_hint


def _post_order(stmt: Stmt) -> Iterator[Block]:
    """The blocks of a statement, inner ones before the one that they are in."""
    for child in stmt_children(stmt):
        yield from _post_order(child)
    if isinstance(stmt, BlockRealize):
        yield stmt.block


def _ways_on(
    rule: ScheduleRule, sch: Schedule, block: BlockRV, context: TuneContext
) -> list[Schedule]:
    try:
        stmt = sch.get(block)
    except ScheduleError:  # a step before has inlined it
        return [sch]
    if isinstance(rule, ApplyCustomRule):
        return rule.apply(sch, block, context)
    if SCHEDULE_RULE in stmt.annotations:
        return [sch]
    before = sch.copy()
    try:
        return rule.apply(sch, block, context)
    except ScheduleError as error:
        _LOG.info("%s leaves block %r as it is: %s", rule, stmt.name_hint, error)
        return [before]


@dataclass(frozen=True, slots=True)
class ScheduleFn:
    """The design spaces that a function of the user makes.

    Attributes:
        func: takes steps on the schedule that it is given; returns nothing, a schedule, or several.
        make: makes that schedule.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((64,), name="A"); B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    >>> def by_two(sch):
    ...     loop, = sch.get_loops("B")
    ...     sch.split(loop, sch.sample_perfect_tile(loop, 2))
    >>> context = TuneContext(IRModule({"main": te.create_prim_func([A, B])}), target("cpu"))
    >>> [sch] = ScheduleFn(by_two).generate(context)
    >>> [step.kind.name for step in sch.trace.insts]
    ['GetBlock', 'GetLoops', 'SamplePerfectTile', 'Split']
    """

    func: Callable[[Schedule], Schedule | Sequence[Schedule] | None]
    make: Callable[..., Schedule] = Schedule

    def generate(self, context: TuneContext, seed: int = 1) -> list[Schedule]:
        """What the function has made."""
        sch = self.make(context.mod, seed=seed)
        found = self.func(sch)
        if found is None:
            return [sch]
        return [found] if isinstance(found, Schedule) else list(found)


@dataclass(frozen=True, slots=True)
class SpaceGeneratorUnion:
    """The design spaces of several generators, one after another.

    Attributes:
        generators: where they come from.

    >>> from tileloom import te
    >>> from tileloom.target import target
    >>> A = te.placeholder((64,), name="A"); B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    >>> context = TuneContext(IRModule({"main": te.create_prim_func([A, B])}), target("cpu"))
    >>> union = SpaceGeneratorUnion((PostOrderApply(), ScheduleFn(lambda sch: None)))
    >>> len(union.generate(context))
    2
    """

    generators: tuple[SpaceGenerator, ...]

    def generate(self, context: TuneContext, seed: int = 1) -> list[Schedule]:
        """The design spaces of all."""
        return [sch for part in self.generators for sch in part.generate(context, seed)]
