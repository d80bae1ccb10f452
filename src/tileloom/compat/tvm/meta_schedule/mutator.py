"""`tvm.meta_schedule.mutator`: our mutators by TVM's names, and those of users."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ....schedule import Trace
from ....schedule.random import Random
from ....tuner import context as tuner
from ....tuner import mutators
from ....tuner.mutators.defaults import default_mutators
from .._names import missing
from .schedule_rule import known_kind
from .tune_context import TuneContext
from .utils import NotOverriddenError, Overridable, checked


class Mutator(Overridable):
    """Another decision in a trace; `mutator` is ours."""

    mutator: Any = None
    context: TuneContext | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self.context = context

    def apply(self, trace: Trace) -> Trace | None:
        """The trace with another decision; None if there is none to change."""
        context = self.context or TuneContext()
        return self.drawn(trace, context.of(None), context.random)

    def drawn(self, trace: Trace, context: tuner.TuneContext, random: Random) -> Trace | None:
        """The same, told where chance comes from."""
        found: Trace | None = self.mutator.apply(trace, context, random)
        return found

    def clone(self) -> Mutator:
        """The mutator for another context."""
        return wrapped(self.mutator)

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """Those of a kind of machine, and how likely each is taken."""
        return {wrapped(mutator): share for mutator, share in default_mutators(known_kind(kind))}


_CLASSES: dict[type, type[Mutator]] = {}


def wrapped(mutator: Any) -> Mutator:
    """Our mutator as an object of TVM's class."""
    made = object.__new__(_CLASSES[type(mutator)])
    made.mutator = mutator
    return made


class _BuiltIn(Mutator):
    """A mutator of ours."""

    ours: ClassVar[type]

    def __init_subclass__(cls) -> None:
        _CLASSES[cls.ours] = cls

    def __init__(self) -> None:
        self.mutator = self.ours()


class PyMutator(Mutator):
    """A mutator of the user's: `apply(trace)`, or `apply(trace, seed)`, answers another trace."""

    def apply(self, trace: Trace, *_seed: Any) -> Trace | None:
        """To be defined."""
        raise NotOverriddenError.of("PyMutator", "Apply", "apply")

    def drawn(self, trace: Trace, context: tuner.TuneContext, random: Random) -> Trace | None:
        """What the user's method answers."""
        takes_seed = len(inspect.signature(self.apply).parameters) > 1
        return self.apply(trace, *([random.fork_seed()] if takes_seed else []))

    def clone(self) -> Mutator:
        """The mutator itself, unless it says otherwise."""
        return self


@dataclass(frozen=True, slots=True)
class TunerMutator:
    """A mutator of TVM's kind as the tuner applies it."""

    mutator: Mutator

    def apply(self, trace: Trace, context: tuner.TuneContext, random: Random) -> Trace | None:
        """The trace with another decision."""
        return self.mutator.drawn(trace, context, random)


def tuner_mutators(found: Sequence[Any]) -> tuple[TunerMutator, ...]:
    """Mutators as the tuner takes them."""
    return tuple(map(TunerMutator, checked(found, Mutator, "mutators")))


class MutateComputeLocation(_BuiltIn):
    """Another loop under which a block is computed."""

    ours = mutators.MutateComputeLocation


class MutateParallel(_BuiltIn):
    """Other loops are shared among the cores."""

    ours = mutators.MutateParallel

    def __init__(self, max_jobs_per_core: int) -> None:
        self.mutator = self.ours(max_jobs_per_core)


class MutateThreadBinding(_BuiltIn):
    """Another number of threads."""

    ours = mutators.MutateThreadBinding


class MutateTileSize(_BuiltIn):
    """Other tiles."""

    ours = mutators.MutateTileSize


class MutateUnroll(_BuiltIn):
    """Another limit for unrolled loops."""

    ours = mutators.MutateUnroll


__getattr__ = missing(__name__)
