"""`tvm.meta_schedule.space_generator`: where design spaces come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from ....base.errors import UserError
from ....schedule import Schedule as OurSchedule
from ....tir import Block, IRModule, PrimFunc, pre_order
from ....tuner import design_space
from ....tuner.kinds import IN_TVM, rule_kind
from .._names import missing
from ..ir.module import as_module
from ..tir.schedule import Schedule
from .mutator import Mutator
from .postproc import Postproc
from .schedule_rule import ScheduleRule, tuner_rules
from .tune_context import TuneContext, normalize_mod
from .utils import NotOverriddenError, Overridable, global_func

_OF_TARGET = "from-target"


class SpaceGenerator(Overridable):
    """Makes design spaces, and says which rules, postprocessors and mutators go with them.

    Each of the three is a list (a dictionary with probabilities for mutators), the name of a kind
    of machine, or "from-target".
    """

    sch_rules: Any = _OF_TARGET
    postprocs: Any = _OF_TARGET
    mutator_probs: Any = _OF_TARGET
    context: TuneContext | None = None

    def __init__(
        self,
        sch_rules: Any = _OF_TARGET,
        postprocs: Any = _OF_TARGET,
        mutator_probs: Any = _OF_TARGET,
    ) -> None:
        self.sch_rules = _made(ScheduleRule, sch_rules)
        self.postprocs = _made(Postproc, postprocs)
        self.mutator_probs = _made(Mutator, mutator_probs)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context
        kind = None if context.target is None else _kind(context)
        self.sch_rules = _of_target(ScheduleRule, self.sch_rules, kind)
        self.postprocs = _of_target(Postproc, self.postprocs, kind)
        self.mutator_probs = _of_target(Mutator, self.mutator_probs, kind)
        for part in (*self.sch_rules, *self.postprocs, *self.mutator_probs):
            part._initialize_with_tune_context(context)

    def generate_design_space(self, mod: PrimFunc | IRModule) -> list[OurSchedule]:
        """The design spaces of a program."""
        program = normalize_mod(mod) if isinstance(mod, PrimFunc) else as_module(mod)
        return self._spaces(program)

    def _spaces(self, mod: IRModule) -> list[OurSchedule]:
        raise NotOverriddenError.of(
            type(self).__name__, "GenerateDesignSpace", "generate_design_space"
        )

    def clone(self) -> SpaceGenerator:
        """A generator for another context."""
        other = copy(self)
        for name in ("sch_rules", "postprocs"):
            parts = getattr(self, name)
            if not isinstance(parts, str):
                setattr(other, name, [part.clone() for part in parts])
        if not isinstance(self.mutator_probs, str):
            shares = self.mutator_probs.items()
            other.mutator_probs = {part.clone(): share for part, share in shares}
        return other

    @staticmethod
    def create(kind: Any = "post-order-apply", *args: Any, **options: Any) -> SpaceGenerator:
        """A generator by its name, or of a function that schedules."""
        if callable(kind):
            return ScheduleFn(kind, *args, **options)
        kinds: dict[str, Callable[..., SpaceGenerator]] = {
            "post-order-apply": PostOrderApply,
            "union": SpaceGeneratorUnion,
        }
        if kind not in kinds:
            raise ValueError(f"unknown space generator {kind!r}, known are {list(kinds)}")
        return kinds[kind](*args, **options)


def _made(cls: Any, given: Any) -> Any:
    """Rules and the like: those of a kind of machine if that is what is given."""
    if isinstance(given, str) and given != _OF_TARGET:
        return cls.create(given)
    return given


def _of_target(cls: Any, given: Any, kind: str | None) -> Any:
    if given is not None and not isinstance(given, str):
        return given
    return [] if kind is None else cls.create(kind)


class PySpaceGenerator(SpaceGenerator):
    """A generator of the user's: `generate_design_space(mod)` and
    `_initialize_with_tune_context(context)`."""

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        raise NotOverriddenError.of(
            "PySpaceGenerator", "InitializeWithTuneContext", "_initialize_with_tune_context"
        )

    def generate_design_space(self, mod: PrimFunc | IRModule) -> list[OurSchedule]:
        """To be defined."""
        raise NotOverriddenError.of(
            "PySpaceGenerator", "GenerateDesignSpace", "generate_design_space"
        )

    def clone(self) -> SpaceGenerator:
        """The generator itself, unless it says otherwise."""
        return self


class PostOrderApply(SpaceGenerator):
    """All rules at all blocks, from the last block back."""

    def __init__(
        self,
        f_block_filter: Callable[[Block], bool] | str | None = None,
        sch_rules: Any = _OF_TARGET,
        postprocs: Any = _OF_TARGET,
        mutator_probs: Any = _OF_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = global_func(f_block_filter)

    def _spaces(self, mod: IRModule) -> list[OurSchedule]:
        _refuse_duplicates(mod)
        context = self.context or TuneContext(mod)
        rules = _of_target(ScheduleRule, self.sch_rules, _kind(context))
        generator = design_space.PostOrderApply(
            tuner_rules(rules), self.f_block_filter, Schedule.build
        )
        return generator.generate(context.of(mod), context.random.fork_seed())


def _kind(context: TuneContext) -> str:
    """The kind of a machine, one of TVM's."""
    kind = rule_kind(context.machine)
    return IN_TVM.get(kind, kind)


def _refuse_duplicates(mod: IRModule) -> None:
    for name, func in mod.functions.items():
        known: set[str] = set()
        for block in _blocks(func):
            if block.name_hint in known:
                raise UserError(
                    f"Duplicated block name {block.name_hint} in function {name} not supported!",
                    hint="give each block a name of its own",
                )
            known.add(block.name_hint)


def _blocks(func: PrimFunc) -> Iterator[Block]:
    return (stmt for stmt in pre_order(func.body) if isinstance(stmt, Block))


class ScheduleFn(SpaceGenerator):
    """The design spaces that a function of the user's makes."""

    def __init__(
        self,
        sch_fn: Callable[[OurSchedule], Any],
        sch_rules: Any = _OF_TARGET,
        postprocs: Any = _OF_TARGET,
        mutator_probs: Any = _OF_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.sch_fn = sch_fn

    def _spaces(self, mod: IRModule) -> list[OurSchedule]:
        context = self.context or TuneContext(mod)
        generator = design_space.ScheduleFn(self.sch_fn, Schedule.build)
        return generator.generate(context.of(mod), context.random.fork_seed())


class SpaceGeneratorUnion(SpaceGenerator):
    """The design spaces of several generators."""

    def __init__(
        self,
        space_generators: Sequence[SpaceGenerator],
        sch_rules: Any = _OF_TARGET,
        postprocs: Any = _OF_TARGET,
        mutator_probs: Any = _OF_TARGET,
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.space_generators = list(space_generators)

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        for generator in self.space_generators:
            generator._initialize_with_tune_context(context)

    def generate_design_space(self, mod: PrimFunc | IRModule) -> list[OurSchedule]:
        """The design spaces of each, one after another."""
        return [sch for each in self.space_generators for sch in each.generate_design_space(mod)]


__getattr__ = missing(__name__)
