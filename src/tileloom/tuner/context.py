"""What the parts of the tuner are told: the program, the machine, and where chance comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ..schedule.random import Random
from ..schedule.rv import BlockRV
from ..schedule.schedule import Schedule
from ..schedule.trace import Trace
from ..target import Target
from ..tir import IRModule


@dataclass(frozen=True)
class TuneContext:
    """A program to tune, and the machine it is for.

    Attributes:
        mod: one function of blocks, called "main".
        target: the machine.
        name: of the task, for people.
    """

    mod: IRModule
    target: Target
    name: str = field(default="main", compare=False)


class ScheduleRule(Protocol):
    """One idea of how a block can be scheduled.

    A rule takes steps on copies of a schedule (`Schedule.copy`) or on the schedule itself, which
    belongs to it. What it leaves open is drawn by sampling steps, so that a search can draw anew.
    """

    def apply(self, sch: Schedule, block: BlockRV, context: TuneContext) -> list[Schedule]:
        """The ways on from here; the schedule alone if the rule has nothing to say."""


class Postproc(Protocol):
    """A step after all sampling steps, which reads what rules have annotated."""

    def apply(self, sch: Schedule, context: TuneContext) -> bool:
        """Take it; whether the candidate is still one."""


class Mutator(Protocol):
    """Another decision for one sampling step of a trace."""

    def apply(self, trace: Trace, context: TuneContext, random: Random) -> Trace | None:
        """The trace with another decision; None if there is none to change."""
